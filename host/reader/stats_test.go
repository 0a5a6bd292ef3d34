package reader

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/tally"
	"github.com/rsmhost/rsmhost/host/trace"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// figures are the parts of Stats that a test looks at.
type figures struct {
	topic                  TopicStats
	left, answered, kept   int64
	reads, waits, throttle int64
}

func figuresOf(r *Reader) figures {
	s := r.Stats(func(topic string) bool { return topic == "a" })
	count := func(d tally.Durations) int64 { return d.Count }
	return figures{s.Topics["a"], s.LateLeft, s.LateAnswered, int64(s.LateKept), count(s.RemoteReads), count(s.RemoteWaits), count(s.Throttled)}
}

// TestStatsOfLateReads: a read that came too late is left, kept, and answers the retry: one request of the store, whose bytes count
// once.
func TestStatsOfLateReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, seg, part := twoParts(t, 700*time.Millisecond)
		r := newReader(t, Better, store, part)
		r.SetWait(500 * time.Millisecond)
		defer r.Close()
		if p := one(t, r, ask("a", 0, 1<<20)); !p.Late {
			t.Fatal("it was not late")
		}
		want := figures{topic: TopicStats{RemoteRequests: 1, Lookups: 1}, left: 1, kept: 1, waits: 1}
		if got := figuresOf(r); got != want {
			t.Errorf("late: %+v, want %+v", got, want)
		}
		one(t, r, ask("a", 0, 1<<20))
		want = figures{topic: TopicStats{RemoteRequests: 1, RemoteBytes: int64(len(seg.Log)), Lookups: 1}, left: 1, answered: 1, reads: 1, waits: 2}
		if got := figuresOf(r); got != want {
			t.Errorf("answered: %+v, want %+v", got, want)
		}
		if took := r.Stats(func(string) bool { return true }).RemoteReads.Sum; took != 700*time.Millisecond {
			t.Errorf("the read took %v", took)
		}
	})
}

// TestStatsOfFailures: what failed is an error, an offset out of range is none, and no bytes count.
func TestStatsOfFailures(t *testing.T) {
	store, _, part := twoParts(t, 0)
	store.Before = func(context.Context, memrsm.Call) error { return abi.Errorf("fetch", "", abi.Denied, "not yours") }
	r := newReader(t, Better, store, part)
	defer r.Close()
	if p := one(t, r, ask("a", 0, 1<<20)); p.Code == None {
		t.Error("it did not fail")
	}
	if p := one(t, r, ask("a", 5000, 1<<20)); p.Code != OffsetOutOfRange {
		t.Errorf("beyond the end: %v", p.Code)
	}
	want := figures{topic: TopicStats{RemoteRequests: 1, RemoteErrors: 1, Lookups: 1}, reads: 1, waits: 1}
	if got := figuresOf(r); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if s := r.Stats(func(string) bool { return false }); len(s.Topics) != 0 {
		t.Errorf("topics that are not served: %+v", s.Topics)
	}
}

// TestStatsOfQuota: a wait for the quota is told with its time, and the rate over the windows.
func TestStatsOfQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, parts := topics(t, "a")
		r := newReader(t, Better, store, parts...)
		defer r.Close()
		r.SetQuota(1000)
		r.quota.record(3000)
		if s := r.Stats(func(string) bool { return true }); s.ByteRate != 3000 {
			t.Errorf("the rate is %v", s.ByteRate)
		}
		began := time.Now()
		one(t, r, ask("a", 0, 100))
		s := r.Stats(func(string) bool { return true })
		if waited := time.Since(began); s.Throttled.Count == 0 || s.Throttled.Sum != waited || waited == 0 {
			t.Errorf("throttled %+v in %v", s.Throttled, waited)
		}
	})
}

// TestStepNames: each step that a read may take is one that is counted by its name.
func TestStepNames(t *testing.T) {
	step := regexp.MustCompile(`\.tr\.(?:Add|AddTook|Fail|Brief|BriefTook)\([^"]*?"([a-z]+)"`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range step.FindAllStringSubmatch(string(b), -1) {
			used[m[1]] = true
		}
	}
	for name := range used {
		if !slices.Contains(trace.Names, name) {
			t.Errorf("step %s is not in trace.Names", name)
		}
	}
	for _, name := range trace.Names {
		if !used[name] {
			t.Errorf("no read takes step %s", name)
		}
	}
}
