package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/replay"
	"github.com/rsmhost/rsmhost/host/server"
)

// served serves a host on loopback until the test ends, and gives its address.
func served(t testing.TB, h *host.Host, o server.Options) string {
	t.Helper()
	o.Host = h
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// servedFixture serves a recorded broker's data with the built-in store.
func servedFixture(t testing.TB, fixture string, exact bool) string {
	t.Helper()
	cfg := fixtureConfig(builtIn(t, filepath.Join(fixtures, fixture, "remote"), "location"), fixture)
	cfg.KafkaExact = exact
	return served(t, openHost(t, cfg), server.Options{KafkaExact: exact})
}

// TestReplayServed holds every recorded answer of every broker against a server, over TCP.
func TestReplayServed(t *testing.T) {
	for _, fixture := range fixtureNames(t) {
		for _, exact := range []bool{true, false} {
			for _, file := range []string{"fetch", "listoffsets", "epochs"} {
				t.Run(fmt.Sprintf("%s/%s/exact=%v", fixture, file, exact), func(t *testing.T) {
					t.Parallel()
					c, err := replay.Dial(context.Background(), servedFixture(t, fixture, exact))
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					replayFile(t, c, filepath.Join(fixtures, fixture, "golden", file+".jsonl"), exact)
				})
			}
		}
	}
}

// TestServedTimes: over the wire a lookup by time has the broker's own answer, markers of transactions included: who moves
// from a broker goes on at the same place.
func TestServedTimes(t *testing.T) {
	for _, fixture := range fixtureNames(t) {
		t.Run(fixture, func(t *testing.T) {
			t.Parallel()
			c, err := replay.Dial(context.Background(), servedFixture(t, fixture, false))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			f, err := os.Open(filepath.Join(fixtures, fixture, "golden", "listoffsets.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			looked := 0
			for s := replay.NewScanner(fixture, f); ; {
				one, err := s.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if one.Offsets.Request.Timestamp < 0 {
					continue
				}
				looked++
				if fails, err := replay.Run(context.Background(), c, one, replay.Exact); err != nil || len(fails) > 0 {
					t.Errorf("%s: %v, %v", one.Name(), fails, err)
				}
			}
			if looked == 0 {
				t.Error("no lookup by time was recorded")
			}
		})
	}
}
