package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
	"github.com/rsmhost/rsmhost/host/grant"
	"github.com/rsmhost/rsmhost/host/ownfile"
)

// Options say which module to load, and within what bounds it runs. All but Path may be left at zero.
type Options struct {
	Path        string // the .wasm file
	Name        string // for messages; empty: the file's name
	HostVersion string // told to the module

	// CacheDir keeps compiled modules, in a directory of ours below it; empty: none are kept. Compiling takes a Go module
	// about a second, and reading it back a twentieth of that.
	CacheDir string

	MemoryCap   int64         // bytes of memory that an instance may have; 0: 64 MiB
	Instances   int           // that run at once, beside those that stream; 0: GOMAXPROCS, 8 at most
	MaxQueued   int           // calls that may wait for an instance; 0: 1024
	CallTimeout time.Duration // for a call whose context has no deadline; 0: 10 s
	Log         *slog.Logger  // says which plugin it is for; nil: nothing is logged
}

func (o *Options) setDefaults() {
	if o.Name == "" {
		o.Name = filepath.Base(o.Path)
	}
	if o.MemoryCap <= 0 {
		o.MemoryCap = DefaultMemoryCap
	}
	o.MemoryCap = min(max(o.MemoryCap, pageSize), 1<<32-pageSize) // one page less than what 32 bits address: its size fits too
	if o.Instances <= 0 {
		o.Instances = min(runtime.GOMAXPROCS(0), 8)
	}
	if o.MaxQueued <= 0 {
		o.MaxQueued = 1024
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// DefaultMemoryCap bounds the memory of an instance, in bytes, and is the maximum that wasmpack declares.
const DefaultMemoryCap = 64 << 20

// Plugin is a module that was loaded. It implements abi.RemoteStorageManager once it is configured.
type Plugin struct {
	name        string
	hostVersion string
	log         *slog.Logger
	callTimeout time.Duration
	highWater   uint32
	grace       time.Duration // abandonGrace; tests have less patience
	info        abi.Info
	probes      bool

	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	cache    wazero.CompilationCache // which owns the compiled code; nil: the runtime does
	pool     *pool
	stats    counters

	closing sync.Mutex // held by Close

	mu      sync.Mutex
	state   state
	values  map[string]string // nil before configuring
	roots   *grant.Roots
	running map[*leash]struct{}
	idle    chan struct{} // made by Close where calls run; closed when the last ends
}

var (
	_ abi.RemoteStorageManager = (*Plugin)(nil)
	_ abi.Prober               = (*Plugin)(nil)
)

type state int

const (
	loaded state = iota
	configuring
	configured
	closing
	closed
)

func (s state) String() string {
	return [...]string{"not configured", "being configured", "configured", "being closed", "closed"}[s]
}

// Stats are counters of a plugin, for its log and for tests.
type Stats struct {
	Instances int   // there are now
	Running   int   // calls that run now
	Created   int64 // instances so far
	Replaced  int64 // instances closed for what they did
	Traps     int64 // calls that did not return
}

type counters struct {
	instances, created, replaced, traps atomic.Int64
}

// Load vets the module, compiles it, and reads its manifest: the section rsm.manifest, and where there is none what
// describe answers. Errors: NOT_FOUND, DENIED or UNAVAILABLE for the file, INVALID for what is no module, UNSUPPORTED for
// one that this host cannot run, EXHAUSTED for one that is over a limit, INTERNAL for one that does not work.
func Load(ctx context.Context, o Options) (*Plugin, error) {
	o.setDefaults()
	p, err := load(ctx, o)
	if err != nil {
		return nil, abi.E("load", o.Path, abi.KindOf(err), err)
	}
	return p, nil
}

func load(ctx context.Context, o Options) (*Plugin, error) {
	module, err := readModule(o.Path)
	if err != nil {
		return nil, err
	}
	v, err := vet(module, o.MemoryCap)
	if err != nil {
		return nil, err
	}
	p := &Plugin{
		name: o.Name, hostVersion: o.HostVersion, log: o.Log, callTimeout: o.CallTimeout,
		highWater: uint32(min(o.MemoryCap/4*3, 1<<32-1)), probes: v.probe, grace: abandonGrace,
		pool: newPool(o.Instances, o.MaxQueued), running: map[*leash]struct{}{},
	}
	if err := p.compile(ctx, module, o); err != nil {
		return nil, err
	}
	if err := p.prepare(ctx, v); err != nil {
		p.Close(ctx) // its own error would only say that of the first
		return nil, err
	}
	return p, nil
}

func readModule(path string) ([]byte, error) {
	f, err := ownfile.Open("open", path, math.MaxInt64) // which one is too large says who looks into it
	if err != nil {
		named := abi.AsError("open", "", err)
		named.Subject = "" // load names it
		return nil, named
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, abi.E("open", "", abi.FileKind(err), err)
	}
	var b bytes.Buffer
	b.Grow(int(min(st.Size(), maxModule)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(f, maxModule+1)); err != nil {
		return nil, abi.E("read", "", abi.FileKind(err), err)
	}
	return b.Bytes(), nil
}

// prepare links the host's functions and reads the manifest.
func (p *Plugin) prepare(ctx context.Context, v *vetted) error {
	if err := linkHost(ctx, p.runtime, v.imports); err != nil {
		return abi.E("link", "", abi.Internal, err)
	}
	doc := v.manifest
	if doc == nil {
		c, err := p.simple(ctx, abiwasm.Describe, "describe", loaded)
		if err != nil {
			return err
		}
		doc = c.reply
	}
	info, err := abiwasm.DecodeInfo(doc)
	if err != nil {
		return fmt.Errorf("what the module says about itself cannot be read: %w", err)
	}
	p.info = *info
	return nil
}

// Info gives what the plugin says about itself.
func (p *Plugin) Info() abi.Info { return p.info }

// Stats gives the plugin's counters.
func (p *Plugin) Stats() Stats {
	p.mu.Lock()
	running := len(p.running)
	p.mu.Unlock()
	return Stats{
		Instances: int(p.stats.instances.Load()), Running: running, Created: p.stats.created.Load(),
		Replaced: p.stats.replaced.Load(), Traps: p.stats.traps.Load(),
	}
}

// Configure gives the plugin its settings and the directories that they grant, and proves them on one instance, which
// stays warm. Every other instance gets the same. roots stay the caller's; they must be open until Close has returned.
//
// Errors: what the plugin says about a setting; UNSUPPORTED where the plugin needs secrets, which modules cannot have yet;
// PHASE for a plugin that is configured. After another error it may be called again.
func (p *Plugin) Configure(ctx context.Context, values, secrets map[string]string, roots *grant.Roots) error {
	if len(p.info.Secrets) > 0 || len(secrets) > 0 {
		return abi.Errorf("configure", p.name, abi.Unsupported, "the plugin needs secrets, and a module cannot be given any yet; "+
			"use its process form (--placement process)")
	}
	if err := p.step(loaded, configuring); err != nil {
		return err
	}
	p.mu.Lock()
	p.values, p.roots = map[string]string{}, roots
	maps.Copy(p.values, values)
	p.mu.Unlock()
	err := p.warm(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != configuring { // Close came
		return p.phaseLocked("configure")
	}
	p.state = configured
	if err != nil {
		p.state, p.values, p.roots = loaded, nil, nil
		return err
	}
	return nil
}

// step goes from one state to the next. The error is PHASE.
func (p *Plugin) step(from, to state) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != from {
		return p.phaseLocked("configure")
	}
	p.state = to
	return nil
}

func (p *Plugin) phaseLocked(op string) error {
	return abi.Errorf(op, p.name, abi.Phase, "the plugin is %v", p.state)
}

// FetchLogSegment asks where the bytes r of the segment's log lie. A stream that it answers with ends with ctx.
func (p *Plugin) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	return p.fetch(ctx, abiwasm.FetchLogSegment, "fetch_log_segment", func(b []byte) []byte {
		return abiwasm.AppendFetchLogSegment(b, seg, r)
	})
}

// FetchIndex asks where one of the segment's indexes lies. A stream that it answers with ends with ctx.
func (p *Plugin) FetchIndex(ctx context.Context, seg *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	return p.fetch(ctx, abiwasm.FetchIndex, "fetch_index", func(b []byte) []byte {
		return abiwasm.AppendFetchIndex(b, seg, t)
	})
}

// Probe runs the plugin's self-test. The error is UNSUPPORTED where it has none.
func (p *Plugin) Probe(ctx context.Context) error {
	if !p.probes {
		return abi.Errorf("probe", p.name, abi.Unsupported, "the plugin has no self-test")
	}
	_, err := p.simple(ctx, abiwasm.Probe, "probe", configured)
	return err
}

// drainTime bounds Close where its context has no deadline.
const drainTime = 10 * time.Second

// Close takes no more calls, waits for those that run until ctx is done (10 seconds where it has no deadline), stops the
// rest, and frees the module. It may be called again.
//
// The error is UNAVAILABLE when a call could not be stopped: what it runs in is not freed then, because a module that is
// freed under a running call takes the process with it.
func (p *Plugin) Close(ctx context.Context) error {
	p.closing.Lock()
	defer p.closing.Unlock()
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, drainTime)
		defer cancel()
	}
	idle, done := p.drain()
	if done {
		return nil
	}
	if !wait(ctx, idle) {
		p.stopRunning()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*p.grace)
		defer cancel()
		if !wait(stop, idle) {
			return abi.Errorf("close", p.name, abi.Unavailable, "%d calls of the module cannot be stopped; its memory is not freed", p.Stats().Running)
		}
	}
	p.mu.Lock()
	p.state = closed
	p.mu.Unlock()
	return p.free(context.WithoutCancel(ctx))
}

// drain ends the state in which calls are taken, and gives what is closed when the last has ended.
func (p *Plugin) drain() (idle <-chan struct{}, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == closed {
		return nil, true
	}
	p.state = closing
	if p.idle == nil {
		p.idle = make(chan struct{})
		if len(p.running) == 0 {
			close(p.idle)
		}
	}
	return p.idle, false
}

func wait(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *Plugin) stopRunning() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.running {
		l.cancel(errClosing)
	}
}

// free closes what there is. No call runs.
func (p *Plugin) free(ctx context.Context) error {
	for i := p.pool.take(); i != nil; i = p.pool.take() {
		p.discard(ctx, i)
	}
	err := p.runtime.Close(ctx)
	if p.cache != nil {
		err = errors.Join(err, p.cache.Close(ctx))
	}
	if err != nil {
		return abi.E("close", p.name, abi.Internal, err)
	}
	return nil
}
