package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/host/config"
	"github.com/rsmhost/rsmhost/host/metrics"
	"github.com/rsmhost/rsmhost/host/server"
)

const (
	drainTime   = 10 * time.Second
	defaultWait = 500 * time.Millisecond // a broker's remote.fetch.max.wait.ms
	shownLines  = 20
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "be a Kafka broker to any client, read-only",
		Description: `Clients connect, list topics and read, from whichever tier the data lies in. What would write is refused.
The address is the first line of stdout, and the only one; with port 0 it is one that is free. SIGTERM
ends it: no new request is taken, and what runs has 10 seconds. SIGHUP reads the --config file again
and puts in force what can change while it runs; stderr says what changed, and what needs a restart.
Consumer groups work, of the classic protocol and of KIP-848; what they commit lies in the state
directory, and a restart goes on there.

   rsmhost serve --listen 127.0.0.1:9092 --config rsmhost.yaml
   kcat -b 127.0.0.1:9092 -C -t orders -e

An address that other machines reach is served where clients prove who they are, by SASL (--sasl-users)
or by certificates (--tls-client-ca), or where --allow-public says that nobody need:

   rsmhost passwd alice >> users
   echo 'User:alice read topic:orders-* group:alice-*' > acl
   rsmhost serve --listen 0.0.0.0:9093 --tls-cert chain.pem --tls-key key.pem --sasl-users users --acl acl`,
		Flags: withServing(append(adminFlags(),
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:9092", Usage: "serve at `HOST:PORT`; port 0: any that is free"},
			&cli.StringFlag{Name: "advertise", Usage: "`HOST:PORT` that clients are told to connect to (default: the address at which they came)"},
			&cli.BoolFlag{Name: "allow-public", Usage: "also serve where other machines reach it and nobody is asked who he is, or PLAIN's passwords can be read on the way"},
		)...),
		Action: serveAction,
	}
}

func serveAction(c *cli.Context) (err error) {
	if c.Args().Present() {
		return usage("serve "+c.Args().First(), "serve takes no argument")
	}
	level := &slog.LevelVar{}
	who, log, err := whoMayConnect(c, level)
	if err != nil {
		return err
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	groups := ""
	h, conf, err := openAdjusted(c, func(cfg *host.Config, conf *config.Config) {
		groups = groupsDir(cfg.StateDir, c.App.ErrWriter)
		cfg.Exclusive, cfg.Log = true, log
		waitAsBroker(cfg, conf)
	})
	if err != nil {
		return err
	}
	defer closing(h, &err)
	o := limits(conf)
	o.Host, o.Access, o.Advertise, o.Settings, o.GroupsDir = h, who, c.String("advertise"), settings(conf), groups
	o.KafkaExact, o.Log = conf.Text("kafka-exact") == "true", log
	s, err := server.New(o)
	if err != nil {
		return err
	}
	defer closing(s, &err)
	l, err := listen("--listen", c.String("listen"))
	if err != nil {
		return err
	}
	m := metrics.New(h, s, buildVersion())
	admin, err := startAdmin(c, newReadiness(h, s), m)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer closing(admin, &err) // after the drain, so that it can be watched
	announce(c.App.Writer, c.App.ErrWriter, l.Addr().String(), h.Topics(), who)
	admin.announce(c.App.ErrWriter)
	again := &reloader{load: func() (*config.Config, error) { return loadConfig(c) }, conf: conf, host: h, server: s, level: level, metrics: m, stderr: c.App.ErrWriter}
	return serveUntil(c.Context, s, l, c.App.ErrWriter, hangup, again.reload)
}

// whoMayConnect reads what is asked of clients, before anything is opened, and gives the log, whose level it sets.
func whoMayConnect(c *cli.Context, level *slog.LevelVar) (*access.Access, *slog.Logger, error) {
	conf, err := loadConfig(c)
	if err != nil {
		return nil, nil, err
	}
	level.Set(logLevel(conf))
	log := loggerAt(c.App.ErrWriter, conf, level)
	who, err := openAccess(conf, log)
	if err != nil {
		return nil, nil, err
	}
	return who, log, checkPublic(c.String("listen"), c.Bool("allow-public"), who)
}

// groupsDir is where committed offsets lie below the state directory.
func groupsDir(state string, stderr io.Writer) string {
	if state == "" {
		fmt.Fprintln(stderr, "rsmhost: there is no state directory: what consumer groups commit ends with this process; give --state-dir")
		return ""
	}
	return filepath.Join(state, groupsName)
}

// groupsName is the directory of committed offsets in a state directory.
const groupsName = "groups"

// waitAsBroker has serve wait as long as a broker does where nothing else is configured.
func waitAsBroker(cfg *host.Config, conf *config.Config) {
	if conf.Value("remote.fetch.max.wait.ms").Origin == config.FromDefault {
		cfg.RemoteWait = defaultWait
	}
}

// serveUntil serves until ctx ends, then drains. At each hangup it reloads.
func serveUntil(ctx context.Context, s *server.Server, l net.Listener, stderr io.Writer, hangup <-chan os.Signal, reload func()) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // ends with Shutdown or Close, both of which are below
	for serving := true; serving; {
		select {
		case err := <-ended:
			return errors.Join(err, s.Close())
		case <-hangup:
			reload()
		case <-ctx.Done():
			serving = false
		}
	}
	drain, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	n := s.Connections()
	if err := s.Shutdown(drain); err != nil {
		fmt.Fprintf(stderr, "rsmhost: what ran was ended after %v\n", drainTime)
	} else if n > 0 {
		fmt.Fprintf(stderr, "rsmhost: drained %s\n", count(n, "connection"))
	}
	return <-ended
}

