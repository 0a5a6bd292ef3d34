package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/grant"
	"github.com/rsmhost/rsmhost/host/plugin/process"
	"github.com/rsmhost/rsmhost/host/plugin/wasm"
)

// Options say which plugin is wanted and what it is given.
type Options struct {
	Ref       string
	Dirs      []string // nil: DefaultDirs
	Placement Placement
	Values    map[string]string // the plugin's own settings
	Secrets   map[string]string // by name: env:VAR, file:PATH or cmd:COMMAND
	Env       []string          // names of environment variables that a process may have beyond PATH, TZ and LANG

	CacheDir    string // of compiled modules; "": none is kept
	HostVersion string
	Timeout     time.Duration // of a start; 0: the placement's default
	Log         *slog.Logger
}

// instance is what both placements are.
type instance interface {
	abi.RemoteStorageManager
	abi.Prober
	Info() abi.Info
	Configure(ctx context.Context, values, secrets map[string]string, roots *grant.Roots) error
	Close(ctx context.Context) error
}

// Plugin is a plugin that runs. Its methods are the contract's. A process that died is started again by the next call.
type Plugin struct {
	Found
	o     Options
	roots *grant.Roots // nil until it is configured
	life  life
}

// Roots are the directories that the plugin's own configuration granted: what its locations may name.
func (p *Plugin) Roots() *grant.Roots { return p.roots }

// Open finds, loads and configures a plugin. ctx bounds the opening alone. Nothing stays behind an error.
func Open(ctx context.Context, o Options) (*Plugin, error) {
	p, err := Load(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := p.configure(ctx, p.life.now()); err != nil {
		return nil, errors.Join(err, p.Close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// Load finds and loads a plugin, as far as it can tell of itself: it is not configured, and nothing is granted.
func Load(ctx context.Context, o Options) (*Plugin, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Dirs == nil {
		o.Dirs = DefaultDirs()
	}
	f, err := Find(o.Ref, o.Dirs, o.Placement)
	if err != nil {
		return nil, err
	}
	p := &Plugin{Found: f, o: o, life: newLife()}
	in, err := p.launch(ctx)
	if err != nil {
		return nil, err
	}
	p.life.begin(in)
	return p, nil
}

// launch loads the module or starts the process.
func (p *Plugin) launch(ctx context.Context) (instance, error) {
	if p.Placement == Wasm {
		return wasm.Load(ctx, wasm.Options{Path: p.Path, Name: p.File(), HostVersion: p.o.HostVersion, CacheDir: p.o.CacheDir, Log: p.o.Log.With("plugin", p.File())})
	}
	return process.Start(ctx, process.Options{Path: p.Path, Name: p.File(), HostVersion: p.o.HostVersion,
		Env: environment(p.o.Env), Log: p.o.Log, StartTimeout: p.o.Timeout})
}

func environment(names []string) []string {
	var out []string
	for _, n := range names {
		if v, ok := os.LookupEnv(n); ok {
			out = append(out, n+"="+v)
		}
	}
	return out
}

// configure opens what the plugin's configuration grants, and gives it that.
func (p *Plugin) configure(ctx context.Context, in instance) error {
	info := in.Info()
	s, err := checkSettings(cmp.Or(info.Name, p.File()), info.Schema, p.o.Values)
	if err != nil {
		return err
	}
	if err := checkGrants(p.File(), info.Grants, &p.o); err != nil {
		return err
	}
	secrets, err := resolveSecrets(ctx, cmp.Or(info.Name, p.File()), info.Secrets, p.o.Secrets, s.secrets)
	if err != nil {
		return err
	}
	if p.roots == nil { // those of a process that is started again are open
		if p.roots, err = grant.OpenRoots(s.roots); err != nil {
			return err
		}
	}
	return in.Configure(ctx, s.values, secrets, p.roots)
}

// checkGrants says what the plugin asks for and does not get. A missing environment variable is a warning: a plugin can
// do without.
func checkGrants(plugin string, grants []abi.Grant, o *Options) error {
	for _, g := range grants {
		switch g.Kind {
		case "env":
			if !slices.Contains(o.Env, g.Value) && o.Log != nil {
				o.Log.Warn("the plugin asks for an environment variable that is not granted", "plugin", plugin, "variable", g.Value,
					"grant", fmt.Sprintf("grants.env: [%s]", g.Value))
			}
		default:
			return abi.Errorf("grant", plugin, abi.Unsupported, "the plugin asks for %s %s, which this host does not grant", g.Kind, g.Value)
		}
	}
	return nil
}

// Info is what the plugin says about itself.
func (p *Plugin) Info() abi.Info { return p.life.now().Info() }

// Starts is how often the plugin was started.
func (p *Plugin) Starts() int64 { return p.life.starts.Load() }

// FetchLogSegment is the contract's.
func (p *Plugin) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	in, err := p.living(ctx)
	if err != nil {
		return nil, err
	}
	return in.FetchLogSegment(ctx, seg, r)
}

// FetchIndex is the contract's.
func (p *Plugin) FetchIndex(ctx context.Context, seg *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	in, err := p.living(ctx)
	if err != nil {
		return nil, err
	}
	return in.FetchIndex(ctx, seg, t)
}

// Probe is the contract's.
func (p *Plugin) Probe(ctx context.Context) error {
	in, err := p.living(ctx)
	if err != nil {
		return err
	}
	return in.Probe(ctx)
}

// Close ends the plugin. It is bounded whatever the plugin does, and may be called more than once.
func (p *Plugin) Close(ctx context.Context) error {
	return errors.Join(p.life.end(ctx), p.roots.Close())
}
