package randomops

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// placement is where the storage plugin runs.
type placement string

const (
	inMemory  placement = "memory"
	asModule  placement = "module"
	asProcess placement = "process"
)

// mix is what a seed draws to run with.
type mix struct {
	placement placement
	stream    bool          // the store answers with streams
	cached    bool          // indexes are cached on disk
	faults    bool          // the store fails now and then
	wait      time.Duration // remote.fetch.max.wait.ms; 0: none
	interval  int           // index.interval.bytes
	count     int           // of partitions
}

// drawn is what a seed draws.
func drawn(seed uint64) mix {
	r := rand.New(rand.NewPCG(seed, 0))
	m := mix{placement: inMemory, stream: r.IntN(2) == 0, cached: r.IntN(2) == 0, interval: []int{0, 512, 4096}[r.IntN(3)], count: 1 + r.IntN(3)}
	switch r.IntN(8) {
	case 0:
		m.placement = asModule
	case 1:
		m.placement = asProcess
	default:
		m.faults = r.IntN(2) == 0
	}
	if m.faults && r.IntN(2) == 0 {
		m.wait = time.Millisecond
	}
	return m
}

func (m mix) String() string {
	return fmt.Sprintf("%s, streams %v, index cache on disk %v, faults %v, wait %v, index interval %d, %d partitions",
		m.placement, m.stream, m.cached, m.faults, m.wait, m.interval, m.count)
}

// run is one seed's run.
type run struct {
	mix
	r      *rand.Rand
	dir    string
	built  builtPlugins
	plugin string // the file of a module or a process
	disk   *disk
	store  store
	rsm    *faulty // with the placement memory
	parts  []*partition
	views  []*view         // of host, one a partition
	now    map[*view]*view // what each would be if the host looked now; nil: it does not look by itself
	host   *host.Host
	free   func() error // lets go of the cache directory
	ids    uint64
	log    []string
}

// perform runs the operations that a seed draws. It gives what was done, up to the operation that failed. dir must be empty.
func perform(seed uint64, ops int, dir string, built builtPlugins) (log []string, err error) {
	x := &run{mix: drawn(seed), r: rand.New(rand.NewPCG(seed, 1)), dir: dir, built: built}
	x.say("%s", x.mix)
	defer func() {
		err = errors.Join(err, x.close())
		log = x.log
	}()
	if err := x.begin(); err != nil {
		return nil, err
	}
	for range ops {
		if err := x.step(); err != nil {
			return nil, err
		}
		if x.disk.err != nil {
			return nil, x.disk.err
		}
	}
	return nil, nil
}

func (x *run) say(format string, args ...any) { x.log = append(x.log, fmt.Sprintf(format, args...)) }

func (x *run) begin() (err error) {
	x.disk = newDisk(x.dir, x.interval)
	for i := range x.count {
		p := newPartition(abi.TopicIDPartition{Topic: "orders", TopicID: kafkabytes.ID(1), Partition: int32(i)})
		x.parts = append(x.parts, p)
		x.disk.create(p)
	}
	if x.placement == inMemory {
		form := []memrsm.Form{memrsm.Inline, memrsm.Ranged}[x.r.IntN(2)]
		if x.stream {
			form = memrsm.Stream
		}
		m := memory{memrsm.New(form)}
		x.store, x.rsm = m, &faulty{RemoteStorageManager: m.Store}
	} else {
		x.store = folder(filepath.Join(x.dir, "tiered"))
		if x.plugin, err = x.built.file(x.placement); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(x.dir, "tiered", "kafka-tiered-storage"), 0o700); err != nil {
			return err
		}
	}
	for range 40 { // so that there is something
		x.write()
	}
	_, err = x.restart()
	return err
}

// operation is one of those that are drawn. It says what it did, "" for nothing.
type operation struct {
	weight int
	name   string
	do     func(*run) (string, error)
}

