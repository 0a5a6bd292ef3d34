package host

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/rlmm"
)

// current is the catalog that is in force. A look that finds something puts another in its place, so that a reader sees
// the one or the other, never a half.
type current struct {
	atomic.Pointer[catalog]

	mu      sync.Mutex
	changed chan struct{} // closed when another catalog is put in; nil: nobody waits
}

// put puts a catalog in force and wakes those who wait for it.
func (c *current) put(next *catalog) {
	c.Store(next)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// wait gives a channel that is closed when another catalog is put in.
func (c *current) wait() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

// Find implements reader.Catalog.
func (c *current) Find(ctx context.Context, topic string, id abi.UUID, partition int32) (*reader.Partition, reader.Code, error) {
	return c.Load().Find(ctx, topic, id, partition)
}

// openMetadata looks at the metadata source for the first time; source may be empty.
func (h *Host) openMetadata(ctx context.Context, source string) error {
	if source == "" {
		return h.Look(ctx)
	}
	kind, path, ok := strings.Cut(source, ":")
	if !ok || kind != "dir" || path == "" {
		return abi.Errorf("open metadata", source, abi.Invalid, "want dir:PATH, the folder that holds %s-0 and its siblings", rlmm.MetadataTopic)
	}
	h.meta = rlmm.NewDir(path)
	return h.Look(ctx)
}

// Look looks at the metadata source and the log directories again: what came since the last look can be read when it
// returns. Fetches that run go on with what they began with.
//
// Errors: those of rlmm.Dir.Look and locallog.Dir.Look, joined. What could not be read stays as it was.
func (h *Host) Look(ctx context.Context) error {
	h.looking.Lock()
	defer h.looking.Unlock()
	// The log directories first: a broker finishes a copy before it deletes the local segment. In the other order a segment
	// that it moves meanwhile would be in neither view, and now it may be in both: what was opened can be read though it is
	// deleted. At the start they are opened in this order too.
	dirsChanged, dirsErr := h.lookAtLogDirs()
	metaChanged, reloaded, metaErr := h.lookAtMetadata(ctx)
	old := h.catalog.Load()
	if old == nil || metaChanged || dirsChanged {
		if reloaded {
			old = nil // it may be of another cluster
		}
		h.catalog.put(newCatalog(h.viewLocked(), h.nodeID, h.epochs, old))
		h.tellCatalogLocked()
	}
	err := errors.Join(metaErr, dirsErr)
	h.looks.ended(ctx, err)
	return err
}

// viewLocked is what the last look found.
func (h *Host) viewLocked() *view {
	if h.meta == nil {
		return &view{rlmm.NewStore(), h.dirs, true, true}
	}
	total := h.meta.Total()
	return &view{h.meta.Store(), h.dirs, total.Whole(), false}
}

func (h *Host) lookAtMetadata(ctx context.Context) (changed, reloaded bool, err error) {
	if h.meta == nil {
		return false, false, nil
	}
	h.meta.Expect(h.metadataEnds())
	r, err := h.meta.Look(ctx)
	for _, p := range r.Problems {
		h.tellFinding("metadata", problemFinding(p))
	}
	for _, p := range r.Mended {
		h.log.Info("metadata: no longer so", "finding", problemFinding(p).String())
	}
	changed = r.Records > 0 || r.Reloaded || len(r.Problems)+len(r.Mended) > 0 // what was read before a failure counts too
	if changed {
		h.log.Debug("metadata read", "partitions", r.Partitions, "records", r.Records, "dropped", r.Dropped, "reloaded", r.Reloaded)
	}
	return changed, r.Reloaded, err
}

// metadataEnds is what the log directories' checkpoints say of the ends of the metadata topic's partitions, by the path of each.
func (h *Host) metadataEnds() map[string]map[int32]int64 {
	ends := map[string]map[int32]int64{}
	for _, d := range h.dirs {
		ends[filepath.Join(d.Path, "replication-offset-checkpoint")] = d.HighWatermarks(rlmm.MetadataTopic)
	}
	return ends
}

func (h *Host) lookAtLogDirs() (changed bool, err error) {
	if h.catalog.Load() == nil { // they were opened a moment ago
		return false, nil
	}
	var errs []error
	missing := missingLogs(h.dirs)
	for i, d := range h.dirs {
		next, err := d.Look()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if next != d {
			h.tellFindings(next, d)
			h.dirs[i], changed = next, true
		}
	}
	if changed {
		h.tellMissing(missing)
	}
	return changed, errors.Join(errs...)
}

// Report says what the metadata source held; nil where there is none.
func (h *Host) Report() *rlmm.Report {
	h.looking.Lock()
	defer h.looking.Unlock()
	if h.meta == nil {
		return nil
	}
	total := h.meta.Total()
	return &total
}

// follow looks again every interval until Close. 0: never.
func (h *Host) follow(interval time.Duration) {
	if interval <= 0 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	h.closers = append(h.closers, func() error {
		stop()
		<-done
		return nil
	})
	go func() {
		defer close(done)
		h.lookEvery(ctx, interval)
	}()
}

// lookEvery looks until ctx ends. A look that fails is no reason to stop: the source may come back. What is wrong is
// logged when it begins, and when it is over.
func (h *Host) lookEvery(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	wrong := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := h.Look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != wrong:
			wrong = err.Error()
			h.log.Warn("what is on disk can't be read again; what was read stays", "error", err)
		case err == nil && wrong != "":
			wrong = ""
			h.log.Warn("what is on disk can be read again")
		}
	}
}
