package e2e

import (
	"flag"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

var soak = flag.Duration("e2e.soak", 3*time.Second, "how long TestPluginKills runs")

// TestPluginKills: consumers read everything, again and again, while the plugin is killed. Every record comes once, in order
// and as it is, whatever the plugin was doing when it died.
func TestPluginKills(t *testing.T) {
	every := 13 * time.Second // a plugin that dies within ten seconds of its start is started ever later
	if *soak < 2*every {
		every = time.Second
	}
	for mode, plugin := range map[string]string{
		"location": asPlugin(t, far), // whose locations are good for one read, so that it is called for each
		"stream":   artifacts(t).process,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := startServe(t, "", append(withPlugin(plugin, filepath.Join(fixtures, "txn")), "--plugin-config", "mode="+mode)...)
			over := make(chan struct{})
			timer := time.AfterFunc(*soak, func() { close(over) })
			defer timer.Stop()
			var passes, kills atomic.Int64
			var wg sync.WaitGroup
			for isolation := range levels {
				for range 2 {
					wg.Go(func() {
						for !closed(over) && !t.Failed() {
							if diff := againstRecorded(t, "txn", isolation, s.address); diff != "" {
								t.Errorf("%s (-want +got):\n%.4000s", isolation, diff)
							}
							passes.Add(1)
						}
					})
				}
			}
			tick := time.NewTicker(every)
			defer tick.Stop()
			for !closed(over) {
				select {
				case <-over:
				case <-tick.C:
					if pid := childOf(s.cmd.Process.Pid); pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
						kills.Add(1)
					}
				}
			}
			wg.Wait()
			hammer.Eventually(t, soon, func() bool { return againstRecorded(t, "txn", "read_committed", s.address) == "" })
			t.Logf("%d passes, %d kills", passes.Load(), kills.Load())
			if least := int64(*soak / every / 3); kills.Load() < max(1, least) {
				t.Errorf("the plugin was killed %d times, want %d at least", kills.Load(), least)
			}
			s.stop(t)
		})
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