var operations = []operation{
	{70, "append", (*run).write},
	{14, "marker", (*run).mark},
	{24, "roll", (*run).roll},
	{26, "upload", (*run).upload},
	{7, "upload again", (*run).uploadAgain},
	{3, "upload that fails", (*run).uploadFails},
	{5, "upload of a dead lineage", (*run).uploadDead},
	{10, "delete local", (*run).deleteLocal},
	{3, "retention", (*run).retention},
	{3, "delete a segment that others cover", (*run).deleteCovered},
	{7, "leader epoch", (*run).bump},
	{6, "compact", (*run).compact},
	{2, "damage", (*run).spoil},
	{3, "mend", (*run).mend},
	{8, "restart", (*run).restartSometimes},
	{10, "look", (*run).look},
	{3, "wipe the cache", (*run).wipe},
	{160, "", (*run).readOne},
	{40, "", (*run).readSome},
	{10, "consume", (*run).consumeAll},
}

var totalWeight = func() (n int) {
	for _, o := range operations {
		n += o.weight
	}
	return n
}()

func (x *run) step() error {
	n := x.r.IntN(totalWeight)
	for _, o := range operations {
		if n -= o.weight; n >= 0 {
			continue
		}
		what, err := o.do(x)
		if err != nil {
			return fmt.Errorf("operation %d, %s: %w", len(x.log), strings.TrimSpace(o.name+" "+what), err)
		}
		if what == "" {
			what = "nothing to do"
		}
		x.say("%s", strings.TrimPrefix(o.name+": "+what, ": "))
		return x.settle()
	}
	return nil
}

// settle lets model and host agree again: after a read in which the host may have looked by itself, and where the remote tier
// alone no longer tells the lineage.
func (x *run) settle() error {
	do := func(*run) (string, error) { return "", nil }
	switch {
	case !x.views[0].local && !x.alone():
		do = (*run).restart
	case x.now != nil:
		do = (*run).look
	}
	x.now = nil
	if what, err := do(x); err != nil {
		return fmt.Errorf("behind operation %d: %s: %w", len(x.log)-1, what, err)
	}
	return nil
}

// alone reports whether a host can do without the local tier.
func (x *run) alone() bool {
	return !slices.ContainsFunc(x.parts, func(p *partition) bool { return !p.remoteAlone() })
}

func (x *run) any() *partition { return x.parts[x.r.IntN(len(x.parts))] }

// write appends a batch. The high watermark follows, now and then behind.
func (x *run) write() (string, error) {
	p := x.any()
	b := p.produce(x.r)
	x.extend(p, b)
	return fmt.Sprintf("%s %d-%d of epoch %d, %d bytes, transactional %v", p.id, b.base, b.last, b.epoch, len(b.raw), b.txn != nil), nil
}

func (x *run) extend(p *partition, b *batch) {
	p.take(b)
	x.disk.extend(p, b)
	if x.r.IntN(6) > 0 {
		p.hw = p.end
	}
}

func (x *run) mark() (string, error) {
	p := x.any()
	b := p.decide(x.r)
	if b == nil {
		return "", nil
	}
	x.extend(p, b)
	return fmt.Sprintf("%s %d ends transaction of producer %d from %d, aborted %v", p.id, b.base, b.txn.pid, b.txn.first, b.txn.aborted), nil
}

func (x *run) roll() (string, error) {
	p := x.any()
	if len(p.active().batches) < 2 {
		return "", nil
	}
	x.disk.roll(p)
	return fmt.Sprintf("%s at %d", p.id, p.end), nil
}

func (x *run) bump() (string, error) {
	p := x.any()
	p.bump()
	return fmt.Sprintf("%s %v", p.id, p.epochs[len(p.epochs)-1]), nil
}

// nextID numbers segments.
func (x *run) nextID() uint64 {
	x.ids++
	return x.ids
}

