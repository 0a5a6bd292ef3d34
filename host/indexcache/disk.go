package indexcache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/ownfile"
)

const (
	trailerMagic = "rsmi"
	trailerSize  = 12
	tmpSuffix    = ".tmp"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var suffixes = map[abi.IndexType]string{
	abi.OffsetIndex: ".index", abi.TimeIndex: ".timeindex", abi.TransactionIndex: ".txnindex",
}

// disk is the files of a cache and their sizes, in the order in which they were used. Every failure is a miss: said in
// the log, never to the reader. mu is held over renames and removals, so that what files says is what is there: a file
// that is removed is never one that was just written in its place (KAFKA-15481).
type disk struct {
	dir string
	log *slog.Logger
	now func() time.Time

	gone atomic.Int64 // files that left

	mu      sync.Mutex
	closed  bool
	files   *shelf[string] // names; what leaves is removed
	writing sync.WaitGroup // of those that began before closed was set
	serial  int64          // of temporary files
}

func openDisk(o Options) (*disk, error) {
	d := &disk{dir: o.Dir, log: o.Log, now: o.Now}
	var err error
	if d.files, err = newShelf(o.TotalBytes, o.TTL, func(name string, _ int64) { d.unlink(name); d.gone.Add(1) }); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, abi.E("open index cache", d.dir, abi.FileKind(err), err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.ownLocked(entries) {
		if k, ok := parseName(f.Name()); ok {
			d.files.add(k, f.Name(), f.Size(), d.now())
		}
	}
	return d, nil
}

// ownLocked gives the files that an earlier process left, the oldest first, and removes what it left half written.
func (d *disk) ownLocked(entries []os.DirEntry) []os.FileInfo {
	var own []os.FileInfo
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		_, ok := parseName(e.Name())
		switch {
		case ok:
			own = append(own, st)
		case halfWritten(e.Name()):
			d.unlink(e.Name())
		default:
			d.log.Warn("a file in the index cache that is not its own is left alone", "file", filepath.Join(d.dir, e.Name()))
		}
	}
	slices.SortStableFunc(own, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return own
}

// halfWritten reports the name of a file that was not renamed yet: ours, a number, and ".tmp".
func halfWritten(name string) bool {
	name, ok := strings.CutSuffix(name, tmpSuffix)
	if !ok {
		return false
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 && strings.Trim(name[i+1:], "0123456789") == "" {
		name = name[:i]
	}
	_, ok = parseName(name)
	return ok
}

// parseName says which index a file of the cache holds.
func parseName(name string) (key, bool) {
	head, suffix, _ := strings.Cut(name, ".")
	start, text, ok := strings.Cut(head, "_")
	if !ok || start == "" || strings.Trim(start, "0123456789") != "" {
		return key{}, false
	}
	id, err := abi.ParseUUID(text)
	if err != nil {
		return key{}, false
	}
	for t, s := range suffixes {
		if s == "."+suffix {
			return key{id, t}, true
		}
	}
	return key{}, false
}

func fileName(seg *abi.SegmentMetadata, t abi.IndexType) string {
	return fmt.Sprintf("%d_%s%s", seg.StartOffset, seg.SegmentID, suffixes[t])
}

func (d *disk) unlink(name string) {
	if err := os.Remove(filepath.Join(d.dir, name)); err != nil && !os.IsNotExist(err) {
		d.log.Warn("removing from the index cache", "error", err)
	}
}

// read gives a cached index that checks out. A file that does not is removed.
func (d *disk) read(seg *abi.SegmentMetadata, k key, check func([]byte) error) ([]byte, bool) {
	name := fileName(seg, k.typ)
	if !d.has(k, name) {
		return nil, false
	}
	b, err := readFile(filepath.Join(d.dir, name))
	if err == nil {
		err = check(b)
	}
	if err != nil {
		d.log.Warn("a file of the index cache is fetched anew", "file", name, "why", err)
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.closed {
			d.files.lru.Remove(k)
		}
		return nil, false
	}
	return b, true
}

func (d *disk) has(k key, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	known, ok := d.files.get(k, d.now())
	return ok && known == name
}

// readFile reads a file of the cache without its trailer. The trailer comes first: what another wrote there, or a crash
// left, may be of any size.
func readFile(path string) ([]byte, error) {
	f, err := ownfile.Open("read", path, math.MaxUint32)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	n := st.Size() - trailerSize
	var trailer [trailerSize]byte
	if _, err := f.ReadAt(trailer[:], max(0, n)); err != nil || string(trailer[:4]) != trailerMagic || int64(binary.BigEndian.Uint32(trailer[8:])) != n {
		return nil, fmt.Errorf("cut short: %d bytes without a trailer", st.Size())
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	if crc32.Checksum(b, castagnoli) != binary.BigEndian.Uint32(trailer[4:]) {
		return nil, errors.New("checksum")
	}
	return b, nil
}

// writeFile writes a new file.
func writeFile(path string, b []byte) error {
	f, err := ownfile.Create("write", path)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// write keeps an index, unless its segment is removed meanwhile.
func (d *disk) write(seg *abi.SegmentMetadata, k key, index []byte, stale *atomic.Bool) {
	tmp, ok := d.begin(fileName(seg, k.typ))
	if !ok {
		return
	}
	defer d.writing.Done()
	b := make([]byte, 0, len(index)+trailerSize)
	b = append(append(b, index...), trailerMagic...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(index, castagnoli))
	b = binary.BigEndian.AppendUint32(b, uint32(len(index)))
	err := writeFile(filepath.Join(d.dir, tmp), b)
	if err == nil {
		err = d.publish(tmp, fileName(seg, k.typ), k, int64(len(b)), stale)
	}
	if err != nil {
		d.unlink(tmp)
		d.log.Warn("an index is not cached on disk", "file", tmp, "why", err)
	}
}

// begin gives the name of a temporary file: each load has its own.
func (d *disk) begin(name string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return "", false
	}
	d.writing.Add(1)
	d.serial++
	return fmt.Sprintf("%s.%d%s", name, d.serial, tmpSuffix), true
}

func (d *disk) publish(tmp, name string, k key, size int64, stale *atomic.Bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || stale.Load() {
		d.unlink(tmp)
		return nil
	}
	d.files.lru.Remove(k)
	if err := os.Rename(filepath.Join(d.dir, tmp), filepath.Join(d.dir, name)); err != nil {
		return err
	}
	d.files.add(k, name, size, d.now())
	return nil
}

func (d *disk) touch(k key, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.files.get(k, now)
	}
}

func (d *disk) resize(limit int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.files.resize(limit)
	}
}

func (d *disk) remove(segment abi.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	for t := range suffixes {
		d.files.lru.Remove(key{segment, t})
	}
}

func (d *disk) forget(k key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.files.lru.Remove(k)
	}
}

// close leaves the files for the next process, and waits for what is written now.
func (d *disk) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.writing.Wait()
}
