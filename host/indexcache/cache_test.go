package indexcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// segment is segment n, which begins at offset 100.
func segment(n byte) *abi.SegmentMetadata {
	return &abi.SegmentMetadata{TopicIDPartition: abi.TopicIDPartition{Topic: "t"}, SegmentID: kafkabytes.ID(n), StartOffset: 100}
}

// index is a good offset index with this many entries.
func index(entries int) []byte {
	var b []byte
	for i := range entries {
		b = kafkabytes.AppendEntry(b, int64(i+1), int64(i+1)*500)
	}
	return b
}

// counting answers with b or err, and counts.
func counting(n *atomic.Int64, b []byte, err error) Loader {
	return func(context.Context) ([]byte, error) {
		n.Add(1)
		return b, err
	}
}

func open(t testing.TB, o Options) *Cache {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get loads the offset index of a segment and checks that it is want.
func get(t testing.TB, c *Cache, seg *abi.SegmentMetadata, load Loader, from Origin) {
	t.Helper()
	x, origin, err := c.Offset(context.Background(), seg, load)
	if err != nil || x.Len() == 0 || origin != from {
		t.Errorf("%s: %d entries, %q, %v, want %q", seg.Key(), x.Len(), origin, err, from)
	}
}

func TestMemory(t *testing.T) {
	var n atomic.Int64
	c := open(t, Options{})
	load := counting(&n, index(3), nil)
	get(t, c, segment(1), load, Fetched)
	get(t, c, segment(1), load, Memory)
	get(t, c, segment(2), load, Fetched)
	if n.Load() != 2 {
		t.Errorf("%d loads, want 2", n.Load())
	}
	c.Remove(segment(1))
	c.Remove(segment(9))
	get(t, c, segment(1), load, Fetched)
}

// TestTypes: the indexes of one segment are three keys, each checked as what it is.
func TestTypes(t *testing.T) {
	c, ctx, seg := open(t, Options{}), context.Background(), segment(1)
	timeIndex := append(make([]byte, 7), 1, 0, 0, 0, 1)
	txn := kafkabytes.AppendAborted(nil, format.AbortedTxn{ProducerID: 1, FirstOffset: 100, LastOffset: 105, LastStableOffset: 106})
	bytesOf := func(b []byte) Loader { return func(context.Context) ([]byte, error) { return b, nil } }
	if x, _, err := c.Time(ctx, seg, bytesOf(timeIndex)); err != nil || x.Len() != 1 {
		t.Errorf("time: %d, %v", x.Len(), err)
	}
	if x, _, err := c.Aborted(ctx, seg, bytesOf(txn)); err != nil || x.Len() != 1 {
		t.Errorf("aborted: %d, %v", x.Len(), err)
	}
	if _, _, err := c.Offset(ctx, seg, bytesOf(timeIndex)); abi.KindOf(err) != abi.Corrupt {
		t.Errorf("a time index for an offset index: %v", err)
	}
	if _, _, err := c.Aborted(ctx, segment(2), bytesOf(txn[:20])); abi.KindOf(err) != abi.Corrupt {
		t.Errorf("a cut transaction index: %v", err) // spec 11, p: Kafka takes it
	}
}

// TestCorruptTwice: what is damaged is fetched once more, and then it is CORRUPT and not cached (spec 10.6, I12, I14).
func TestCorruptTwice(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		c, bad, good := open(t, Options{Dir: dir}), []byte("not an index!"), index(2)
		var n int
		healing := func(context.Context) ([]byte, error) {
			if n++; n%2 == 1 {
				return bad, nil
			}
			return good, nil
		}
		get(t, c, segment(1), healing, Fetched)
		if n != 2 {
			t.Errorf("healed after %d loads", n)
		}
		var loads atomic.Int64
		_, _, err := c.Offset(context.Background(), segment(2), counting(&loads, bad, nil))
		if abi.KindOf(err) != abi.Corrupt || loads.Load() != 2 || !strings.Contains(err.Error(), segment(2).Key()) {
			t.Errorf("damaged twice: %v after %d loads", err, loads.Load())
		}
		get(t, c, segment(2), counting(&loads, good, nil), Fetched)
		if loads.Load() != 3 {
			t.Errorf("%d loads: the damaged index was cached", loads.Load())
		}
	}
}