func (x *run) copy(p *partition, u *upload) error {
	p.remote = append(p.remote, u)
	x.disk.started(u)
	if err := x.store.put(u.Segment); err != nil {
		return err
	}
	x.disk.move(u, format.CopySegmentFinished)
	return nil
}

func (u *upload) String() string {
	return fmt.Sprintf("%s segment %d: %d-%d %v, %d bytes", u.Meta.TopicIDPartition, u.Meta.SegmentID[15], u.start(), u.end(), u.Meta.LeaderEpochs, u.Meta.SizeBytes)
}

func (x *run) upload() (string, error) {
	p := x.any()
	start, end, ok := p.tierable()
	if !ok {
		return "", nil
	}
	u := build(p, x.nextID(), x.interval, start, end, within(p.batches, start, end), p.epochs)
	if x.r.IntN(4) == 0 {
		u.Meta.TxnIndexEmpty = false // as before Kafka 4.0: not known
	}
	p.tiered = end + 1
	return u.String(), x.copy(p, u)
}

func (x *run) uploadAgain() (string, error) {
	p := x.any()
	start, end, ok := p.again(x.r)
	if !ok {
		return "", nil
	}
	u := build(p, x.nextID(), x.interval, start, end, within(p.batches, start, end), p.epochs)
	return u.String(), x.copy(p, u)
}

// uploadFails leaves a copy that was begun, with a part of its objects, and sometimes cleans it up.
func (x *run) uploadFails() (string, error) {
	p := x.any()
	start, end, ok := p.tierable()
	if !ok {
		return "", nil
	}
	u := build(p, x.nextID(), x.interval, start, end, within(p.batches, start, end), p.epochs)
	p.remote = append(p.remote, u)
	x.disk.started(u)
	part := u.Segment
	part.Log = part.Log[:x.r.IntN(len(part.Log))]
	if err := x.store.put(part); err != nil {
		return "", err
	}
	if x.r.IntN(2) == 0 {
		return u.String(), x.erase(u)
	}
	return u.String(), nil
}

func (x *run) uploadDead() (string, error) {
	p := x.any()
	u := p.dead(x.r, x.nextID(), x.interval)
	if u == nil {
		return "", nil
	}
	return u.String(), x.copy(p, u)
}

// deleteLocal deletes what lies in the remote tier, but for the active segment.
func (x *run) deleteLocal() (string, error) {
	p := x.any()
	n := 0
	for len(p.local) > 1 && p.local[1].base <= p.tiered && (n == 0 || x.r.IntN(2) == 0) {
		x.disk.drop(p, p.local[0])
		p.local = p.local[1:]
		n++
	}
	if n == 0 {
		return "", nil
	}
	return fmt.Sprintf("%s below %d", p.id, p.local[0].base), nil
}

// erase deletes a segment, and is interrupted now and then.
func (x *run) erase(u *upload) error {
	x.disk.move(u, format.DeleteSegmentStarted)
	if x.r.IntN(8) == 0 {
		return nil
	}
	u.damage = gone
	if err := x.store.remove(&u.Segment); err != nil {
		return err
	}
	if x.r.IntN(8) > 0 {
		x.disk.move(u, format.DeleteSegmentFinished)
	}
	return nil
}

// retention raises the log start, and deletes what lies below it.
func (x *run) retention() (string, error) {
	p := x.any()
	have := within(p.batches, p.logStart, p.tiered-1)
	if len(have) == 0 {
		return "", nil
	}
	p.logStart = have[x.r.IntN((len(have)+1)/2)].last + 1
	for _, u := range p.remote {
		if u.end() < p.logStart && (u.state == format.CopySegmentFinished || u.state == format.CopySegmentStarted) {
			if err := x.erase(u); err != nil {
				return "", err
			}
		}
	}
	for len(p.local) > 1 && p.local[1].base <= p.logStart {
		x.disk.drop(p, p.local[0])
		p.local = p.local[1:]
	}
	return fmt.Sprintf("%s begins at %d", p.id, p.logStart), nil
}

