package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/plugins/layout/kafkalocal"
	"github.com/rsmhost/rsmhost/plugins/localfs"
)

// far is the name under which this test binary is the plugin localfs behind 30 ms.
const far = "rsm-far"

func farPlugin() sdk.Plugin {
	p := localfs.Plugin()
	open := p.New
	p.New = func(ctx context.Context, c *sdk.Config) (abi.RemoteStorageManager, error) {
		rsm, err := open(ctx, c)
		return farStore{rsm}, err
	}
	return p
}

// loadFlags writes 500 partitions of the topic "far", which lie in the remote tier, and 500 of "near", which lie in the
// local one, of 16 batches of so many bytes each, and gives the flags that serve them.
func loadFlags(t testing.TB, batch int) []string {
	t.Helper()
	const partitions = 500
	meta, remote, local := t.TempDir(), t.TempDir(), t.TempDir()
	batches := make([]kafkabytes.Batch, 16)
	for i := range batches {
		batches[i] = kafkabytes.Batch{Base: int64(i * 10), Last: int64(i*10 + 9), Size: batch}
	}
	var events []any
	like := kafkabytes.NewSegment(t, abi.TopicIDPartition{}, 1, batches...) // each of them holds the same
	for n := range partitions {
		id := abi.TopicIDPartition{Topic: "far", TopicID: kafkabytes.ID(1), Partition: int32(n)}
		s := *like
		s.Meta.TopicIDPartition = id
		binary.BigEndian.PutUint64(s.Meta.SegmentID[:], uint64(n+1))
		events = append(events, kafkabytes.Finished(&s)...)
		log, err := kafkalocal.LogPath(&s.Meta)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(filepath.Join(remote, log), ".log")
		kafkabytes.WriteFile(t, base+".log", s.Log)
		kafkabytes.WriteFile(t, base+".index", s.OffsetIndex)
		kafkabytes.WriteFile(t, base+".leader_epoch_checkpoint", s.Epochs)
		kafkabytes.WriteFile(t, base+".snapshot", kafkabytes.Snapshot())
		id.Topic, id.TopicID = "near", kafkabytes.ID(2)
		kafkabytes.WriteLog(t, local, id, like)
	}
	kafkabytes.WriteMetadata(t, meta, events...)
	return []string{"--metadata", "dir:" + meta, "--log-dir", local, "--plugin", asPlugin(t, far), "--plugin-config", "root=" + remote}
}

// reading is clients that fetch, five partitions each.
type reading struct {
	topic   string
	clients int
	every   time.Duration // in the mean, as independent clients ask: the times between are exponential, the same in each run; 0: at once
	spread  time.Duration // they begin over this time: clients that nobody started together do not ask together
	got     *atomic.Int64 // bytes of records; nil: nobody counts
}

// run fetches until stop is closed, and gives how long each answer took but a connection's first.
func (r reading) run(t testing.TB, address string, stop <-chan struct{}) (took []time.Duration) {
	if err := r.all(address, stop, &took); err != nil {
		t.Error(err)
	}
	return took
}

