// Package process runs a plugin as a process of its own and calls it over gRPC: the process form of ABI.md, section 6. The
// handshake is hashicorp/go-plugin's, so that a plugin in any language that speaks it works; what go-plugin does beside
// (its connection, its broker, its way to kill) is not used.
//
// A plugin sees no more than it was granted: a clean environment, /dev/null for input, a private working directory, and
// its own process group. Secrets reach it by RPC, never by its environment or its arguments. It ends with the host,
// however the host ends.
//
// # Concurrency
//
// A Plugin is safe for concurrent use. Every call ends by its context, or by a limit of this package where that has no
// deadline.
//
// # Errors
//
// An error that the plugin made comes back equal. One about the plugin itself is a sentence with its name: UNAVAILABLE
// when it died or cannot be reached, DEADLINE when it does not answer, PHASE after Close, INTERNAL when it breaks the
// protocol, CORRUPT for a stream without its end.
package process

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/abipb"
	"github.com/rsmhost/rsmhost/host/grant"
)

// Options say how to start a plugin.
type Options struct {
	Path         string        // the executable
	Name         string        // for messages and the log; empty: the file's name
	HostVersion  string        // told to the plugin
	Env          []string      // NAME=value, granted beyond PATH, TZ and LANG
	Log          *slog.Logger  // gets what the plugin writes, by lines; nil: nobody
	StartTimeout time.Duration // until the plugin has described itself; 0: 10 s
	StopTimeout  time.Duration // for its calls to end when it is closed; 0: 5 s
}

const (
	defaultStart = 10 * time.Second
	defaultStop  = 5 * time.Second

	// callTimeout bounds what has no deadline of its own: a call, and each wait for the next bytes of a stream. A plugin that
	// says nothing for so long hangs.
	callTimeout = 30 * time.Second
)

// hostVersions are the versions of the contract that this host serves.
var hostVersions = []int32{abi.Version}

// Plugin is a running plugin.
type Plugin struct {
	name        string
	path        string
	hostVersion string
	stopTimeout time.Duration
	callTimeout time.Duration // callTimeout, but for tests

	dir     *privateDir
	child   *child
	control *grpc.ClientConn // everything but fetches, so that no amount of data delays it
	data    *grpc.ClientConn
	info    atomic.Pointer[abi.Info]
	stdio   sync.WaitGroup // the goroutine that reads go-plugin's stdio service

	closeOnce sync.Once
	closeErr  error

	mu struct {
		sync.Mutex
		closed  bool
		fetches int           // that run: until the answer is a location, or its stream was read or closed
		idle    chan struct{} // made by Close where fetches run, closed when the last ends
	}
}

var (
	_ abi.RemoteStorageManager = (*Plugin)(nil)
	_ abi.Prober               = (*Plugin)(nil)
)

// Start runs the plugin and learns what it is. ctx bounds the start, not the plugin's life. On an error nothing is left
// of it: no process, no socket, no file.
func Start(ctx context.Context, o Options) (*Plugin, error) {
	p := &Plugin{name: o.Name, hostVersion: o.HostVersion, stopTimeout: o.StopTimeout, callTimeout: callTimeout}
	if p.name == "" {
		p.name = filepath.Base(o.Path)
	}
	if p.stopTimeout <= 0 {
		p.stopTimeout = defaultStop
	}
	limit := o.StartTimeout
	if limit <= 0 {
		limit = defaultStart
	}
	path, err := checkExecutable(p.name, o.Path)
	if err != nil {
		return nil, err
	}
	p.path = path
	if p.dir, err = newPrivateDir(); err != nil {
		return nil, abi.Errorf("start plugin", p.name, abi.Unavailable, "no place for its socket: %w", err)
	}
	p.child = newChild(p.name, path, p.dir.path, o.Log)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := p.start(ctx, o, limit); err != nil {
		p.abandon()
		return nil, err
	}
	return p, nil
}

