package replay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
)

const (
	answerMax   = 256 << 20        // bytes of an answer
	dialTimeout = 10 * time.Second // to connect, and to log in

	// silence is how long a server may take, beyond what a fetch gives it, until something comes. A broker gives a lookup by time
	// in its remote tier half of it.
	silence = time.Minute
)

// wire is a connection to a broker, which answers one request at a time. After a failure every answer is that error.
type wire struct {
	address string

	mu          sync.Mutex // guards what follows: one request at a time
	nc          net.Conn
	correlation int32
	err         error
}

// ask sends a request and reads its answer.
func (w *wire) ask(ctx context.Context, q kmsg.Request, resp kmsg.Response) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	stop := context.AfterFunc(ctx, func() { w.nc.SetDeadline(time.Now()) })
	defer stop()
	wait := silence
	if f, ok := q.(*kmsg.FetchRequest); ok {
		wait += time.Duration(f.MaxWaitMillis) * time.Millisecond
	}
	if err := w.exchangeLocked(ctx, wait, q, resp); err != nil {
		kind := abi.Unavailable
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case errors.Is(err, os.ErrDeadlineExceeded):
			kind, err = abi.Deadline, fmt.Errorf("it takes connections, and nothing came for %v", wait)
		}
		w.err = abi.Errorf("ask "+kmsg.NameForKey(q.Key()), w.address, kind, "%w", err)
	}
	return w.err
}

// allow gives the next read or write its time. What ends with ctx meanwhile has none.
func (w *wire) allow(ctx context.Context, wait time.Duration) {
	w.nc.SetDeadline(time.Now().Add(wait))
	if ctx.Err() != nil { // its end may have set the deadline before this did
		w.nc.SetDeadline(time.Now())
	}
}

// readerFunc is a function as a Reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func (w *wire) exchangeLocked(ctx context.Context, wait time.Duration, q kmsg.Request, resp kmsg.Response) error {
	w.correlation++
	w.allow(ctx, wait)
	in := readerFunc(func(b []byte) (int, error) { // an answer may take its time, as long as it comes
		w.allow(ctx, wait)
		return w.nc.Read(b)
	})
	if _, err := w.nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("rsmhost-test")).AppendRequest(nil, q, w.correlation)); err != nil {
		return err
	}
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	n := int32(binary.BigEndian.Uint32(head[:]))
	if n < 4 || n > answerMax {
		return fmt.Errorf("an answer of %d bytes", n)
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != w.correlation {
		return fmt.Errorf("an answer to request %d, want %d", got, w.correlation)
	}
	b := make([]byte, n-4)
	if _, err := io.ReadFull(in, b); err != nil {
		return err
	}
	resp.SetVersion(q.GetVersion())
	if resp.IsFlexible() && resp.Key() != apiVersions { // whose clients don't know yet what is spoken
		if len(b) == 0 || b[0] != 0 {
			return errors.New("an answer with tags in its header")
		}
		b = b[1:]
	}
	return resp.ReadFrom(b)
}

// failed is what went wrong with the connection; nil: nothing.
func (w *wire) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
