package server

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host/server/fetchsession"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// TestManyClients: clients that come and go, share sessions, and leave in the middle of an answer, while the host looks
// again and again: each answer is the right one, and the server stops in time under all of them.
func TestManyClients(t *testing.T) {
	v := serve(t, local, Options{})
	topic := v.host.Topics()[0]
	start := topic.Partitions[0].Offsets.LogStart
	first := fetchOf(topic, start, 0)
	first.SessionEpoch = 0
	shared := ask[*kmsg.FetchResponse](v.dial(t), first, 18).SessionID
	hammer.Run(t, 16, 30, func(_, n int) {
		w := v.dial(t)
		defer w.nc.Close()
		q := fetchOf(topic, start, 5)
		switch rand.IntN(4) {
		case 0: // one session, which all use
			q.SessionID, q.SessionEpoch = shared, int32(1+n)
			resp := ask[*kmsg.FetchResponse](w, q, 18)
			if c := resp.ErrorCode; c != 0 && c != fetchsession.InvalidEpoch {
				t.Errorf("session: code %d", c)
			}
		case 1: // gone before the answer
			w.send(frame(q, 1))
		case 2:
			if err := v.host.Look(context.Background()); err != nil {
				t.Error(err)
			}
		default:
			resp := ask[*kmsg.FetchResponse](w, q, 18)
			if b := resp.Topics[0].Partitions[0].RecordBatches; len(b) == 0 {
				t.Error("no records")
			}
		}
	})
	for range 20 { // what waits when the server stops
		v.dial(t).send(frame(fetchAtEnd(v, 1<<30), 1))
	}
	hammer.Eventually(t, 10*time.Second, func() bool { return v.waits.Load() == 20 })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := v.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if n := v.Connections(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
