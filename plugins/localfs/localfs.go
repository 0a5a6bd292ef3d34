// Package localfs is the storage plugin for tiered objects in a directory, as Kafka's LocalTieredStorage writes them. It
// reads; it never writes.
//
// In location mode it answers with the file that holds the object, and the host reads it. In stream mode it reads the
// file itself, which is slower and exercises the other half of the contract.
//
// # Concurrency
//
// A Store is safe for concurrent use.
package localfs

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
	"github.com/rsmhost/rsmhost/plugins/layout/kafkalocal"
)

// The settings.
const (
	rootSetting   = "root"
	layoutSetting = "layout"
	modeSetting   = "mode"
)

const schema = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": ["root"],
  "properties": {
    "root": {
      "type": "string",
      "minLength": 1,
      "x-grant": "fs.read",
      "description": "The directory that holds kafka-tiered-storage/, or that folder itself."
    },
    "layout": {
      "type": "string",
      "enum": ["kafkalocal"],
      "default": "kafkalocal",
      "description": "How the objects are named: kafkalocal is what Kafka's LocalTieredStorage writes."
    },
    "mode": {
      "type": "string",
      "enum": ["location", "stream"],
      "default": "location",
      "description": "location: the plugin names the file and the host reads it. stream: the plugin reads it."
    }
  }
}`

// Plugin is localfs for sdk.Main, and for a host that builds it in.
func Plugin() sdk.Plugin {
	return sdk.Plugin{
		Info: abi.Info{Name: "localfs", Vendor: "rsmhost", Version: "0.1.0", Features: []string{"probe"}, Schema: []byte(schema)},
		New: func(_ context.Context, c *sdk.Config) (abi.RemoteStorageManager, error) {
			return New(c)
		},
	}
}

// Store reads the tiered objects below one directory.
type Store struct {
	root   *sdk.Root
	stream bool

	// inRoot says that partitions lie in the root itself, not in kafkalocal.Folder below it. It is a guess until an object
	// was found, so that a fetch needs no look around first.
	inRoot atomic.Bool
}

var (
	_ abi.RemoteStorageManager = (*Store)(nil)
	_ abi.Prober               = (*Store)(nil)
)

// New makes a Store from its configuration. Errors are INVALID or DENIED and name the setting.
func New(c *sdk.Config) (*Store, error) {
	if layout := c.ValueOr(layoutSetting, "kafkalocal"); layout != "kafkalocal" {
		return nil, abi.Errorf("configure", layoutSetting, abi.Invalid, "%q is not a layout; there is kafkalocal", layout)
	}
	mode := c.ValueOr(modeSetting, "location")
	if mode != "location" && mode != "stream" {
		return nil, abi.Errorf("configure", modeSetting, abi.Invalid, "%q is not a mode; there are location and stream", mode)
	}
	if c.Value(rootSetting) == "" {
		return nil, abi.Errorf("configure", rootSetting, abi.Invalid, "not set; it names the directory to read")
	}
	root, err := c.Root(rootSetting)
	if err != nil {
		return nil, err
	}
	return &Store{root: root, stream: mode == "stream"}, nil
}

// FetchLogSegment answers with the segment's log. The log is the segment: NOT_FOUND where there is none.
func (s *Store) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	path, err := kafkalocal.LogPath(seg)
	if err != nil {
		return nil, err
	}
	path, size, err := s.find(path)
	if err != nil {
		return nil, err
	}
	if r, err = r.Clamp(size); err != nil {
		return nil, err
	}
	return s.source(ctx, path, size, r), nil
}

// FetchIndex answers with one of the segment's indexes.
func (s *Store) FetchIndex(ctx context.Context, seg *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	path, err := kafkalocal.IndexPath(seg, t)
	if err != nil {
		return nil, err
	}
	path, size, err := s.find(path)
	if errors.Is(err, abi.NotFound) {
		return nil, s.missingIndex(seg, t, err)
	}
	if err != nil {
		return nil, err
	}
	return s.source(ctx, path, size, abi.Range{Start: 0, End: size - 1}), nil
}

// missingIndex says what it means that an index is not there. LocalTieredStorage writes no transaction index for a
// segment that has none and no empty leader epochs; the other three come with every segment.
func (s *Store) missingIndex(seg *abi.SegmentMetadata, t abi.IndexType, err error) error {
	if t == abi.TransactionIndex || t == abi.LeaderEpochIndex {
		return err
	}
	path, nameErr := kafkalocal.LogPath(seg)
	if nameErr != nil {
		return nameErr
	}
	if _, _, logErr := s.find(path); logErr != nil {
		return logErr // without its log the segment as a whole is missing: NOT_FOUND
	}
	return abi.Errorf("fetch_index", seg.Key(), abi.Corrupt, "the segment's log is there, its %v index is not: %w", t, err)
}

// find gives an object's path below the root, and its size. It costs one look once an object was found.
func (s *Store) find(path string) (string, int64, error) {
	inRoot := s.inRoot.Load()
	full := place(path, inRoot)
	size, err := s.root.Size(full)
	if !errors.Is(err, abi.NotFound) {
		return full, size, err
	}
	other := place(path, !inRoot)
	if size, otherErr := s.root.Size(other); otherErr == nil {
		s.inRoot.Store(!inRoot)
		return other, size, nil
	}
	return "", 0, err
}

func place(path string, inRoot bool) string {
	if inRoot {
		return path
	}
	return kafkalocal.Folder + "/" + path
}

// source answers with all of a file, or with the bytes r of it.
func (s *Store) source(ctx context.Context, path string, size int64, r abi.Range) *abi.Source {
	if s.stream {
		return &abi.Source{OriginalSize: size, Stream: newStream(ctx, s.root, path, r)}
	}
	return &abi.Source{OriginalSize: size, Location: &abi.Location{
		Scope: abi.ScopeObject,
		Parts: []abi.Part{{File: &abi.FilePart{Root: s.root.Name(), Path: path, Length: size}}},
	}}
}

// probeNames bounds how many names Probe looks at for one that is a partition's.
const probeNames = 1000

// Probe reports whether the root looks like what LocalTieredStorage writes.
func (s *Store) Probe(context.Context) error {
	_, err := s.root.ReadDir(kafkalocal.Folder, 1)
	switch {
	case err == nil, errors.Is(err, abi.Unsupported): // where nothing can be listed, that the root opened must do
		return nil
	case !errors.Is(err, abi.NotFound):
		return err
	}
	names, err := s.root.ReadDir(".", probeNames)
	if err != nil {
		return err
	}
	for _, name := range names {
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			if _, err := kafkalocal.ParseDir(dir); err == nil {
				return nil
			}
		}
	}
	return abi.Errorf("probe", rootSetting, abi.NotFound,
		"holds neither the folder %s nor the directory of a partition; it must be that folder or the one that holds it",
		strconv.Quote(kafkalocal.Folder))
}