func (p *Plugin) start(ctx context.Context, o Options, limit time.Duration) error {
	network, address, err := p.spawn(ctx, o, limit)
	if err != nil {
		return err
	}
	if p.control, err = dial(network, address); err != nil {
		return abi.Errorf("start plugin", p.name, abi.Internal, "%w", err)
	}
	// A read takes a whole frame from the socket.
	if p.data, err = dial(network, address, grpc.WithReadBufferSize(abipb.DefaultFrame)); err != nil {
		return abi.Errorf("start plugin", p.name, abi.Internal, "%w", err)
	}
	if err := p.describe(ctx); err != nil {
		return err
	}
	if _, err := p.version(); err != nil {
		return err
	}
	p.stdio.Go(p.readStdio) // ends when control is closed; awaited in abandon
	return nil
}

// spawn starts the process and gives the address that its handshake names.
func (p *Plugin) spawn(ctx context.Context, o Options, limit time.Duration) (network, address string, err error) {
	begun := time.Now()
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion: abipb.HandshakeVersion, MagicCookieKey: abipb.CookieKey, MagicCookieValue: abipb.CookieValue,
		},
		Plugins:          plugin.PluginSet{}, // what is called is called on our own connection
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
		SkipHostEnv:      true,
		StartTimeout:     limit + time.Minute, // ours comes first, and says so
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: p.dir.path},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
			p.child.cmd.Env = environment(o.Env, spec.Env)
			return p.child, nil
		},
	})
	// go-plugin's start knows no context: without a process it ends.
	stop := context.AfterFunc(ctx, p.child.kill)
	defer stop()
	addr, err := client.Start()
	if err != nil {
		return "", "", p.explainStart(ctx, begun, err)
	}
	return addr.Network(), addr.String(), nil
}

// environment is what a plugin sees: little of the host's own, what was granted, and the handshake's.
func environment(granted, handshake []string) []string {
	var env []string
	for _, name := range []string{"PATH", "TZ", "LANG"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(append(env, granted...), handshake...)
}

// describe asks the plugin what it is.
func (p *Plugin) describe(ctx context.Context) error {
	req := &abipb.DescribeRequest{HostVersion: p.hostVersion, AbiVersions: hostVersions}
	grease(req)
	info, err := abipb.NewRemoteStorageManagerClient(p.control).Describe(ctx, req)
	if err != nil {
		return p.callError(ctx, "describe", p.name, err)
	}
	got := info.ToABI()
	p.info.Store(&got)
	return nil
}

// grease adds a field that no version knows, so that a plugin that cannot stand new fields is found on its first day and
// not by the first host that has one.
func grease(m proto.Message) {
	field := protowire.AppendTag(nil, 9999, protowire.VarintType)
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(field, 1))
}

// version is the highest version of the contract that both speak.
func (p *Plugin) version() (int32, error) {
	theirs := p.info.Load().ABIVersions
	best := int32(0)
	for _, v := range theirs {
		if slices.Contains(hostVersions, v) {
			best = max(best, v)
		}
	}
	if best == 0 {
		return 0, abi.Errorf("start plugin", p.name, abi.Unsupported,
			"the plugin speaks versions %v of the contract and this host %v; take a plugin or a host that have one in common", theirs, hostVersions)
	}
	return best, nil
}

// Info is what the plugin says about itself.
func (p *Plugin) Info() abi.Info { return *p.info.Load() }

// Pid is the process's id.
func (p *Plugin) Pid() int { return p.child.pid() }

// StderrTail gives the last lines that the plugin wrote.
func (p *Plugin) StderrTail() []string { return p.child.out.tail() }

// Done is closed when the process has ended, whatever the reason.
func (p *Plugin) Done() <-chan struct{} { return p.child.exited }

// Configure brings the plugin its settings and secrets. The roots are not handed over: a process opens its directories
// itself. A setting that names one must be absolute, since the plugin's working directory is its own.
func (p *Plugin) Configure(ctx context.Context, values, secrets map[string]string, _ *grant.Roots) error {
	if err := p.usable("configure", p.name); err != nil {
		return err
	}
	version, err := p.version()
	if err != nil {
		return err
	}
	p.child.out.hide(slices.Collect(maps.Values(secrets)))
	ctx, cancel := p.bound(ctx)
	defer cancel()
	req := &abipb.ConfigureRequest{AbiVersion: version, HostVersion: p.hostVersion, MaxFrame: abipb.MaxFrame,
		Values: abipb.FromSettings(values), Secrets: abipb.FromSettings(secrets)}
	grease(req)
	if _, err := abipb.NewRemoteStorageManagerClient(p.control).Configure(ctx, req); err != nil {
		return p.callError(ctx, "configure", p.name, err)
	}
	return p.describe(ctx) // a plugin may know its features only now
}

