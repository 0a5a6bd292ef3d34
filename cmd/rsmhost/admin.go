package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/admin"
	"github.com/rsmhost/rsmhost/host/metrics"
	"github.com/rsmhost/rsmhost/host/server"
)

const (
	failingMax = time.Minute     // looks at the metadata may fail that long before serve is not ready
	probeEvery = 5 * time.Second // a plugin is asked how it is no more often
	probeTime  = 3 * time.Second // and has that long to say
)

func adminFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "admin", Usage: "answer /metrics, /healthz and /readyz at `HOST:PORT`; port 0: any that is free, told on stderr (default: nowhere)"},
		&cli.BoolFlag{Name: "admin-pprof", Usage: "also answer /debug/pprof/ there"},
		&cli.BoolFlag{Name: "admin-allow-public", Usage: "also have --admin where other machines reach it: there is no authentication"},
	}
}

// adminEndpoint is the admin endpoint of serve; the zero value is none.
type adminEndpoint struct {
	*admin.Endpoint
	address string
}

// Close ends it.
func (a adminEndpoint) Close() error {
	if a.Endpoint == nil {
		return nil
	}
	return a.Endpoint.Close()
}

func (a adminEndpoint) announce(stderr io.Writer) {
	if a.address != "" {
		fmt.Fprintf(stderr, "rsmhost: http://%s/ answers /metrics, /healthz and /readyz\n", a.address)
	}
}

// startAdmin starts the admin endpoint where the flags ask for one.
func startAdmin(c *cli.Context, ready *readiness, m *metrics.Metrics) (adminEndpoint, error) {
	address := c.String("admin")
	if address == "" {
		if c.Bool("admin-pprof") || c.Bool("admin-allow-public") {
			return adminEndpoint{}, usage("--admin-pprof, --admin-allow-public", "they say how --admin HOST:PORT answers, which is not given")
		}
		return adminEndpoint{}, nil
	}
	public, err := isPublic("--admin", address)
	if err != nil {
		return adminEndpoint{}, err
	}
	if public && !c.Bool("admin-allow-public") {
		return adminEndpoint{}, usage("--admin "+address, "other machines can reach this address, and there is no authentication: give a loopback address, or --admin-allow-public")
	}
	l, err := listen("--admin", address)
	if err != nil {
		return adminEndpoint{}, err
	}
	e := admin.Start(l, admin.Options{Metrics: m.Handler(), Profiles: c.Bool("admin-pprof"), Checks: ready.checks})
	return adminEndpoint{e, l.Addr().String()}, nil
}

// readiness checks whether a host can serve.
type readiness struct {
	draining func() bool
	looks    func() host.LookStats
	probe    func(context.Context) error // nil: there is no plugin

	mu     sync.Mutex // guards what follows; one probe at a time
	probed time.Time
	failed error // of the last probe
}

func newReadiness(h *host.Host, s *server.Server) *readiness {
	r := &readiness{draining: s.Draining, looks: h.LookStats}
	if p := h.Plugin(); p != nil {
		r.probe = p.Probe
	}
	return r
}

func (r *readiness) checks(ctx context.Context) []admin.Check {
	out := []admin.Check{{Name: "serving", Err: serving(r.draining())}, {Name: "metadata", Err: current(r.looks(), time.Now())}}
	if r.probe != nil {
		out = append(out, admin.Check{Name: "plugin", Err: r.plugin(ctx)})
	}
	return out
}

func serving(draining bool) error {
	if draining {
		return errors.New("it drains: no new request is taken")
	}
	return nil
}

// current says what is wrong with the metadata: nothing was ever read, or it could not be read again for too long. A
// failure now and then is none: what was read stays.
func current(l host.LookStats, now time.Time) error {
	switch {
	case l.Good.IsZero() && l.Err == nil:
		return errors.New("it was not read yet")
	case l.Good.IsZero():
		return fmt.Errorf("it could not be read: %w", l.Err)
	case !l.FailingSince.IsZero() && now.Sub(l.FailingSince) >= failingMax:
		return fmt.Errorf("it can't be read again since %s: %w", l.FailingSince.UTC().Format(time.RFC3339), l.Err)
	}
	return nil
}

// plugin asks the plugin how it is, or has its last answer. One that knows no such question is well.
func (r *readiness) plugin(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.probed.IsZero() && time.Since(r.probed) < probeEvery {
		return r.failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime) // the answer is for others too
	defer cancel()
	err := r.probe(ctx)
	if abi.KindOf(err) == abi.Unsupported {
		err = nil
	}
	r.probed, r.failed = time.Now(), err
	return err
}
