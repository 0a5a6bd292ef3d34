package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts an endpoint, and gives a function that asks it.
func start(t *testing.T, o Options) func(path string) (int, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := Start(l, o)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(path string) (int, string) {
		t.Helper()
		resp, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
}

// TestEndpoint: each path answers, and readiness says which check failed.
func TestEndpoint(t *testing.T) {
	var failed error
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a 1\n") })
	checks := func(ctx context.Context) []Check {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the checks have no deadline")
		}
		return []Check{{"metadata", nil}, {"plugin", failed}}
	}
	get := start(t, Options{Metrics: metrics, Checks: checks})
	ask := func(path string, status int, text string) {
		t.Helper()
		if s, b := get(path); s != status || b != text {
			t.Errorf("%s: %d %q, want %d %q", path, s, b, status, text)
		}
	}
	ask("/", 200, "/metrics\n/healthz\n/readyz\n")
	ask("/metrics", 200, "a 1\n")
	ask("/healthz", 200, "ok\n")
	ask("/readyz", 200, "ready\nmetadata: ok\nplugin: ok\n")
	failed = errors.New("it does not answer")
	ask("/readyz", 503, "not ready\nmetadata: ok\nplugin: it does not answer\n")
	ask("/healthz", 200, "ok\n")
	for _, path := range []string{"/nowhere", "/debug/pprof/", "/debug/pprof/heap"} {
		if s, _ := get(path); s != 404 {
			t.Errorf("%s: %d, want 404", path, s)
		}
	}
}

// TestProfiles: they are there where they were asked for.
func TestProfiles(t *testing.T) {
	get := start(t, Options{Metrics: http.NotFoundHandler(), Checks: func(context.Context) []Check { return nil }, Profiles: true})
	for path, want := range map[string]string{"/debug/pprof/": "goroutine", "/debug/pprof/goroutine?debug=1": "admin.Start"} {
		if s, b := get(path); s != 200 || !strings.Contains(b, want) {
			t.Errorf("%s: %d, without %q", path, s, want)
		}
	}
}

// TestListenerGone: an endpoint that can't answer any more says so when it is closed.
func TestListenerGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	e := Start(l, Options{Metrics: http.NotFoundHandler()})
	e.wg.Wait()
	if err := e.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
