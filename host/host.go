package host

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/grant"
	"github.com/rsmhost/rsmhost/host/indexcache"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/plugin"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// Config says what a Host reads. A Metadata source or a log directory is required; a plugin, or an RSM, is needed for the
// remote tier alone.
type Config struct {
	// Plugin refers to the storage backend: a name in PluginDirs, or the path of an executable or a .wasm file. Empty,
	// and without RSM: the remote tier can't be read, only its metadata.
	Plugin       string
	PluginDirs   []string          // nil: beside the executable, then the user's data directory
	Placement    plugin.Placement  // restricts what Plugin may mean
	PluginConfig map[string]string // the plugin's own settings, checked against its schema
	Secrets      map[string]string // by name: env:VAR, file:PATH or cmd:COMMAND
	GrantEnv     []string          // environment variables that a process plugin may have

	// RSM is a built-in backend, which is trusted; Roots names the directories that its file locations may open. It
	// excludes Plugin.
	RSM   abi.RemoteStorageManager
	Roots map[string]string

	// Metadata says where remote log metadata comes from: "dir:PATH", the partition directories of
	// __remote_log_metadata as a broker leaves them. Empty: there is no remote tier.
	Metadata string
	// RefreshInterval is the time between looks at the metadata source; 0: there is one, when it is opened.
	RefreshInterval time.Duration
	// LogDirs are the local tier: Kafka log directories, opened read-only.
	LogDirs []string

	// CacheDir holds what may be wiped: the index cache and compiled modules. Empty: caches are in memory alone.
	CacheDir string
	// StateDir is for what must not be lost. It is made and locked; empty: there is none.
	StateDir string
	// Exclusive makes a CacheDir or StateDir that another process has an error. Without it caches are in memory then, and
	// there is no state.
	Exclusive bool
	// IndexCacheBytes is remote.log.index.file.cache.total.size.bytes; 0: 1 GiB.
	IndexCacheBytes int64
	// IndexCacheTTL is remote.log.index.file.cache.ttl.ms: an index that was not used that long leaves the cache; 0: 15
	// minutes, negative: none does.
	IndexCacheTTL time.Duration

	// MemoryBytes is memory.max: what reads and caches hold in memory, all together; 0: budget.Default. Metadata, modules
	// and the program itself come on top.
	MemoryBytes int64

	// ReaderThreads and ReaderPending are remote.log.reader.threads and remote.log.reader.max.pending.tasks; 0: 10, 100.
	ReaderThreads int
	ReaderPending int

	// RemoteWait is remote.fetch.max.wait.ms: a fetch is answered then without what is not ready, which goes on for the
	// retry; 0: a fetch waits as long as its context.
	RemoteWait time.Duration
	// Quota bounds the rate of remote reads (KIP-956).
	Quota reader.QuotaConfig

	// SlowRead is slow.read.ms: a read that took longer is logged with its steps; 0: none is.
	SlowRead time.Duration

	// KafkaExact answers as Apache Kafka 4.3 does, warts included.
	KafkaExact bool

	// Version names the host to plugins; empty: "unknown".
	Version string

	Log *slog.Logger // nil: nothing is logged
}

// Host reads tiered topics.
type Host struct {
	log     *slog.Logger
	memory  *budget.Pool
	catalog *current
	epochs  *epochReader
	reader  *reader.Reader
	indexes *indexcache.Cache
	store   *reader.Store  // nil: none
	plugin  *plugin.Plugin // nil: none
	calls   *counted       // store's; nil: none
	nodeID  int32
	watch   watch
	met     finding.List // what reads met
	looks   looks
	sizes   sizes

	looking sync.Mutex      // guards what follows; one look at a time
	meta    *rlmm.Dir       // nil: no metadata source
	dirs    []*locallog.Dir // the newest view of each

	standing map[finding.Finding]bool // the catalog's findings, which were logged

	closers []func() error // in the order of opening
}