// limits are the bounds on what clients can cost.
func limits(conf *config.Config) server.Options {
	n := func(key string) int { return int(min(conf.Number(key), math.MaxInt32)) }
	return server.Options{MaxFetchBytes: conf.MaxBytes(), MaxRequestBytes: n("socket.request.max.bytes"), MaxConnections: conf.MaxConnections(),
		MaxConnectionsPerIP: n("max.connections.per.ip"), IdleTimeout: conf.Duration("connections.max.idle.ms"),
		MaxInFlight: n("max.in.flight.requests.per.connection"), MaxQueuedBytes: conf.Number("queued.max.request.bytes")}
}

// checkPublic refuses an address that other machines reach where anybody could read, or read passwords on their way, and
// that is not asked for.
func checkPublic(listen string, allowed bool, who *access.Access) error {
	public, err := isPublic("--listen", listen)
	switch {
	case err != nil:
		return err
	case !public || allowed:
		return nil
	case !who.Authenticates():
		return usage("--listen "+listen, "other machines can reach this address, and nobody is asked who he is: give --sasl-users or --tls-client-ca, a loopback address, or --allow-public")
	case !who.Encrypts() && slices.Contains(who.Mechanisms(), access.Plain):
		return usage("--listen "+listen, "without TLS the passwords of PLAIN can be read on their way: give --tls-cert and --tls-key, --sasl.enabled.mechanisms without PLAIN, a loopback address, or --allow-public")
	}
	return nil
}

// settings are what clients see as the broker's configuration: the keys that have Kafka's names or its style.
func settings(conf *config.Config) map[string]string {
	out := map[string]string{}
	for _, l := range conf.Lines() {
		if strings.Contains(l[0], ".") && l[0] != "grants.env" {
			out[l[0]] = l[1]
		}
	}
	return out
}

// announce says where it serves, for programs on stdout, and what, for people on stderr.
func announce(stdout, stderr io.Writer, address string, topics []*host.Topic, who *access.Access) {
	fmt.Fprintln(stdout, address)
	var lines []string
	served, first := 0, ""
	for _, t := range topics {
		if !t.Visible() {
			continue
		}
		if served++; first == "" || internal(first) && !internal(t.Name) {
			first = t.Name
		}
		for _, p := range t.Partitions {
			lines = append(lines, fmt.Sprintf("  %s-%d: %s", t.Name, p.ID.Partition, holding(p)))
		}
	}
	fmt.Fprintf(stderr, "rsmhost: serving %s, %s on %s, read-only\n", count(served, "topic"), count(len(lines), "partition"), address)
	for _, l := range lines[:min(len(lines), shownLines)] {
		fmt.Fprintln(stderr, l)
	}
	if n := len(lines) - shownLines; n > 0 {
		fmt.Fprintf(stderr, "  and %s more: rsmhost topics lists all\n", strconv.Itoa(n))
	}
	if first != "" {
		fmt.Fprintf(stderr, "  kcat -b %s%s -C -t %s -e\n", address, clientSettings(who), first)
	}
}

// internal reports a topic of the broker's own, which is not what a person wants to read first.
func internal(topic string) bool { return strings.HasPrefix(topic, "__") }

// clientSettings is what a client of librdkafka needs to come in.
func clientSettings(who *access.Access) string {
	protocol, rest := "SSL", ""
	if who.SASL() {
		protocol, rest = "SASL_SSL", fmt.Sprintf(" -X sasl.mechanism=%s -X sasl.username=USER -X sasl.password=PASSWORD", easiest(who))
	}
	if who.Encrypts() {
		rest += " -X ssl.ca.location=CA.pem"
		if who.Authenticates() && !who.SASL() {
			rest += " -X ssl.certificate.location=CERTIFICATE.pem -X ssl.key.location=KEY.pem"
		}
	} else {
		protocol = strings.Replace(protocol, "SSL", "PLAINTEXT", 1)
	}
	if protocol == "PLAINTEXT" {
		return ""
	}
	return " -X security.protocol=" + protocol + rest
}

// easiest is the mechanism that most builds of kcat can speak: SCRAM of librdkafka before 2.6.1 is refused (RATIONALE.md), and
// PLAIN is no worse over TLS.
func easiest(who *access.Access) string {
	mechanisms := who.Mechanisms()
	if who.Encrypts() && slices.Contains(mechanisms, access.Plain) {
		return access.Plain
	}
	return mechanisms[len(mechanisms)-1]
}

// holding says which offsets a partition has, and in which tier.
func holding(p *host.TopicPartition) string {
	o := p.Offsets
	if o.LogEnd <= o.LogStart {
		return fmt.Sprintf("empty, at %d", o.LogStart)
	}
	tier := "local"
	switch {
	case p.Local == nil:
		tier = "remote"
	case o.Remote && o.LocalStart > o.LogStart:
		tier = fmt.Sprintf("remote, local from %d", o.LocalStart)
	}
	return fmt.Sprintf("offsets %d to %d, %s", o.LogStart, o.LogEnd-1, tier)
}