// all is run without a test. took may be nil.
func (r reading) all(address string, stop <-chan struct{}, took *[]time.Duration) error {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for i := range r.clients {
		wg.Go(func() {
			own, err := r.client(address, int32(i*5), time.Duration(i)*r.spread/time.Duration(r.clients), stop)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s, client %d: %w", r.topic, i, err))
			}
			if took != nil {
				*took = append(*took, own...)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// client is one of them.
func (r reading) client(address string, first int32, delay time.Duration, stop <-chan struct{}) (took []time.Duration, err error) {
	c, err := dialRaw(address)
	if err != nil {
		return nil, err
	}
	defer c.nc.Close()
	q := fetchByName(r.topic, 16<<10, first, first+1, first+2, first+3, first+4)
	begun := false
	rng := rand.New(rand.NewPCG(1, uint64(first)))
	next := time.NewTimer(delay)
	defer next.Stop()
	for {
		select {
		case <-stop:
			return took, nil
		case <-next.C:
		}
		next.Reset(time.Duration(rng.ExpFloat64() * float64(r.every)))
		began := time.Now()
		resp, err := c.ask(q)
		if err != nil {
			return took, err
		}
		n, err := received(resp)
		switch {
		case errors.Is(err, errStillRead): // and the next one may have it
		case err != nil:
			return took, err
		case n > 0 && begun:
			took = append(took, time.Since(began))
		}
		begun = true
		if r.got != nil {
			r.got.Add(n)
		}
	}
}

// farClients is the name under which this test binary is the clients of the remote tier: in a process of their own, what they
// cost is not taken for the server's.
const farClients = "far-clients"

// readFar fetches from the address that it is given until its input ends, and prints how many bytes of records it got.
func readFar() int {
	uncollected()
	var got atomic.Int64
	stop := make(chan struct{})
	go func() { // ends with its input, and with it the process
		io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	if err := (reading{"far", 100, 0, 500 * time.Millisecond, &got}).all(os.Args[1], stop, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(got.Load())
	return 0
}

// uncollected lets a process of clients grow to 512 MiB before it is collected: its collections are not the server's.
func uncollected() (before int) {
	debug.SetMemoryLimit(512 << 20)
	return debug.SetGCPercent(-1)
}

// startFar starts them, and gives what ends them and says how many bytes of records they got.
func startFar(b *testing.B, address string) (stop func() (got float64)) {
	b.Helper()
	var out bytes.Buffer
	cmd := exec.Command(asPlugin(b, farClients), address)
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return func() (got float64) {
		in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
		if _, err := fmt.Sscan(out.String(), &got); err != nil {
			b.Error(err)
		}
		return got
	}
}

// BenchmarkServeLoad measures `rsmhost serve` on 1,000 partitions: 100 connections fetch local ones ten times a second each,
// independently of one another, alone and while 100 more fetch remote ones as fast as a store of 30 ms lets them, in turns.
// p99-ratio is the loaded p99 over the idle one; far-MiB/s is what the remote ones got meanwhile, server-us and plugin-us the CPU
// that a remote read costs more than those that there were without, rss-MiB the server's memory with all connections open.
func BenchmarkServeLoad(b *testing.B) {
	const batch, phase = 16 << 10, 5 * time.Second
	s := startServe(b, "", loadFlags(b, batch)...)
	near := reading{"near", 100, 100 * time.Millisecond, 100 * time.Millisecond, nil}
	before := uncollected()
	defer func() { debug.SetGCPercent(before); debug.SetMemoryLimit(math.MaxInt64) }()
	var idle, loaded []time.Duration
	rss, got, meanwhile := 0.0, 0.0, time.Duration(0)
	plugin := onlyChild(b, s.cmd.Process.Pid)
	var serverCPU, pluginCPU time.Duration // of the loaded phases, less what it was in the idle ones
	measure := func() []time.Duration {
		stop := make(chan struct{})
		timer := time.AfterFunc(phase, func() { rss = max(rss, resident(b, s.cmd.Process.Pid)); close(stop) })
		defer timer.Stop()
		return near.run(b, s.address, stop)
	}
	b.ResetTimer()
	for range b.N {
		server := cpuTime(b, s.cmd.Process.Pid)
		idle = append(idle, measure()...)
		serverCPU -= cpuTime(b, s.cmd.Process.Pid) - server
		began, stop := time.Now(), startFar(b, s.address)
		<-time.After(time.Second) // they are all there, and their wait is in its rhythm
		server, farAway := cpuTime(b, s.cmd.Process.Pid), cpuTime(b, plugin)
		loaded = append(loaded, measure()...)
		serverCPU += cpuTime(b, s.cmd.Process.Pid) - server
		pluginCPU += cpuTime(b, plugin) - farAway
		got, meanwhile = got+stop(), meanwhile+time.Since(began)
	}
	b.StopTimer()
	b.ReportMetric(float64(p99(idle).Microseconds()), "idle-p99-us")
	b.ReportMetric(float64(p99(loaded).Microseconds()), "loaded-p99-us")
	b.ReportMetric(float64(p99(loaded))/float64(p99(idle)), "p99-ratio")
	b.ReportMetric(got/meanwhile.Seconds()/(1<<20), "far-MiB/s")
	reads := got / batch / meanwhile.Seconds() * phase.Seconds() * float64(b.N)
	b.ReportMetric(float64(serverCPU.Microseconds())/reads, "server-us")
	b.ReportMetric(float64(pluginCPU.Microseconds())/reads, "plugin-us")
	b.ReportMetric(rss, "rss-MiB")
}
