package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

// TestSilence: a server that takes a connection and says nothing is given up, however far it came; one that is slow is not; and
// who does not want to wait any more does not.
func TestSilence(t *testing.T) {
	for name, tt := range map[string]struct {
		serve func(nc net.Conn)
		wait  int32         // of the fetch, in ms
		gone  time.Duration // the caller is, then; 0: it stays
		kind  abi.Kind
		took  time.Duration
	}{
		"takes nothing":      {func(net.Conn) {}, 0, 0, abi.Deadline, silence},
		"says nothing":       {func(nc net.Conn) { io.Copy(io.Discard, nc) }, 0, 0, abi.Deadline, silence},
		"may wait":           {func(nc net.Conn) { io.Copy(io.Discard, nc) }, 5000, 0, abi.Deadline, silence + 5*time.Second},
		"stops half-way":     {func(nc net.Conn) { takeRequest(nc); nc.Write([]byte{0, 0, 0}) }, 0, 0, abi.Deadline, silence},
		"is slow":            {slowly, 0, 0, 0, 3 * (silence - 1)},
		"the caller is gone": {func(nc net.Conn) { io.Copy(io.Discard, nc) }, 0, time.Second, abi.Unavailable, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				done := make(chan struct{})
				go func() { tt.serve(far); close(done) }() // ends when near is closed, below
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				gone := errors.New("no more")
				if tt.gone > 0 {
					time.AfterFunc(tt.gone, func() { cancel(gone) })
				}
				q, began := kmsg.NewPtrFetchRequest(), time.Now()
				q.Version, q.MaxWaitMillis = 11, tt.wait
				err := (&wire{address: "broker:9092", nc: near}).ask(ctx, q, kmsg.NewPtrFetchResponse())
				if took := time.Since(began); abi.KindOf(err) != tt.kind || took != tt.took || tt.gone > 0 && !errors.Is(err, gone) {
					t.Errorf("%v after %v; want %v after %v", err, took, tt.kind, tt.took)
				}
				near.Close()
				<-done
			})
		})
	}
}

func takeRequest(nc net.Conn) {
	var n [4]byte
	io.ReadFull(nc, n[:])
	io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(n[:])))
}

// slowly answers in three parts, none of which is too late.
func slowly(nc net.Conn) {
	takeRequest(nc)
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 11
	body := resp.AppendTo([]byte{0, 0, 0, 0, 0, 0, 0, 1})
	binary.BigEndian.PutUint32(body, uint32(len(body)-4))
	for _, part := range [][]byte{body[:3], body[3:12], body[12:]} {
		time.Sleep(silence - 1)
		nc.Write(part)
	}
}
