package server

import (
	"math"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// TestVanishedInAQueue: a client that sent more than is read ahead behind a request that waits, and went, is let go of: it
// would keep its connection as long as it wanted to wait, 24 days.
func TestVanishedInAQueue(t *testing.T) {
	v := serve(t, local, Options{})
	topic := v.host.Topics()[0]
	end := topic.Partitions[0].Offsets.LogEnd
	for range 3 {
		w := v.dial(t)
		for i := range int32(20) {
			w.send(frame(fetchOf(topic, end, math.MaxInt32), i))
		}
		hammer.Eventually(t, 10*time.Second, func() bool { return v.waits.Load() == 1 })
		w.nc.Close()
		hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 0 && v.waits.Load() == 0 })
	}
}