// Open opens everything that cfg names. ctx bounds the opening alone. Errors name the field or the path; nothing stays
// open then.
func Open(ctx context.Context, cfg Config) (*Host, error) {
	if cfg.Metadata == "" && len(cfg.LogDirs) == 0 {
		return nil, abi.Errorf("open", "", abi.Invalid, "nothing to read: give a metadata source, a log directory, or both")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	h := &Host{log: cfg.Log}
	h.watch.begin(cfg.Log, cfg.SlowRead)
	if err := h.open(ctx, cfg); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *Host) open(ctx context.Context, cfg Config) error {
	var err error
	if h.nodeID, err = h.openLogDirs(cfg.LogDirs); err != nil {
		return err
	}
	h.catalog, h.epochs = &current{}, &epochReader{read: h.toldInTurn}
	if err := h.openMetadata(ctx, cfg.Metadata); err != nil {
		return err
	}
	if err := h.openState(cfg); err != nil {
		return err
	}
	if cfg.MemoryBytes <= 0 {
		cfg.MemoryBytes = budget.Default()
	}
	h.memory = budget.New(cfg.MemoryBytes)
	indexes, err := h.openIndexes(cfg) // before the plugin: a directory that can't be had is told at once
	if err != nil {
		return err
	}
	h.closers = append(h.closers, indexes.Close)
	if err := h.openStore(ctx, cfg); err != nil {
		return err
	}
	h.closers = append(h.closers, h.epochs.close)
	policy := reader.Better
	if cfg.KafkaExact {
		policy = reader.Kafka43
	}
	h.indexes = indexes
	h.reader = reader.New(reader.Options{Catalog: h.catalog, Store: h.store, Indexes: indexes, Policy: policy,
		Threads: cfg.ReaderThreads, Pending: cfg.ReaderPending, Quota: cfg.Quota, Wait: cfg.RemoteWait, Memory: h.memory,
		Look: h.Look, Watch: h.watch.read, Report: h.foundByRead})
	h.closers = append(h.closers, func() error { h.reader.Close(); return nil })
	h.follow(cfg.RefreshInterval)
	return nil
}

// openLogDirs opens the local tier and gives the broker's node id: that of the first directory that knows it, else 1.
func (h *Host) openLogDirs(paths []string) (nodeID int32, err error) {
	nodeID = -1
	h.closers = append(h.closers, h.closeLogDirs)
	for _, path := range paths {
		d, err := locallog.OpenDir(path)
		if err != nil {
			return 0, err
		}
		d.Report(h.foundByRead)
		h.dirs = append(h.dirs, d)
		if nodeID < 0 {
			nodeID = d.NodeID
		}
		h.tellFindings(d, nil)
		if len(d.Logs()) == 0 {
			h.log.Warn("the log directory holds no partition, no folder TOPIC-N: what is wanted is the one that a broker has in log.dirs", "dir", path)
		}
	}
	h.tellMissing(nil)
	if nodeID < 0 {
		nodeID = 1
	}
	return nodeID, nil
}

func (h *Host) closeLogDirs() error {
	var errs []error
	for _, d := range h.dirs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// openStore starts the plugin, or takes the built-in backend.
func (h *Host) openStore(ctx context.Context, cfg Config) error {
	switch {
	case cfg.RSM != nil && cfg.Plugin != "":
		return abi.Errorf("open", "", abi.Invalid, "both a plugin and a built-in backend are given")
	case cfg.RSM != nil:
		roots, err := grant.OpenRoots(cfg.Roots)
		if err != nil {
			return err
		}
		h.closers = append(h.closers, roots.Close)
		h.calls = &counted{RemoteStorageManager: cfg.RSM}
		h.store = &reader.Store{Name: "built-in", RSM: h.calls, Mover: transfer.New(roots, &transfer.Options{Memory: h.memory})}
	case cfg.Plugin != "":
		p, err := plugin.Open(ctx, pluginOptions(cfg))
		if err != nil {
			return err
		}
		h.plugin = p
		h.closers = append(h.closers, func() error { return p.Close(context.Background()) }) // bounded by itself
		h.calls = &counted{RemoteStorageManager: p}
		h.store = &reader.Store{Name: p.File(), RSM: h.calls, Mover: transfer.New(p.Roots(), &transfer.Options{Memory: h.memory})}
	}
	return nil
}

func pluginOptions(cfg Config) plugin.Options {
	o := plugin.Options{Ref: cfg.Plugin, Dirs: cfg.PluginDirs, Placement: cfg.Placement, Values: cfg.PluginConfig,
		Secrets: cfg.Secrets, Env: cfg.GrantEnv, HostVersion: cfg.Version, Log: cfg.Log}
	o.CacheDir = cfg.ModuleCache()
	return o
}

// ModuleCache is where compiled modules are kept: below CacheDir, or nowhere.
func (c Config) ModuleCache() string {
	if c.CacheDir == "" {
		return ""
	}
	return filepath.Join(c.CacheDir, "modules")
}

func (h *Host) openIndexes(cfg Config) (*indexcache.Cache, error) {
	o := indexcache.Options{TotalBytes: cfg.IndexCacheBytes, TTL: cfg.IndexCacheTTL, Log: h.log, Budget: h.memory,
		MemoryBytes: min(indexcache.DefaultMemoryBytes, h.memory.Limit()/4)}
	if cfg.CacheDir == "" {
		return indexcache.New(o)
	}
	release, err := takeDir(cfg.CacheDir, "--cache-dir")
	if err != nil {
		return nil, err
	}
	if release == nil && cfg.Exclusive {
		return nil, taken(cfg.CacheDir, "--cache-dir")
	}
	if release == nil {
		h.log.Warn("the cache directory is in use by another rsmhost: indexes are kept in memory", "dir", cfg.CacheDir)
		return indexcache.New(o)
	}
	h.closers = append(h.closers, release)
	if o.Dir, err = subDir(cfg.CacheDir, "remote-log-index-cache"); err != nil {
		return nil, err
	}
	return indexcache.New(o)
}

// openState takes the state directory, where there is one. Nothing is written to one that another process has.
func (h *Host) openState(cfg Config) error {
	if cfg.StateDir == "" {
		return nil
	}
	release, err := takeDir(cfg.StateDir, "--state-dir")
	if err != nil {
		return err
	}
	if release == nil && cfg.Exclusive {
		return taken(cfg.StateDir, "--state-dir")
	}
	if release == nil {
		h.log.Warn("the state directory is in use by another rsmhost: no state is opened", "dir", cfg.StateDir)
		return nil
	}
	h.closers = append(h.closers, release)
	return nil
}

// MemoryInUse is what reads and caches hold now, and the most they may.
func (h *Host) MemoryInUse() (used, limit int64) { return h.memory.InUse(), h.memory.Limit() }

// Plugin is the plugin that runs; nil where there is none.
func (h *Host) Plugin() *plugin.Plugin { return h.plugin }

// Fetch answers a fetch. The caller releases the response.
func (h *Host) Fetch(ctx context.Context, req *reader.FetchRequest) *reader.FetchResponse {
	return h.reader.Fetch(ctx, req)
}

// ListOffsets answers a ListOffsets, in its order of partitions.
func (h *Host) ListOffsets(ctx context.Context, req *reader.ListOffsetsRequest) []reader.OffsetData {
	return h.reader.ListOffsets(ctx, req)
}

// OffsetForLeaderEpoch tells where a leader epoch ends.
func (h *Host) OffsetForLeaderEpoch(ctx context.Context, req *reader.EpochRequest) reader.EpochEnd {
	return h.reader.OffsetForLeaderEpoch(ctx, req)
}

// OffsetsForLeaderEpochs tells where leader epochs end, in the order of the requests.
func (h *Host) OffsetsForLeaderEpochs(ctx context.Context, reqs []reader.EpochRequest) []reader.EpochEnd {
	return h.reader.OffsetsForLeaderEpochs(ctx, reqs)
}

// Topics lists all incarnations of all topics, by name, the newest of a name first.
func (h *Host) Topics() []*Topic { return h.catalog.Load().list() }

// Topic finds a topic by name, or by "name@id" where an older incarnation is meant. An error is NOT_FOUND or INVALID.
func (h *Host) Topic(ref string) (*Topic, error) {
	name, idText, ok := strings.Cut(ref, "@")
	var id abi.UUID
	if ok {
		var err error
		if id, err = abi.ParseUUID(idText); err != nil {
			return nil, err
		}
		if id.IsZero() { // which says of a request that it names no id
			return nil, abi.Errorf("fetch", ref, abi.NotFound, "no topic has the id of zeros")
		}
	}
	t, _, err := h.catalog.Load().topic(name, id)
	return t, err
}

// Partition gives what the reader knows of a partition.
func (h *Host) Partition(ctx context.Context, t *Topic, partition int32) (*reader.Partition, error) {
	p, _, err := h.catalog.Find(ctx, t.Name, t.ID, partition)
	return p, err
}

// Close closes everything, in the reverse order of opening. No call may run.
func (h *Host) Close() error {
	var errs []error
	for i := len(h.closers) - 1; i >= 0; i-- {
		errs = append(errs, h.closers[i]())
	}
	h.closers = nil
	return errors.Join(errs...)
}