// TestErrorsPassUnchanged: what the loader says is said to the caller, and nothing is cached. Only a missing transaction
// index is an empty one (spec 10.6, I3).
func TestErrorsPassUnchanged(t *testing.T) {
	c, ctx := open(t, Options{Dir: t.TempDir()}), context.Background()
	missing := abi.E("fetch_index", "x", abi.NotFound, nil)
	var n atomic.Int64
	for range 2 {
		if _, _, err := c.Offset(ctx, segment(1), counting(&n, nil, missing)); err != error(missing) {
			t.Errorf("the loader's error became %v", err)
		}
	}
	if n.Load() != 2 {
		t.Errorf("%d loads: a failure was cached", n.Load())
	}
	for range 2 {
		if _, _, err := c.Aborted(ctx, segment(1), counting(&n, nil, missing)); err != error(missing) {
			t.Errorf("a transaction index that is missing: %v", err)
		}
		if x, from, err := c.Aborted(ctx, segment(3), counting(&n, []byte{}, nil)); err != nil || x.Len() != 0 || from != Fetched {
			t.Errorf("one that is empty: %q, %v", from, err)
		}
	}
	for i, from := range []Origin{Fetched, Memory} {
		x, origin, err := c.Aborted(ctx, without(1), counting(&n, nil, missing))
		if err != nil || x.Len() != 0 || origin != from {
			t.Errorf("call %d: %d entries, %q, %v", i, x.Len(), origin, err)
		}
	}
	down := abi.E("fetch_index", "x", abi.Unavailable, nil)
	if _, _, err := c.Aborted(ctx, segment(2), counting(&n, nil, down)); err != error(down) {
		t.Errorf("a store that is down: %v", err) // never "nothing was aborted"
	}
}

// TestOneLoad: N wait for one load, each with its own context; other keys go on (spec 10.6, I8).
func TestOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Options{})
		var loads atomic.Int64
		release := make(chan struct{})
		slow := func(context.Context) ([]byte, error) {
			loads.Add(1)
			<-release
			return index(1), nil
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { get(t, c, segment(1), slow, Fetched) })
		}
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(context.Background())
		var gone error
		wg.Go(func() { _, _, gone = c.Offset(ctx, segment(1), slow) })
		synctest.Wait()
		cancel(errors.New("the client hung up"))
		synctest.Wait()
		if abi.KindOf(gone) != abi.Cancelled || !strings.Contains(gone.Error(), "hung up") {
			t.Errorf("one that gave up while others wait: %v", gone)
		}
		get(t, c, segment(2), counting(new(atomic.Int64), index(1), nil), Fetched)
		close(release)
		wg.Wait()
		if loads.Load() != 1 {
			t.Errorf("%d loads, want 1", loads.Load())
		}
	})
}

// TestLeaderCancelled: a leader that gives up passes the turn to one that waits, and to one only.
func TestLeaderCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Options{})
		var loads atomic.Int64
		load := func(ctx context.Context) ([]byte, error) {
			if loads.Add(1) == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return index(1), nil
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := c.Offset(ctx, segment(1), load); !errors.Is(err, context.Canceled) {
				t.Errorf("the leader: %v", err)
			}
		})
		synctest.Wait()
		for range 5 {
			wg.Go(func() {
				if x, _, err := c.Offset(context.Background(), segment(1), load); err != nil || x.Len() != 1 {
					t.Errorf("one that waited: %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if loads.Load() != 2 {
			t.Errorf("%d loads, want 2", loads.Load())
		}
	})
}

// TestStoreTimedOut: a store's own deadline is an answer for all that wait, not a reason to ask it once for each.
func TestStoreTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Options{})
		var loads atomic.Int64
		release := make(chan struct{})
		load := func(context.Context) ([]byte, error) {
			loads.Add(1)
			<-release
			return nil, abi.E("fetch_index", "x", abi.Deadline, nil)
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, _, err := c.Offset(context.Background(), segment(1), load); abi.KindOf(err) != abi.Deadline {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		if loads.Load() != 1 {
			t.Errorf("%d loads, want 1", loads.Load())
		}
	})
}

// TestPanickingLoader: who waits is not left behind by a loader that panics.
func TestPanickingLoader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, Options{})
		release := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			c.Offset(context.Background(), segment(1), func(context.Context) ([]byte, error) { <-release; panic("defect") })
		})
		synctest.Wait()
		wg.Go(func() {
			if _, _, err := c.Offset(context.Background(), segment(1), counting(new(atomic.Int64), index(1), nil)); err == nil {
				t.Error("the waiter got an index that nobody loaded")
			}
		})
		synctest.Wait()
		close(release)
		wg.Wait()
		get(t, c, segment(1), counting(new(atomic.Int64), index(1), nil), Fetched)
	})
}

