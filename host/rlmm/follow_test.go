package rlmm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// followedDir is a Dir and the files that it follows.
type followedDir struct {
	*Dir
	t testing.TB
}

func follow(t testing.TB) followedDir { return followedDir{NewDir(t.TempDir()), t} }

func (f followedDir) file(base int64) string { return filepath.Join(f.path, file(base)) }

// write makes a file hold the log, in place.
func (f followedDir) write(base int64, log []byte) {
	f.t.Helper()
	kafkabytes.WriteFile(f.t, f.file(base), log)
}

// replace puts another file in place, as a copying program does.
func (f followedDir) replace(base int64, log []byte) {
	f.t.Helper()
	kafkabytes.WriteFile(f.t, f.file(base)+".new", log)
	if err := os.Rename(f.file(base)+".new", f.file(base)); err != nil {
		f.t.Fatal(err)
	}
}

// looks says what a look finds: records applied of those read, problems, reloaded, and then what is listed.
func (f followedDir) looks(want string) {
	f.t.Helper()
	r, err := f.Look(context.Background())
	if err != nil {
		f.t.Errorf("look: %v", err)
	}
	got := fmt.Sprintf("%d/%d", r.Applied, r.Records)
	for _, p := range r.Problems {
		words := strings.Fields(p.String())
		got += " " + strings.Trim(words[len(words)-1], ".")
	}
	if r.Reloaded {
		got += " reloaded"
	}
	if p, ok := f.Store().Partition(tp); ok {
		got += " " + listed(p) + at(p, p.Lookup, 0, 5, 15, 25)
	}
	if got != want {
		f.t.Errorf("a look gives %q, want %q", got, want)
	}
}

// threeLog is the metadata log of three copied segments, and where each of its six batches ends.
func threeLog(t testing.TB) (log []byte, ends []int64) {
	log = kafkabytes.MetadataLog(t, all(copied(1, 0, 9), copied(2, 10, 19), copied(3, 20, 29))...)
	for w := format.Walk(log); w.Next(); {
		end := w.Header().Size()
		if n := len(ends); n > 0 {
			end += ends[n-1]
		}
		ends = append(ends, end)
	}
	return log, ends
}

const (
	one   = "[1][5:1 15:- 25:-]"
	two   = "[1 2][5:1 15:2 25:-]"
	three = "[1 2 3][5:1 15:2 25:3]"
)

// TestFollowAppends: a look reads what came since the last, also in a new file and a new directory.
func TestFollowAppends(t *testing.T) {
	f := follow(t)
	log, ends := threeLog(t)
	f.write(0, log[:ends[1]])
	f.looks("2/2 " + one)
	f.looks("0/0 " + one)
	f.write(0, log[:ends[3]])
	f.looks("2/2 " + two)
	f.write(4, log[ends[3]:])
	f.looks("2/2 " + three)
	kafkabytes.WriteFile(t, filepath.Join(f.path, "__remote_log_metadata-1", format.SegmentFileName(0, ".log")), nil)
	f.looks("0/0 " + three)
	if total := f.Total(); total.Records != 6 || total.Applied != 6 || total.Partitions != 2 {
		t.Errorf("in total %+v", total)
	}
}

// TestFollowTorn: a torn batch is reported once, and read when it is whole.
func TestFollowTorn(t *testing.T) {
	f := follow(t)
	log, ends := threeLog(t)
	for cut := ends[1] + 8; cut < ends[2]; cut += 7 { // fewer bytes may as well be preallocated
		f := follow(t)
		f.write(0, log[:cut])
		f.looks("2/2 over " + one)
		f.write(0, log)
		f.looks("4/4 " + three)
	}
	f.write(0, log[:ends[2]+9])
	f.looks("3/3 over [1 2][5:1 15:- 25:-]")
	f.looks("0/0 [1 2][5:1 15:- 25:-]")
	f.write(0, append(log[:ends[2]:ends[2]], make([]byte, 500)...)) // preallocated, not written yet
	f.looks("0/0 [1 2][5:1 15:- 25:-]")
	f.write(0, append(log[:ends[3]:ends[3]], make([]byte, 500-(ends[3]-ends[2]))...))
	f.looks("1/1 " + two)
}

// TestFollowDamage: a batch that came out wrong is passed over until it is right; what follows it is read.
func TestFollowDamage(t *testing.T) {
	f := follow(t)
	log, ends := threeLog(t)
	bad := append([]byte(nil), log...)
	bad[ends[2]-1] ^= 1
	f.write(0, bad)
	f.looks("4/5 lost gone [1 3][5:1 15:- 25:3]")
	f.looks("0/0 [1 3][5:1 15:- 25:3]")
	f.write(0, log)
	f.looks("6/6 reloaded " + three)
	if r := f.Total(); !r.Whole() {
		t.Errorf("mended, and %v", r.Problems)
	}
}

