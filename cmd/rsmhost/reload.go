package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/config"
	"github.com/rsmhost/rsmhost/host/metrics"
	"github.com/rsmhost/rsmhost/host/server"
)

// reloader puts a configuration in force while serve runs.
type reloader struct {
	load    func() (*config.Config, error)
	conf    *config.Config // in force
	host    *host.Host
	server  *server.Server
	level   *slog.LevelVar
	metrics *metrics.Metrics
	stderr  io.Writer
}

// reload reads the configuration again, as file, environment and flags say it, and puts in force what can change. One that
// is wrong changes nothing.
func (r *reloader) reload() {
	next, err := r.load()
	if err == nil {
		err = r.apply(next)
	}
	if r.metrics.Reloaded(err == nil); err != nil {
		fmt.Fprintf(r.stderr, "rsmhost: reload: nothing changed: %v\n", err)
	}
}

func (r *reloader) apply(next *config.Config) error {
	live, restart := config.Changes(r.conf, next)
	inForce := config.Reloaded(r.conf, next)
	cfg, err := inForce.Host()
	if err != nil {
		return abi.E("reload", "", abi.KindOf(err), err)
	}
	waitAsBroker(&cfg, inForce)
	r.conf = inForce
	r.host.Adjust(cfg.Live())
	l := limits(inForce)
	r.server.Adjust(server.Live{Settings: settings(inForce), MaxFetchBytes: l.MaxFetchBytes, MaxConnections: l.MaxConnections, MaxConnectionsPerIP: l.MaxConnectionsPerIP})
	r.level.Set(logLevel(inForce))
	tellReload(r.stderr, live, restart)
	return nil
}

// tellReload says what a reload changed and what it could not.
func tellReload(w io.Writer, live, restart []config.Change) {
	if len(live)+len(restart) == 0 {
		fmt.Fprintln(w, "rsmhost: reload: the configuration is the same")
	}
	for _, c := range live {
		fmt.Fprintf(w, "rsmhost: reload: %s: %s -> %s (%s)\n", c.Key.Name, shown(c.Old), shown(c.New), c.Where)
	}
	for _, c := range restart {
		fmt.Fprintf(w, "rsmhost: reload: %s: stays %s; %s (%s) needs a restart\n", c.Key.Name, shown(c.Old), shown(c.New), c.Where)
	}
}

// shown is a value that may be empty.
func shown(v string) string {
	if v == "" {
		return "(nothing)"
	}
	return v
}
