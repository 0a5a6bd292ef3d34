package e2e

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/plugins/layout/kafkalocal"
)

const (
	benchBatch   = 64 << 10
	benchBatches = 1024 // 64 MiB
	benchFetch   = 1 << 20
)

// benchData writes one tiered segment of 64 MiB in batches of 64 KiB, with its metadata, and gives its folder.
func benchData(b *testing.B) string {
	b.Helper()
	id := abi.TopicIDPartition{Topic: "bench", TopicID: kafkabytes.ID(1)}
	var batches []kafkabytes.Batch
	for i := range int64(benchBatches) {
		batches = append(batches, kafkabytes.Batch{Base: i * 64, Last: i*64 + 63, Size: benchBatch})
	}
	seg := kafkabytes.NewSegment(b, id, 7, batches...)
	dir := b.TempDir()
	kafkabytes.WriteMetadata(b, dir, kafkabytes.Finished(seg)...)
	log, err := kafkalocal.LogPath(&seg.Meta)
	if err != nil {
		b.Fatal(err)
	}
	log = filepath.Join(dir, log)
	kafkabytes.WriteFile(b, log, seg.Log)
	kafkabytes.WriteFile(b, strings.TrimSuffix(log, ".log")+".index", seg.OffsetIndex)
	kafkabytes.WriteFile(b, strings.TrimSuffix(log, ".log")+".leader_epoch_checkpoint", seg.Epochs)
	return dir
}

// fetcher gives a function that reads 1 MiB from the next place of the segment.
func fetcher(b *testing.B, h *host.Host) func() {
	b.Helper()
	at := int64(0)
	req := &reader.FetchRequest{ReplicaID: locality.Consumer, MaxBytes: benchFetch, Partitions: []reader.FetchPartition{{Topic: "bench",
		CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined, MaxBytes: benchFetch}}}
	return func() {
		req.Partitions[0].Offset = at
		resp := h.Fetch(context.Background(), req)
		if p := &resp.Partitions[0]; p.Code != reader.None || len(p.Records) != benchFetch {
			b.Fatalf("offset %d: %v, %d bytes: %v", at, p.Code, len(p.Records), p.Err)
		}
		resp.Release()
		at = (at + 64*benchFetch/benchBatch) % (64 * (benchBatches - 16))
	}
}

// variants are the ways in which a plugin answers.
func variants(b *testing.B, data string) map[string]func(mode string) host.Config {
	art := artifacts(b)
	plugin := func(ref string) func(string) host.Config {
		return func(mode string) host.Config {
			return host.Config{Plugin: ref, PluginConfig: map[string]string{"root": data, "mode": mode}, CacheDir: filepath.Join(art.cache, filepath.Base(ref))}
		}
	}
	return map[string]func(string) host.Config{
		"built-in": func(mode string) host.Config { return builtIn(b, data, mode) },
		"wasm":     plugin(art.wasm),
		"process":  plugin(art.process),
	}
}

// BenchmarkFetch1MiB reads 1 MiB from a tiered segment. Each variant runs in turn with built-in code that answers with a
// location, so that a drift of the machine meets both; x-built-in is how many times as fast it is, as the median, the
// smallest and the largest of rounds of 16 fetches.
func BenchmarkFetch1MiB(b *testing.B) {
	data := benchData(b)
	all := variants(b, data)
	for _, name := range []string{"built-in", "wasm", "process"} {
		for _, mode := range []string{"location", "stream"} {
			b.Run(name+"/"+mode, func(b *testing.B) { benchAgainst(b, data, all["built-in"]("location"), all[name](mode)) })
		}
	}
}

const round = 16

func benchAgainst(b *testing.B, data string, base, cfg host.Config) {
	base.Metadata, cfg.Metadata = "dir:"+data, "dir:"+data
	reference, subject := fetcher(b, openHost(b, base)), fetcher(b, openHost(b, cfg))
	for range 2 * round { // warm: buffers, locations, indexes
		reference()
		subject()
	}
	var ratios []float64
	b.SetBytes(benchFetch)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; {
		n := min(round, b.N-done)
		b.StopTimer()
		want := timed(n, reference)
		b.StartTimer()
		got := timed(n, subject)
		if n == round {
			ratios = append(ratios, float64(want)/float64(got))
		}
		done += n
	}
	if len(ratios) > 0 {
		slices.Sort(ratios)
		b.ReportMetric(ratios[len(ratios)/2], "x-built-in")
		b.ReportMetric(ratios[0], "x-min")
		b.ReportMetric(ratios[len(ratios)-1], "x-max")
	}
}

func timed(n int, fn func()) time.Duration {
	began := time.Now()
	for range n {
		fn()
	}
	return time.Since(began)
}

// BenchmarkStart measures a plugin from nothing to its first answer: cold with an empty cache of compiled modules, warm
// with a filled one.
func BenchmarkStart(b *testing.B) {
	data := benchData(b)
	art := artifacts(b)
	for _, s := range []struct {
		name, ref string
		cold      bool
	}{{"wasm/cold", art.wasm, true}, {"wasm/warm", art.wasm, false}, {"process", art.process, false}} {
		b.Run(s.name, func(b *testing.B) {
			cache := b.TempDir()
			if !s.cold {
				startAndFetch(b, s.ref, data, cache)
			}
			for b.Loop() {
				if s.cold {
					cache = b.TempDir()
				}
				startAndFetch(b, s.ref, data, cache)
			}
		})
	}
}

func startAndFetch(b *testing.B, ref, data, cache string) {
	b.Helper()
	cfg := host.Config{Plugin: ref, PluginConfig: map[string]string{"root": data}, Metadata: "dir:" + data, CacheDir: cache}
	h, err := host.Open(context.Background(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	fetcher(b, h)()
	if err := h.Close(); err != nil {
		b.Fatal(err)
	}
}
