package damage

import (
	"context"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/plugins/localfs"
)

const fixtures = "../../testdata/kafka"

// brokers are the recorded brokers that are damaged.
var brokers = []string{"basic", "compacted-then-tiered", "empty-and-edge", "epochs", "retention", "txn"}

// setup is which tiers a host is given.
type setup string

const (
	bothTiers  setup = "both tiers"
	remoteTier setup = "the remote tier"
	localTier  setup = "the local tier"
)

var setups = []setup{bothTiers, remoteTier, localTier}

// The parts of a fixture, which are folders of it.
const (
	remotePart   = "remote"
	localPart    = "local"
	metadataPart = "rlmm"
	cachePart    = "cache"
)

// parts are the folders that a setup reads.
var parts = map[setup][]string{
	bothTiers:  {remotePart, localPart, metadataPart},
	remoteTier: {remotePart, metadataPart},
	localTier:  {localPart},
}

// isolations are both.
var isolations = []locality.Isolation{locality.ReadUncommitted, locality.ReadCommitted}

// memoryMax is memory.max of every host here.
const memoryMax = 32 << 20

// config is a host over a fixture in dir, with localfs built in. close releases the plugin's root.
func config(dir string, s setup) (cfg host.Config, closeRoot func() error, err error) {
	cfg = host.Config{MemoryBytes: memoryMax, CacheDir: filepath.Join(dir, cachePart)}
	closeRoot = func() error { return nil }
	if s != remoteTier {
		cfg.LogDirs = []string{filepath.Join(dir, localPart)}
	}
	if s == localTier {
		return cfg, closeRoot, nil
	}
	cfg.Metadata = "dir:" + filepath.Join(dir, metadataPart)
	cfg.Roots = map[string]string{"root": filepath.Join(dir, remotePart)}
	c, err := sdk.NewConfig(map[string]string{"root": filepath.Join(dir, remotePart)}, nil, cfg.Roots)
	if err != nil {
		return cfg, closeRoot, err
	}
	cfg.RSM, err = localfs.Plugin().New(context.Background(), c)
	return cfg, c.Close, err
}

// record is a record with all that a consumer sees of it, as a hash.
type record struct {
	offset int64
	hash   uint64
}

var hashSeed = maphash.MakeSeed()

func newRecord(r *format.Record) record {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	fmt.Fprintf(&h, "%d %v %q %v %q", r.Timestamp, r.Key == nil, r.Key, r.Value == nil, r.Value)
	for _, header := range r.Headers {
		fmt.Fprintf(&h, " %q=%v%q", header.Key, header.Value == nil, header.Value)
	}
	return record{r.Offset, h.Sum64()}
}

// partition names a partition of a truth.
type partition struct {
	topic  string
	id     abi.UUID
	number int32
}

func (p partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.number) }

// known is what is true of one partition.
type known struct {
	partition
	records  [2][]record                 // by isolation
	end      [2]int64                    // exclusive, by isolation
	specials map[int64]reader.OffsetData // by timestamp of ListOffsets
	times    map[int64]reader.OffsetData // likewise
}

// truth is what an undamaged fixture gives with a setup. What the host gives of undamaged data is held against what Java
// consumers had of it elsewhere (internal/e2e, TestCat and TestReplay).
type truth struct {
	broker     string
	setup      setup
	partitions []*known
}

// specials are the timestamps of ListOffsets that are no times.
var specials = map[int64]string{reader.Earliest: "earliest", reader.Latest: "latest", reader.MaxTimestamp: "max-timestamp",
	reader.EarliestLocal: "earliest-local", reader.LatestTiered: "latest-tiered"}

// learn reads an undamaged fixture.
func learn(t testing.TB, dir, broker string, s setup) *truth {
	t.Helper()
	cfg, closeRoot, err := config(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	defer closeRoot()
	cfg.CacheDir = ""
	h, err := host.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	out := &truth{broker: broker, setup: s}
	for _, topic := range h.Topics() {
		for _, p := range topic.Partitions {
			out.partitions = append(out.partitions, learnPartition(t, h, partition{topic.Name, topic.ID, p.ID.Partition}))
		}
	}
	if f := unrepaired(h.Findings()); len(f) > 0 || len(out.partitions) == 0 {
		t.Fatalf("%s with %s is to be whole: %v, %d partitions", broker, s, f, len(out.partitions))
	}
	return out
}

func learnPartition(t testing.TB, h *host.Host, p partition) *known {
	t.Helper()
	k := &known{partition: p, specials: map[int64]reader.OffsetData{}, times: map[int64]reader.OffsetData{}}
	for _, iso := range isolations {
		got := readAll(context.Background(), inProcess{h}, p, iso)
		if got.err != nil {
			t.Fatalf("%s, %s: %v", p, iso, got.err)
		}
		k.records[iso], k.end[iso] = got.records, got.end
	}
	for ts := range specials {
		k.specials[ts] = listOffset(context.Background(), inProcess{h}, p, ts)
	}
	for i := 0; i < len(k.records[0]); i += 1 + len(k.records[0])/40 {
		ts := timestampOf(t, h, p, k.records[0][i].offset)
		k.times[ts] = listOffset(context.Background(), inProcess{h}, p, ts)
	}
	return k
}

func timestampOf(t testing.TB, h *host.Host, p partition, offset int64) int64 {
	t.Helper()
	got := fetch(context.Background(), inProcess{h}, p, offset, 1, locality.ReadUncommitted)
	if len(got.decoded) == 0 {
		t.Fatalf("%s: no record at %d", p, offset)
	}
	return got.decoded[0].Timestamp
}

// copyTree copies a folder. Files that link says are links to one file, since a mutation makes a new one of what it changes.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		return os.Link(path, target)
	})
}

// original is an undamaged fixture in a directory of the test's own, with the caches of a host that read it, and what is true of it.
type original struct {
	dir    string
	truths map[setup]*truth
}

// originals copies all fixtures and learns them.
func originals(t testing.TB) map[string]*original {
	t.Helper()
	base := t.TempDir()
	out := map[string]*original{}
	for _, broker := range brokers {
		o := &original{dir: filepath.Join(base, broker), truths: map[setup]*truth{}}
		for _, part := range parts[bothTiers] {
			if err := os.CopyFS(filepath.Join(o.dir, part), os.DirFS(filepath.Join(fixtures, broker, part))); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(o.dir, cachePart), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, s := range setups {
			o.truths[s] = learn(t, o.dir, broker, s)
		}
		fillCache(t, o)
		out[broker] = o
	}
	return out
}

// fillCache reads all by a host with a cache directory.
func fillCache(t testing.TB, o *original) {
	t.Helper()
	cfg, closeRoot, err := config(o.dir, remoteTier)
	if err != nil {
		t.Fatal(err)
	}
	defer closeRoot()
	h, err := host.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, k := range o.truths[remoteTier].partitions {
		readAll(context.Background(), inProcess{h}, k.partition, locality.ReadCommitted)
		for i := 0; i < len(k.records[0]); i += 1 + len(k.records[0])/20 {
			fetch(context.Background(), inProcess{h}, k.partition, k.records[0][i].offset, 4096, locality.ReadUncommitted)
		}
	}
}
