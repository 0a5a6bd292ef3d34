// Package admin is the HTTP endpoint for those who run a host: metrics, whether it lives, whether it is ready, and
// profiles where they are asked for. It knows nothing of hosts: what it shows is given to it.
//
//	/               these paths
//	/metrics        what is given as Metrics
//	/healthz        200 as long as the process can answer
//	/readyz         200 while all checks pass, else 503; a line for each check says what is wrong
//	/debug/pprof/   profiles of the Go runtime, only with Profiles
//
// There is no authentication: whoever reaches the address sees it all.
package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"
)

// Check is one thing that must be well for the host to be ready.
type Check struct {
	Name string
	Err  error // nil: it is well
}

// Options of an Endpoint.
type Options struct {
	Metrics  http.Handler
	Checks   func(ctx context.Context) []Check
	Profiles bool // also serve /debug/pprof/
}

// Endpoint answers over HTTP. It is safe for concurrent use.
type Endpoint struct {
	http *http.Server
	wg   sync.WaitGroup // of Serve
	mu   sync.Mutex     // guards err
	err  error          // why Serve ended before Close
}

// checkTime bounds the checks of one answer.
const checkTime = 5 * time.Second

// Start answers at l until Close, which closes it.
func Start(l net.Listener, o Options) *Endpoint {
	e := &Endpoint{http: &http.Server{Handler: handler(o), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 5 * time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}} // a profile is written for as long as it asks
	e.wg.Go(func() { // ends with Close, which waits
		err := e.http.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.err = err
	})
	return e
}

// Close ends all answers. The error is why it had stopped answering before.
func (e *Endpoint) Close() error {
	e.http.Close() // only of listeners that are closed already
	e.wg.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

func handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, paths(o)) })
	mux.Handle("GET /metrics", o.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checkTime)
		defer cancel()
		status, text := readiness(o.Checks(ctx))
		answer(w, status, text)
	})
	if o.Profiles {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// paths are those that are answered, for who comes with the address alone.
func paths(o Options) string {
	out := "/metrics\n/healthz\n/readyz\n"
	if o.Profiles {
		out += "/debug/pprof/\n"
	}
	return out
}

// readiness is the answer to what the checks say.
func readiness(checks []Check) (status int, text string) {
	var b bytes.Buffer
	status = http.StatusOK
	for _, c := range checks {
		if c.Err != nil {
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&b, "%s: %v\n", c.Name, c.Err)
			continue
		}
		fmt.Fprintf(&b, "%s: ok\n", c.Name)
	}
	if status == http.StatusOK {
		return status, "ready\n" + b.String()
	}
	return status, "not ready\n" + b.String()
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	fmt.Fprint(w, text) // a client that is gone needs none
}
