package server

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// TestFilesChangeUnderReaders: segments are deleted as Kafka does it, cut, replaced and put back while clients read them by
// sendfile and the host looks: a client gets whole batches or the end of its connection, never bytes of something else, and
// what was open is closed.
func TestFilesChangeUnderReaders(t *testing.T) {
	dir, id := t.TempDir(), tp("orders")
	segs := []*kafkabytes.Segment{kafkabytes.NewSegment(t, id, 1, kafkabytes.Batch{Base: 0, Last: 9, Size: 300_000, ProducerID: -1}),
		kafkabytes.NewSegment(t, id, 2, kafkabytes.Batch{Base: 10, Last: 19, Size: 300_000, ProducerID: -1})}
	kafkabytes.WriteLog(t, dir, id, segs...)
	v := serve(t, dir, Options{})
	topic, last := v.host.Topics()[0], filepath.Join(dir, "orders-0", format.SegmentFileName(10, "")+".log")
	look := func() { v.host.Look(context.Background()) } // what it makes of half of a change is not the question
	steps := []func(){
		func() { os.Rename(last, last+".deleted") },
		func() { os.Remove(last + ".deleted") },
		func() { os.WriteFile(last+".new", segs[1].Log, 0o600); os.Rename(last+".new", last) },
		func() { os.Truncate(last, 100_000) },
		func() { os.WriteFile(last, segs[1].Log, 0o600) },
		func() { os.Truncate(last, 0) },
		func() { os.Remove(last); os.WriteFile(last, segs[1].Log, 0o600) },
	}
	before := openFiles(t)
	whole := 0
	hammer.Run(t, 4, 150, func(p, n int) {
		if p == 0 {
			steps[n%len(steps)]()
			look()
			return
		}
		if b := fetchOnce(t, v, fetchOf(topic, 10*int64(n%2), 0)); len(b) > 0 {
			recs, _ := records(t, b)
			if first := recs[0].Offset; first != 0 && first != 10 {
				t.Errorf("a record of offset %d", first)
			}
			if p == 1 {
				whole++
			}
		}
	})
	if whole == 0 {
		t.Error("no answer had records")
	}
	os.WriteFile(last, segs[1].Log, 0o600)
	look()
	if got := offsets(t, v, "orders", 0, 4); len(got) != 4 { // two a batch
		t.Errorf("afterwards %v", got)
	}
	hammer.Eventually(t, 20*time.Second, func() bool {
		runtime.GC() // replaced views are closed when nobody holds them
		return openFiles(t) <= before+4
	})
}

// openFiles counts this process's.
func openFiles(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// fetchOnce gives the records of one fetch; nil where the connection ended.
func fetchOnce(t *testing.T, v *served, q *kmsg.FetchRequest) []byte {
	w := v.dial(t)
	defer w.nc.Close()
	w.nc.Write(frame(q, 1))
	var size [4]byte
	if _, err := io.ReadFull(w.nc, size[:]); err != nil {
		return nil
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.nc, b); err != nil {
		return nil
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.SetVersion(q.Version)
	if err := resp.ReadFrom(b[5:]); err != nil {
		t.Errorf("%v", err)
		return nil
	}
	if len(resp.Topics) == 0 {
		return nil
	}
	return resp.Topics[0].Partitions[0].RecordBatches
}