func (x *run) deleteCovered() (string, error) {
	u := x.any().covered(x.r)
	if u == nil {
		return "", nil
	}
	return u.String(), x.erase(u)
}

func (x *run) compact() (string, error) {
	p := x.any()
	s, ok := p.compact(x.r)
	if !ok {
		return "", nil
	}
	p.cleaned = true
	x.disk.cleaner(x.parts)
	x.disk.rewrite(p, s)
	return fmt.Sprintf("%s segment %d has %d batches", p.id, s.base, len(s.batches)), nil
}

// spoil damages an object.
func (x *run) spoil() (string, error) {
	p := x.any()
	if len(p.remote) == 0 {
		return "", nil
	}
	u := p.remote[x.r.IntN(len(p.remote))]
	if u.state != format.CopySegmentFinished || u.damage != sound {
		return "", nil
	}
	s := u.spoil(x.r)
	return fmt.Sprintf("%s: %v", u, u.damage), x.store.put(s)
}

// mend repairs what was damaged. A host may go on with what it keeps of it, until it is restarted.
func (x *run) mend() (string, error) {
	for _, p := range x.parts {
		for _, u := range p.remote {
			if u.damage != sound && u.damage != gone {
				u.damage = sound
				if err := x.store.put(u.Segment); err != nil {
					return "", err
				}
				_, err := x.restart()
				return u.String() + ", and restart", err
			}
		}
	}
	return "", nil
}

// restartSometimes restarts the host: seldom where that starts a plugin too.
func (x *run) restartSometimes() (string, error) {
	if x.placement != inMemory && x.r.IntN(4) > 0 {
		return "", nil
	}
	return x.restart()
}

// restart ends the host, lets the broker of its log directory end too, and opens another host.
func (x *run) restart() (string, error) {
	if err := x.close(); err != nil {
		return "", err
	}
	local, checkpoint, clean := true, x.r.IntN(6) > 0, x.r.IntN(2) == 0
	if x.r.IntN(3) == 0 {
		local = !x.alone()
	}
	x.disk.checkpoints(x.parts, checkpoint)
	x.disk.clean(clean)
	defer x.disk.clean(false) // the broker is started again
	torn := x.tear(clean)
	cfg, err := x.config(local)
	if err != nil {
		return "", err
	}
	if x.host, err = host.Open(context.Background(), cfg); err != nil {
		return "", err
	}
	x.see(local, checkpoint)
	if torn != "" {
		x.disk.note(os.Rename(torn+".whole", torn))
	}
	return fmt.Sprintf("local tier %v, log start checkpoint %v, clean %v, torn %v", local, checkpoint, clean, torn != ""), x.prime()
}

// see takes the views of a host that has just looked.
func (x *run) see(local, checkpoint bool) {
	x.views = nil
	for _, p := range x.parts {
		x.views = append(x.views, p.view(local, checkpoint))
	}
}

// tear leaves a batch at a log's end that was not written whole, as a broker that was killed does. It gives the file, whose
// good content lies beside it.
func (x *run) tear(clean bool) string {
	if clean || x.r.IntN(3) > 0 {
		return ""
	}
	p := x.any()
	path := x.disk.path(p, p.active().base, ".log")
	b, err := os.ReadFile(path)
	x.disk.note(err)
	raw := data(x.r, "torn", p.end, p.epoch(), nil).raw
	x.disk.write(path+".whole", b)
	x.disk.write(path, append(b, raw[:1+x.r.IntN(len(raw)-1)]...))
	return path
}

