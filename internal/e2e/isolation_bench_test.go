package e2e

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

// farStore is a backend behind 30 ms.
type farStore struct{ abi.RemoteStorageManager }

func (s farStore) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	select {
	case <-time.After(30 * time.Millisecond):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	src, err := s.RemoteStorageManager.FetchLogSegment(ctx, seg, r)
	if err == nil && src.Location != nil {
		src.Location.ExpiresAt = time.Now() // so that it is asked each time
	}
	return src, err
}

func fetchOne(h *host.Host, topic string, partition int32, offset, maxBytes int64) reader.Code {
	resp := h.Fetch(context.Background(), &reader.FetchRequest{ReplicaID: locality.Consumer, MaxBytes: maxBytes, Partitions: []reader.FetchPartition{
		{Topic: topic, Partition: partition, Offset: offset, MaxBytes: maxBytes, CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined}}})
	defer resp.Release()
	return resp.Partitions[0].Code
}

// BenchmarkLocalWhileRemoteIsSaturated measures local fetches of 32 KiB, alone and while 200 clients keep the remote
// readers and their queue full, in turns. p99-ratio is the loaded p99 over the idle one.
func BenchmarkLocalWhileRemoteIsSaturated(b *testing.B) {
	cfg := fixtureConfig(builtIn(b, filepath.Join(fixtures, "txn", "remote"), "location"), "txn")
	cfg.RSM = farStore{cfg.RSM}
	h := openHost(b, cfg)
	local := func() time.Duration {
		began := time.Now()
		if code := fetchOne(h, "payments", 1, 0, 32<<10); code != reader.None {
			b.Fatal(code)
		}
		return time.Since(began)
	}
	var idle, loaded []time.Duration
	b.ResetTimer()
	const each = 20_000
	for range max(1, b.N/each) {
		for range each {
			idle = append(idle, local())
		}
		stop := saturate(h)
		for range each {
			loaded = append(loaded, local())
		}
		stop()
	}
	b.StopTimer()
	b.ReportMetric(float64(p99(idle).Microseconds()), "idle-p99-us")
	b.ReportMetric(float64(p99(loaded).Microseconds()), "loaded-p99-us")
	b.ReportMetric(float64(p99(loaded))/float64(p99(idle)), "p99-ratio")
}

// saturate keeps 200 remote fetches running until the function that it gives is called.
func saturate(h *host.Host) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					fetchOne(h, "payments", 0, 0, 32<<10)
				}
			}
		})
	}
	for h.Stats().Reader.Pool.Queued < 50 { // their beginning is not what is measured
		runtime.Gosched()
	}
	return func() {
		close(done)
		wg.Wait()
	}
}

func p99(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)*99/100]
}