// TestDefect31ReadAgain: what was read is not applied twice when it is read again, and nothing is passed over
// (KAFKA-16105).
func TestDefect31ReadAgain(t *testing.T) {
	f := follow(t)
	log, ends := threeLog(t)
	f.write(0, log[:ends[1]])
	f.looks("2/2 " + one)
	f.replace(0, log[:ends[3]])
	f.looks("2/2 " + two)
	f.replace(0, log)
	f.looks("2/2 " + three)
	f.replace(0, log)
	f.looks("0/0 " + three)
	if p, _ := f.Store().Partition(tp); p.Dropped().Count != 0 {
		t.Errorf("%d events came twice", p.Dropped().Count)
	}
}

// TestFollowShort: a file that is the begin of what was read is a copy that is being made. What was read stays, and a problem
// with it, until all is there again.
func TestFollowShort(t *testing.T) {
	log, ends := threeLog(t)
	for name, put := range map[string]func(f followedDir, log []byte){
		"in place":     func(f followedDir, log []byte) { f.write(0, log) },
		"another file": func(f followedDir, log []byte) { f.replace(0, log) },
	} {
		t.Run(name, func(t *testing.T) {
			f := follow(t)
			f.write(0, log[:ends[4]])
			f.looks("5/5 [1 2 3][5:1 15:2 25:-]")
			for _, size := range []int64{0, 20, ends[0], ends[2] + 30, ends[4] - 1} {
				put(f, log[:size])
				f.looks("0/0 stays [1 2 3][5:1 15:2 25:-]")
				f.looks("0/0 [1 2 3][5:1 15:2 25:-]")
			}
			put(f, log)
			f.looks("1/1 " + three)
			if total := f.Total(); len(total.Problems) > 0 {
				t.Errorf("whole again, and %v", total.Problems)
			}
		})
	}
}

// TestFollowShortOnceTold: what is short is a problem once, and once mended.
func TestFollowShortOnceTold(t *testing.T) {
	f := follow(t)
	log, _ := threeLog(t)
	f.write(0, log)
	f.looks("6/6 " + three)
	f.write(0, log[:50])
	f.looks("0/0 stays " + three)
	f.looks("0/0 " + three)
	f.write(0, log)
	r, err := f.Look(context.Background())
	if err != nil || len(r.Mended) != 1 || len(r.Problems) != 0 {
		t.Errorf("mended %v, problems %v, %v", r.Mended, r.Problems, err)
	}
}

// TestFollowRewritten: where the files hold something else than what was read, all is read again, and takes its place when it
// is whole.
func TestFollowRewritten(t *testing.T) {
	log, ends := threeLog(t)
	other := kafkabytes.MetadataLog(t, copied(9, 0, 29)...)
	f := follow(t)
	f.write(0, log[:ends[1]])
	f.looks("2/2 " + one)
	f.replace(0, append(other, make([]byte, len(log))...))
	f.looks("2/2 reloaded [9][5:9 15:9 25:9]")
	for name, length := range map[string]int{"longer": len(log), "as long": 0} { // under the number of the file that was deleted
		t.Run(name, func(t *testing.T) {
			f := follow(t)
			f.write(0, append(other, make([]byte, length)...)[:max(len(other), length)])
			f.looks("2/2 [9][5:9 15:9 25:9]")
			f.write(0, log[:ends[1]])
			f.looks("2/2 reloaded " + one)
		})
	}
	t.Run("while it is copied", func(t *testing.T) {
		f := follow(t)
		f.write(0, log)
		f.looks("6/6 " + three)
		f.write(0, nil)
		f.looks("0/0 stays " + three)
		f.write(0, other[:len(other)-10])
		f.looks("0/0 stays " + three)
		f.write(0, other)
		f.looks("0/0 " + three) // it has less, and more may come
		f.looks("2/2 reloaded [9][5:9 15:9 25:9]")
		if total := f.Total(); len(total.Problems) > 0 || total.Records != 2 {
			t.Errorf("reloaded, and %+v", total)
		}
	})
}

// TestFollowRepaired: a file that is mended after a later one was read would come too late; all is read again.
func TestFollowRepaired(t *testing.T) {
	f := follow(t)
	log, ends := threeLog(t)
	f.write(0, log[:ends[2]-3])
	f.write(3, log[ends[2]:])
	f.looks("4/5 over 3 gone [1 3][5:1 15:- 25:3]")
	f.write(0, log[:ends[2]])
	f.looks("6/6 reloaded " + three)
}

// TestDefectGGoesOn: a source that fails, or is gone, fails a look, keeps what was read, and is followed again when it is
// back.
func TestDefectGGoesOn(t *testing.T) {
	f := follow(t)
	log, ends := threeLog(t)
	f.write(0, log[:ends[1]])
	kafkabytes.WriteFile(t, filepath.Join(f.path, "__remote_log_metadata-1", format.SegmentFileName(0, ".log")), nil)
	f.looks("2/2 " + one)
	part, away := filepath.Join(f.path, part0), filepath.Join(f.path, "away")
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(part, away)
	f.looks("0/0 stays " + one)
	f.looks("0/0 " + one)
	move(away, part)
	f.write(0, log[:ends[3]])
	f.looks("2/2 " + two)

	move(f.path, f.path+".away")
	if _, err := f.Look(context.Background()); abi.KindOf(err) != abi.NotFound {
		t.Errorf("a directory that is gone: %v", err)
	}
	move(f.path+".away", f.path)
	f.write(0, log)
	f.looks("2/2 " + three)
}