// prime lets the host read what it reads once.
func (x *run) prime() error {
	for _, v := range x.views {
		a := ask{iso: locality.ReadUncommitted, max: 1, parts: []askOne{{v, v.sure, 1}}}
		resp, err := x.fetch(a, false)
		resp.Release()
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	return nil
}

func (x *run) config(local bool) (host.Config, error) {
	cfg := host.Config{Metadata: "dir:" + filepath.Dir(filepath.Dir(x.disk.meta)), RemoteWait: x.wait}
	if local {
		cfg.LogDirs = []string{x.disk.logs}
	}
	if x.placement == inMemory {
		cfg.RSM = x.rsm
		if x.cached {
			cfg.CacheDir = filepath.Join(x.dir, "cache")
		}
		return cfg, nil
	}
	mode := "location"
	if x.stream {
		mode = "stream"
	}
	cfg.Plugin, cfg.PluginConfig = x.plugin, map[string]string{"root": string(x.store.(folder)), "mode": mode}
	cfg.CacheDir = filepath.Join(x.dir, "cache")
	if err := os.MkdirAll(cfg.CacheDir, 0o700); err != nil {
		return cfg, err
	}
	if !x.cached { // modules are kept there all the same
		var err error
		if x.free, err = occupy(cfg.CacheDir); err != nil {
			return cfg, err
		}
	}
	return cfg, x.built.link(cfg.CacheDir)
}

func (x *run) close() error {
	var errs []error
	if x.host != nil {
		errs = append(errs, x.host.Close())
	}
	if x.free != nil {
		errs = append(errs, x.free())
	}
	x.host, x.free = nil, nil
	if m, ok := x.store.(memory); ok && m.Open() > 0 {
		errs = append(errs, fmt.Errorf("%d streams of the store were left open", m.Open()))
	}
	return errors.Join(errs...)
}

// look lets the host look again while the broker runs.
func (x *run) look() (string, error) {
	local, checkpoint := x.views[0].local, x.r.IntN(6) > 0
	x.disk.checkpoints(x.parts, checkpoint)
	if err := x.host.Look(context.Background()); err != nil {
		return "", err
	}
	x.see(local, checkpoint)
	return fmt.Sprintf("log start checkpoint %v", checkpoint), x.prime()
}

// wipe removes or damages files of the index cache while it is used.
func (x *run) wipe() (string, error) {
	dir := filepath.Join(x.dir, "cache", "remote-log-index-cache")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil
	}
	n := 0
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch x.r.IntN(4) {
		case 0:
			err = os.Remove(path)
		case 1:
			err = os.Truncate(path, int64(x.r.IntN(20)))
		default:
			continue
		}
		if err != nil {
			return "", err
		}
		n++
	}
	return fmt.Sprintf("%d files", n), nil
}

// readOne fetches from one partition, first with faults where the seed has them, then without.
func (x *run) readOne() (string, error) { return x.read(x.draw(1)) }

// readSome fetches from some partitions.
func (x *run) readSome() (string, error) { return x.read(x.draw(1 + x.r.IntN(len(x.views)))) }

func (x *run) read(a ask) (string, error) {
	if x.faults && x.r.IntN(2) == 0 {
		if err := x.readFaulty(a); err != nil {
			return a.String(), fmt.Errorf("with faults: %w", err)
		}
	}
	resp, err := x.fetch(a, false)
	defer resp.Release()
	return a.String(), err
}

// readFaulty fetches while the store fails: what comes must be right, or an error.
func (x *run) readFaulty(a ask) error {
	x.rsm.arm(x.r.Uint64()|1, x.wait > 0)
	resp, err := x.fetch(a, true)
	resp.Release()
	x.rsm.disarm()
	if err == nil && x.wait > 0 { // what was late may bring an error once
		resp, err = x.fetch(a, true)
		resp.Release()
	}
	return err
}

func (x *run) consumeAll() (string, error) {
	v := x.views[x.r.IntN(len(x.views))]
	from, iso := x.offset(v), locality.Isolation(x.r.IntN(2))
	what := fmt.Sprintf("%s %s from %d", v.p.id, iso, from)
	to, err := x.consume(v, from, iso)
	return what + " to " + to, err
}