// TestMemoryBudget: the memory is bounded, and one index that is larger than all of it is still served.
func TestMemoryBudget(t *testing.T) {
	var n atomic.Int64
	c := open(t, Options{MemoryBytes: 200})
	load := counting(&n, index(10), nil) // 80 bytes
	for i := byte(1); i <= 5; i++ {
		get(t, c, segment(i), load, Fetched)
	}
	if c.hot.bytes > 200 || c.hot.lru.Len() != 2 {
		t.Errorf("%d bytes in %d indexes, 200 allowed", c.hot.bytes, c.hot.lru.Len())
	}
	get(t, c, segment(5), load, Memory)
	get(t, c, segment(1), load, Fetched)
	get(t, c, segment(9), counting(&n, index(100), nil), Fetched)
	get(t, c, segment(9), load, Memory)
	if c.hot.lru.Len() != 1 {
		t.Errorf("%d indexes stay beside one that is too large", c.hot.lru.Len())
	}
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// without is a segment that has no transaction index, as its metadata says.
func without(number byte) *abi.SegmentMetadata {
	seg := *segment(number)
	seg.TxnIndexEmpty = true
	return &seg
}

// never fails the test when the store is asked.
func never(t testing.TB) Loader {
	return func(context.Context) ([]byte, error) {
		t.Error("the store was asked")
		return nil, errors.New("not to be asked")
	}
}

// TestRestart: a cache on the same directory loads without a fetch (spec 10.6, I1, I6, I13), also what is empty.
func TestRestart(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	c := open(t, Options{Dir: dir})
	get(t, c, segment(1), counting(new(atomic.Int64), index(3), nil), Fetched)
	missing := counting(new(atomic.Int64), nil, abi.E("", "", abi.NotFound, nil))
	if _, _, err := c.Aborted(ctx, without(1), missing); err != nil {
		t.Fatal(err)
	}
	id := kafkabytes.ID(1).String()
	if want := []string{"100_" + id + ".index", "100_" + id + ".txnindex"}; !slices.Equal(names(t, dir), want) {
		t.Errorf("files %v, want %v", names(t, dir), want)
	}
	c = open(t, Options{Dir: dir})
	get(t, c, segment(1), never(t), Disk)
	get(t, c, segment(1), never(t), Memory)
	if x, from, err := c.Aborted(ctx, without(1), never(t)); err != nil || x.Len() != 0 || from != Disk {
		t.Errorf("the empty transaction index: %d, %q, %v", x.Len(), from, err)
	}
	txn := format.AppendAborted(nil, format.AbortedTxn{ProducerID: 1, FirstOffset: 100, LastOffset: 101, LastStableOffset: 102})
	c = open(t, Options{Dir: dir}) // what an earlier version kept, though nothing said that there is none
	if x, from, err := c.Aborted(ctx, segment(1), counting(new(atomic.Int64), txn, nil)); err != nil || x.Len() != 1 || from != Fetched {
		t.Errorf("an empty transaction index that nothing speaks for: %d, %q, %v", x.Len(), from, err)
	}
	c.Remove(segment(1))
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("after Remove: %v", left)
	}
}

// TestDamagedFiles: a file that does not check out is a miss, and is replaced.
func TestDamagedFiles(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"cut":             func(b []byte) []byte { return b[:len(b)-5] },
		"cut to whole":    func(b []byte) []byte { return b[:16] },
		"empty":           func([]byte) []byte { return nil },
		"longer":          func(b []byte) []byte { return append(b, 0) },
		"a bit flipped":   func(b []byte) []byte { b[9] ^= 4; return b },
		"trailer flipped": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"another file":    func([]byte) []byte { return []byte(strings.Repeat("text ", 20)) },
		"good CRC, no index": func([]byte) []byte {
			dir := t.TempDir()
			open(t, Options{Dir: dir}).disk.write(segment(1), key{segment(1).SegmentID, abi.OffsetIndex}, []byte("thirteen char"), new(atomic.Bool))
			b, err := os.ReadFile(filepath.Join(dir, fileName(segment(1), abi.OffsetIndex)))
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			get(t, open(t, Options{Dir: dir}), segment(1), counting(new(atomic.Int64), index(3), nil), Fetched)
			path := filepath.Join(dir, fileName(segment(1), abi.OffsetIndex))
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			good := bytes.Clone(b)
			kafkabytes.WriteFile(t, path, damage(b))
			var n atomic.Int64
			get(t, open(t, Options{Dir: dir}), segment(1), counting(&n, index(3), nil), Fetched)
			if again, err := os.ReadFile(path); n.Load() != 1 || err != nil || !bytes.Equal(again, good) {
				t.Errorf("%d loads, file of %d bytes, %v, want one and the good file back", n.Load(), len(again), err)
			}
			get(t, open(t, Options{Dir: dir}), segment(1), never(t), Disk)
		})
	}
}

