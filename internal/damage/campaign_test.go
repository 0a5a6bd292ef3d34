// Package damage is a campaign of random damage. A seed draws a recorded broker, which tiers of it are read, one or two of its
// files, what happens to them, and what is asked then. What is answered is right, or there is an error or a finding that names the
// file, the partition or the offset; nothing crashes, hangs, or takes more memory than it may. What can't be known is a table.
//
// A crash ends the test binary: its last line of `go test -v -run TestDamages` names the seed.
package damage

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	seedsFlag = flag.Uint64("damage.seeds", 0, "how many damages TestDamages makes, from -damage.first on")
	firstFlag = flag.Uint64("damage.first", 1, "the first seed")
	seedFlag  = flag.Uint64("damage.seed", 0, "the one seed to run; 0: as -damage.seeds says")
	soakFlag  = flag.Duration("damage.soak", 0, "how long TestSoak makes damages that no run had before")
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(removeCommands))
}

// TestDamages makes the same damages each time.
func TestDamages(t *testing.T) {
	first, last := *firstFlag, *firstFlag+*seedsFlag-1
	if *seedFlag > 0 {
		first, last = *seedFlag, *seedFlag
	}
	if last < first {
		t.Skip("give -damage.seeds")
	}
	from := originals(t)
	watchHeap(t)
	t.Run("all", func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				oneDamage(t, seed, from, t.TempDir())
			})
		}
	})
	t.Logf("%d answers could not be known to be wrong", unknown.Load())
}

// TestSoak makes new damages for a time, as many at once as there are processors, and says every half a minute how far it is.
func TestSoak(t *testing.T) {
	if *soakFlag <= 0 {
		t.Skip("for make soak: give -damage.soak")
	}
	from, began := originals(t), time.Now()
	watchHeap(t)
	var seeds atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for time.Since(began) < *soakFlag && !t.Failed() {
				soakOne(t, from)
				seeds.Add(1)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		workers.Wait()
		close(over)
	}()
	said := time.NewTicker(30 * time.Second)
	defer said.Stop()
	for on := true; on; {
		select {
		case <-said.C:
		case <-over:
			on = false
		}
		fmt.Printf("soak: %d damages in %s\n", seeds.Load(), time.Since(began).Round(time.Second))
	}
}

// soakOne makes a damage that was not made before, and leaves nothing on disk.
func soakOne(t *testing.T, from map[string]*original) {
	dir, err := os.MkdirTemp("", "damage")
	if err != nil {
		t.Error(err)
		return
	}
	defer os.RemoveAll(dir)
	oneDamage(t, rand.Uint64(), from, dir)
}

// scene is a damaged copy of a fixture.
type scene struct {
	seed    uint64
	rand    *rand.Rand
	from    *original
	truth   *truth
	dir     string
	damages []damaged
	command command
}

func (d *scene) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s with %s, %s", d.seed, d.truth.broker, d.truth.setup, d.command.name)
	for _, f := range d.damages {
		fmt.Fprintf(&b, "\n\t%s", f)
	}
	return b.String()
}

// command is a way to ask, which gives what was answered wrongly.
type command struct {
	name   string
	weight int
	run    func(t testing.TB, ctx context.Context, d *scene) verdict
}

// commands are all ways to ask.
func commands() []command {
	return []command{
		{"a host in this process", 6, lookInProcess},
		{"serve and a client that sees each answer", 2, lookServed},
		{"serve and franz-go", 1, consumeServed},
		{"serve and a file that is short for a moment", 1, shortForAMoment},
		{"serve and committed offsets", 1, lookAtGroups},
		{"rsmhost", 2, lookByCommand},
	}
}

func drawCommand(r *rand.Rand) command {
	total := 0
	for _, c := range commands() {
		total += c.weight
	}
	n := r.IntN(total)
	for _, c := range commands() {
		if n -= c.weight; n < 0 {
			return c
		}
	}
	panic("not reached")
}

// hangs is how long one damage may take.
const hangs = 90 * time.Second

// oneDamage makes a damage in dir and asks; it fails the test with what to do to have it again.
func oneDamage(t *testing.T, seed uint64, from map[string]*original, dir string) {
	d, err := newScene(seed, from, dir)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	defer cancel()
	running.Store(d, true)
	defer running.Delete(d)
	done := make(chan verdict, 1)
	go func() { done <- d.command.run(t, ctx, d) }()
	select {
	case v := <-done:
		d.judge(t, v)
	case <-time.After(hangs + 10*time.Second):
		stacks := make([]byte, 1<<20)
		t.Errorf("%s\n\n\tstill runs after %v: it hangs\n\n%s", d, hangs, stacks[:runtime.Stack(stacks, true)])
		return // and its directory may be in use
	}
}

func newScene(seed uint64, from map[string]*original, dir string) (*scene, error) {
	r := rand.New(rand.NewPCG(seed, 0))
	broker := brokers[r.IntN(len(brokers))]
	s := setups[r.IntN(len(setups))]
	d := &scene{seed: seed, rand: r, from: from[broker], truth: from[broker].truths[s], dir: filepath.Join(dir, "d"), command: drawCommand(r)}
	if err := copyTree(d.from.dir, d.dir); err != nil {
		return nil, err
	}
	if strings.Contains(d.command.name, "moment") || strings.Contains(d.command.name, "committed") {
		return d, nil // which do their own
	}
	for range 1 + r.IntN(5)/4 {
		one, err := damageOne(r, d.dir, append(parts[s], cachePart))
		if err != nil {
			return nil, err
		}
		d.damages = append(d.damages, one)
	}
	return d, nil
}

// shownWrong is how many wrong answers of one damage are printed.
const shownWrong = 5

func (d *scene) first(wrong []string) string {
	text := strings.Join(wrong[:min(len(wrong), shownWrong)], "\n\t")
	if n := len(wrong) - shownWrong; n > 0 {
		text += fmt.Sprintf("\n\tand %d more", n)
	}
	return text
}

// unknown counts wrong answers that could not be known.
var unknown atomic.Int64

func (d *scene) judge(t *testing.T, v verdict) {
	if testing.Verbose() {
		t.Logf("%s\n\ttold: %.2000s", d, strings.Join(v.told, "\n\t"))
	}
	if len(v.wrong) == 0 {
		return
	}
	if why, ok := unknowable(d); ok && !v.broken {
		unknown.Add(1)
		t.Logf("%s\n\t%s\n\tcan't be known: %s", d, strings.Join(v.wrong, "\n\t"), why)
		return
	}
	t.Errorf("%s\n\n\t%s\n\ntold: %.2000s\nrepeat it with\n\tgo test ./internal/damage -v -run TestDamages -damage.seed %d",
		d, d.first(v.wrong), strings.Join(v.told, "\n\t"), d.seed)
}
