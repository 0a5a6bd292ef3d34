package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// held is what a process has of what leaks.
type held struct{ goroutines, files int }

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// holds asks a server, and the system about it.
func (s *serveCommand) holds(t *testing.T, get func(string) (int, string)) held {
	t.Helper()
	_, text := get("/metrics")
	m := goroutines.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no goroutines in the metrics: %.500s", text)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	return held{n, len(files)}
}

// TestServeGivesBack: 200 clients on 1,000 partitions, half of which lie behind 30 ms, cost the server less than 256 MiB and 1 MiB
// a connection. When they left it has the goroutines and the open files that it had before they came.
func TestServeGivesBack(t *testing.T) {
	s := startServe(t, "", append(loadFlags(t, 4<<10), "--admin", "127.0.0.1:0")...)
	get := s.admin(t)
	first, err := dialRaw(s.address) // after which the connections to the plugin are open, and stay
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.ask(fetchByName("far", 16<<10, 0)); err != nil {
		t.Fatal(err)
	}
	first.nc.Close()
	nobody := func() bool { _, text := get("/metrics"); return strings.Contains(text, "\nrsmhost_connections 0\n") }
	hammer.Eventually(t, 20*time.Second, nobody)
	before := s.holds(t, get)
	const clients = 100 // of each topic: five partitions each are all of them
	memory := under(t, s, clients)
	if limit := 256.0 + 2*clients; memory > limit {
		t.Errorf("%.0f MiB, more than %.0f", memory, limit)
	}
	var after held
	deadline := time.Now().Add(20 * time.Second)
	hammer.Eventually(t, time.Minute, func() bool {
		after = s.holds(t, get)
		return after.goroutines <= before.goroutines && after.files <= before.files || time.Now().After(deadline)
	})
	if after.goroutines > before.goroutines || after.files > before.files {
		t.Errorf("it had %+v, and has %+v when all clients left", before, after)
	}
	t.Logf("%.0f MiB; %+v before, %+v after", memory, before, after)
	s.stop(t)
}

// under lets so many clients of each tier read for a second and a half, and gives the server's memory at its end, with all connections open.
func under(t *testing.T, s *serveCommand, clients int) (memory float64) {
	t.Helper()
	stop := make(chan struct{})
	var load sync.WaitGroup
	for _, r := range []reading{{"near", clients, 100 * time.Millisecond, 100 * time.Millisecond, nil}, {"far", clients, 0, 0, nil}} {
		load.Go(func() { // ends with stop
			if took := r.run(t, s.address, stop); len(took) == 0 {
				t.Errorf("%s: nobody was answered", r.topic)
			}
		})
	}
	time.AfterFunc(1500*time.Millisecond, func() {
		memory = resident(t, s.cmd.Process.Pid)
		close(stop)
	})
	<-stop
	load.Wait()
	return memory
}