// TestWhatIsNoFileIsFetchedAnew: what lies in the place of an index that the cache has written, and in that of its temporary
// files, makes no read wait, or go on without end.
func TestWhatIsNoFileIsFetchedAnew(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"a hole":   func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := open(t, Options{Dir: dir})
			get(t, first, segment(1), counting(new(atomic.Int64), index(3), nil), Fetched)
			path := filepath.Join(dir, fileName(segment(1), abi.OffsetIndex))
			if err := errors.Join(os.Remove(path), put(path)); err != nil {
				t.Fatal(err)
			}
			for n := range 9 {
				if err := syscall.Mkfifo(fmt.Sprintf("%s.%d%s", path, n, tmpSuffix), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, ok := first.disk.read(segment(1), key{segment(1).SegmentID, abi.OffsetIndex}, func([]byte) error { return nil }); ok {
				t.Error("it was read")
			}
			get(t, open(t, Options{Dir: dir}), segment(1), counting(new(atomic.Int64), index(3), nil), Fetched)
			get(t, open(t, Options{Dir: dir}), segment(1), never(t), Disk)
		})
	}
}

// TestForeignFiles: what is not the cache's stays; what it left half written goes (spec 10.6, I16).
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	id := kafkabytes.ID(1).String()
	half := "100_" + id + ".index.tmp"
	foreign := []string{"README", "100_short.index", "x_" + id + ".index", "_" + id + ".index", "100_" + id + ".log", "notes.tmp",
		"100_" + id + ".index.deleted"}
	for _, n := range append([]string{half}, foreign...) {
		kafkabytes.WriteFile(t, filepath.Join(dir, n), []byte("x"))
	}
	kafkabytes.WriteFile(t, filepath.Join(dir, "folder", "file"), nil)
	if err := os.Mkdir(filepath.Join(dir, "7_"+id+".index"), 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := open(t, Options{Dir: dir, TotalBytes: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for i := byte(1); i < 4; i++ {
		get(t, c, segment(i), counting(new(atomic.Int64), index(2), nil), Fetched)
	}
	left := names(t, dir)
	for _, n := range append(foreign, "folder") {
		if !slices.Contains(left, n) {
			t.Errorf("%s was removed", n)
		}
	}
	if slices.Contains(left, half) {
		t.Errorf("%s was left", half)
	}
	if !strings.Contains(log.String(), "README") {
		t.Error("nobody was told of the foreign files")
	}
}

// TestDiskBudget: files stay within the budget, also those that an earlier process left (spec 10.6, I5, I10).
func TestDiskBudget(t *testing.T) {
	dir := t.TempDir()
	size := int64(10*8 + trailerSize)
	c := open(t, Options{Dir: dir, TotalBytes: 3*size + 10, MemoryBytes: 1})
	for i := byte(1); i <= 5; i++ {
		get(t, c, segment(i), counting(new(atomic.Int64), index(10), nil), Fetched)
	}
	if left := names(t, dir); len(left) != 3 || c.disk.files.bytes != 3*size {
		t.Errorf("%d files, %d bytes counted, want 3 of %d", len(left), c.disk.files.bytes, size)
	}
	get(t, c, segment(3), never(t), Disk) // used: now the newest
	get(t, c, segment(6), counting(new(atomic.Int64), index(10), nil), Fetched)
	get(t, c, segment(3), never(t), Disk)
	open(t, Options{Dir: dir, TotalBytes: size})
	if left := names(t, dir); len(left) != 1 {
		t.Errorf("after reopening with room for one: %v", left)
	}
}

// TestUnwritable: a directory that can't be written to costs a warning and no read.
func TestUnwritable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := open(t, Options{Dir: dir, MemoryBytes: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err := os.Remove(dir); err != nil { // also root can't write then
		t.Fatal(err)
	}
	var n atomic.Int64
	for i := byte(1); i <= 3; i++ {
		get(t, c, segment(i), counting(&n, index(2), nil), Fetched)
	}
	if !strings.Contains(log.String(), "not cached on disk") {
		t.Errorf("log: %s", log.String())
	}
	if _, err := New(Options{Dir: dir}); abi.KindOf(err) != abi.NotFound {
		t.Errorf("opening a directory that is gone: %v", err)
	}
}

func TestConcurrent(t *testing.T) {
	c := open(t, Options{Dir: t.TempDir(), MemoryBytes: 300, TotalBytes: 1000})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for n := range 200 {
				seg := segment(byte(n*(g+1)%7 + 1))
				want := index(int(seg.SegmentID[15]))
				x, _, err := c.Offset(context.Background(), seg, func(context.Context) ([]byte, error) { return want, nil })
				if err != nil || !bytes.Equal(x, want) {
					t.Error(fmt.Errorf("%s: %d entries, %w", seg.Key(), x.Len(), err))
				}
				if n%50 == 0 {
					c.Remove(seg)
				}
			}
		})
	}
	wg.Wait()
}