// Probe runs the plugin's self-test. An error is UNSUPPORTED where it has none.
func (p *Plugin) Probe(ctx context.Context) error {
	if err := p.usable("probe", p.name); err != nil {
		return err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	_, err := abipb.NewRemoteStorageManagerClient(p.control).Probe(ctx, &abipb.ProbeRequest{})
	if err != nil {
		return p.callError(ctx, "probe", p.name, err)
	}
	return nil
}

// Ping asks gRPC's health service whether the plugin serves. A plugin that answers without having that service is well.
func (p *Plugin) Ping(ctx context.Context) error {
	if err := p.usable("ping", p.name); err != nil {
		return err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	reply, err := grpc_health_v1.NewHealthClient(p.control).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: abipb.HealthService})
	if e := p.callError(ctx, "ping", p.name, err); e != nil && abi.KindOf(e) != abi.Unsupported {
		return e
	}
	if err == nil && reply.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return abi.Errorf("ping", p.name, abi.Unavailable, "the plugin says that it is %v", reply.GetStatus())
	}
	return nil
}

// bound gives ctx a deadline where it has none.
func (p *Plugin) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, p.callTimeout)
}

// checkExecutable gives the absolute path of a file that can be run, or says why it cannot.
func checkExecutable(name, path string) (string, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return "", abi.Errorf("start plugin", name, abi.FileKind(err), "%w", err)
	case st.IsDir():
		return "", abi.Errorf("start plugin", name, abi.Invalid, "%s is a directory, not an executable", path)
	case st.Mode()&0o111 == 0:
		return "", abi.Errorf("start plugin", name, abi.Denied, "%s is not executable; chmod +x makes it so", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", abi.Errorf("start plugin", name, abi.Invalid, "%w", err)
	}
	return abs, nil
}

// explainStart says in a sentence why there was no handshake, of a start that began at begun.
func (p *Plugin) explainStart(ctx context.Context, begun time.Time, err error) error {
	fail := func(kind abi.Kind, format string, args ...any) error {
		return abi.Errorf("start plugin", p.name, kind, format, args...)
	}
	line, wrote := p.child.firstLine()
	fields := strings.Split(line, "|")
	switch {
	case p.child.pid() == 0:
		return p.explainExec(err)
	case context.Cause(ctx) == context.DeadlineExceeded && !wrote:
		return fail(abi.Deadline, "the plugin gave no handshake on its standard output within %v and was killed%s", allowed(ctx, begun), p.child.out.quoteTail())
	case ctx.Err() != nil:
		return fail(abi.KindOf(ctx.Err()), "the start was given up: %w", ctx.Err())
	case !wrote:
		return fail(abi.Unavailable, "the plugin ended before its handshake (%s)%s", p.child.exitText(), p.child.out.quoteTail())
	case len(fields) < 4:
		return fail(abi.Internal, "the plugin wrote %q on its standard output where its handshake belongs; it must write its own words to standard error", clip(line))
	case len(fields) > 4 && fields[4] != string(plugin.ProtocolGRPC):
		return fail(abi.Unsupported, "the plugin speaks %q and this host only %q", fields[4], plugin.ProtocolGRPC)
	case fields[0] != fmt.Sprint(plugin.CoreProtocolVersion) || fields[1] != fmt.Sprint(abipb.HandshakeVersion):
		return fail(abi.Unsupported, "the plugin's handshake has protocol version %s and contract version %s, this host's has %d and %d",
			clip(fields[0]), clip(fields[1]), plugin.CoreProtocolVersion, abipb.HandshakeVersion)
	}
	return fail(abi.Internal, "the plugin's handshake %q is not usable: %w", clip(line), err)
}

// allowed is the time that a step had which began at begun, as a person would say it: whole seconds where it is seconds.
func allowed(ctx context.Context, begun time.Time) time.Duration {
	deadline, _ := ctx.Deadline()
	d := deadline.Sub(begun)
	if d < time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
