package indexcache

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rsmhost/rsmhost/abi"
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
// the log, never to the reader.
type disk struct {
	dir   string
	limit int64
	log   *slog.Logger

	mu    sync.Mutex
	files *simplelru.LRU[string, int64] // by name; evicting one removes the file
	bytes int64
}

func openDisk(dir string, limit int64, log *slog.Logger) (*disk, error) {
	d := &disk{dir: dir, limit: limit, log: log}
	var err error
	if d.files, err = simplelru.NewLRU(math.MaxInt32, d.evicted); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, abi.E("open index cache", dir, abi.FileKind(err), err)
	}
	for _, e := range entries {
		d.adopt(e)
	}
	return d, nil
}

// adopt counts a file that an earlier process left, and removes what it left half written.
func (d *disk) adopt(e os.DirEntry) {
	name := e.Name()
	switch {
	case strings.HasSuffix(name, tmpSuffix) && ours(strings.TrimSuffix(name, tmpSuffix)):
		d.unlink(name)
	case !ours(name):
		d.log.Warn("a file in the index cache that is not its own is left alone", "file", filepath.Join(d.dir, name))
	default:
		if st, err := e.Info(); err == nil && st.Mode().IsRegular() {
			d.mu.Lock()
			d.addLocked(name, st.Size())
			d.mu.Unlock()
		}
	}
}

func ours(name string) bool {
	head, suffix, _ := strings.Cut(name, ".")
	start, id, ok := strings.Cut(head, "_")
	if !ok || start == "" || strings.Trim(start, "0123456789") != "" {
		return false
	}
	if _, err := abi.ParseUUID(id); err != nil {
		return false
	}
	for _, s := range suffixes {
		if s == "."+suffix {
			return true
		}
	}
	return false
}

func fileName(seg *abi.SegmentMetadata, t abi.IndexType) string {
	return fmt.Sprintf("%d_%s%s", seg.StartOffset, seg.SegmentID, suffixes[t])
}

func (d *disk) evicted(name string, size int64) {
	d.bytes -= size
	d.unlink(name)
}

func (d *disk) unlink(name string) {
	if err := os.Remove(filepath.Join(d.dir, name)); err != nil && !os.IsNotExist(err) {
		d.log.Warn("removing from the index cache", "error", err)
	}
}

func (d *disk) addLocked(name string, size int64) {
	if old, ok := d.files.Peek(name); ok {
		d.bytes -= old
	}
	d.bytes += size
	d.files.Add(name, size)
	for d.bytes > d.limit && d.files.Len() > 1 {
		d.files.RemoveOldest()
	}
}

// read gives a cached index that checks out.
func (d *disk) read(seg *abi.SegmentMetadata, t abi.IndexType, check func([]byte) error) ([]byte, bool) {
	name := fileName(seg, t)
	d.mu.Lock()
	_, known := d.files.Get(name)
	d.mu.Unlock()
	if !known {
		return nil, false
	}
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if err == nil {
		if b, err = trim(b); err == nil {
			err = check(b)
		}
	}
	if err != nil {
		d.log.Warn("a file of the index cache is fetched anew", "file", name, "why", err)
		return nil, false
	}
	return b, true
}

// trim verifies the trailer and cuts it off.
func trim(b []byte) ([]byte, error) {
	n := len(b) - trailerSize
	if n < 0 || string(b[n:n+4]) != trailerMagic || int(binary.BigEndian.Uint32(b[n+8:])) != n {
		return nil, fmt.Errorf("cut short: %d bytes without a trailer", len(b))
	}
	if crc32.Checksum(b[:n], castagnoli) != binary.BigEndian.Uint32(b[n+4:]) {
		return nil, fmt.Errorf("checksum")
	}
	return b[:n:n], nil
}

func (d *disk) write(seg *abi.SegmentMetadata, t abi.IndexType, index []byte) {
	name := fileName(seg, t)
	b := make([]byte, 0, len(index)+trailerSize)
	b = append(append(b, index...), trailerMagic...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(index, castagnoli))
	b = binary.BigEndian.AppendUint32(b, uint32(len(index)))
	if err := d.publish(name, b); err != nil {
		d.log.Warn("an index is not cached on disk", "file", name, "why", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addLocked(name, int64(len(b)))
}

func (d *disk) publish(name string, b []byte) error {
	tmp := filepath.Join(d.dir, name+tmpSuffix)
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		os.Remove(tmp)
		return err
	}
	if err := os.Rename(tmp, filepath.Join(d.dir, name)); err != nil {
		os.Remove(tmp)
		return err
	}
	return nil
}

func (d *disk) remove(seg *abi.SegmentMetadata) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for t := range suffixes {
		d.files.Remove(fileName(seg, t))
	}
}
