package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/budget"
	"github.com/rsmhost/rsmhost/host/finding"
	"github.com/rsmhost/rsmhost/host/indexcache"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/trace"
	"github.com/rsmhost/rsmhost/host/transfer"
)

// Store is the remote tier: a plugin, and what moves the bytes that it tells of.
type Store struct {
	Name  string // for people: "rsm-localfs.wasm"
	RSM   abi.RemoteStorageManager
	Mover *transfer.Mover
}

// Reader answers fetches.
type Reader struct {
	catalog Catalog
	store   *Store // nil: no remote tier can be read
	indexes *indexcache.Cache
	policy  Policy
	pool    *pool
	quota   *quota
	small   *pool // of reads of indexes and leader epochs that no record is read behind at once
	late    lateReads
	lookups lookups
	known   stretches
	absent  absences
	scans   scanIndexes
	wait    atomic.Int64                // a Duration; 0: as long as the request's context
	look    func(context.Context) error // nil: nothing can be looked at again
	buffers *budget.Pool
	// inflating is what batches are inflated with that are not wanted whole.
	inflating *budget.Share
	counts    counts
	watch     func(Watched) // nil: nobody watches
	report    func(finding.Finding)
}

// Options of a Reader.
type Options struct {
	Catalog Catalog
	Store   *Store // nil: reads of the remote tier fail with a sentence that says what to give
	Indexes *indexcache.Cache
	Policy  Policy
	Threads int // 0: DefaultThreads
	Pending int // 0: DefaultPending
	Quota   QuotaConfig
	// Wait is remote.fetch.max.wait.ms: a fetch is answered then without what is not ready, which goes on for the retry.
	// 0: a fetch waits as long as its context.
	Wait time.Duration
	// Watch is told of each partition's read that has no trace of its own, by whoever reads. nil: nobody is told.
	Watch func(Watched)
	// Report is told of what a read met that is wrong and no reason to fail, by whoever reads; of the same thing again and
	// again. nil: nobody is told.
	Report func(finding.Finding)
	// Look looks at metadata and log directories again: a read that finds an object gone asks for it, since retention may
	// have deleted the object. nil: nothing can be looked at again.
	Look func(ctx context.Context) error
	// Memory is the budget that buffers are taken from. nil: there is none.
	Memory *budget.Pool
}

// New makes a Reader.
func New(o Options) *Reader {
	if o.Memory == nil {
		o.Memory = budget.New(0)
	}
	r := &Reader{catalog: o.Catalog, store: o.Store, indexes: o.Indexes, policy: o.Policy, pool: newPool(o.Threads, o.Pending),
		small: newPool(smallThreads(o.Threads), o.Pending),
		quota: newQuota(o.Quota, nil), look: o.Look, buffers: o.Memory, watch: o.Watch, report: o.Report}
	if r.report == nil {
		r.report = func(finding.Finding) {}
	}
	r.wait.Store(int64(max(0, o.Wait)))
	r.inflating = r.buffers.Share(r.buffers.Limit() / 4)
	r.buffers.OnShortage(r.late.shed)
	return r
}

// Resize changes the bounds of the reader pool while it runs; 0 is the default.
func (r *Reader) Resize(threads, pending int) {
	r.pool.resize(threads, pending)
	r.small.resize(smallThreads(threads), pending)
}

// smallThreads is how many small reads run at once beside the remote reads: what they bring is kilobytes, and all that they cost
// is the store's answer time.
func smallThreads(threads int) int {
	if threads <= 0 {
		threads = DefaultThreads
	}
	return 3 * threads
}

// Small runs fn, a read of kilobytes from the store such as of leader epochs, when its turn among such reads comes. An error is
// DEADLINE or CANCELLED, and fn did not run.
func (r *Reader) Small(ctx context.Context, client string, fn func()) error {
	return r.small.do(ctx, client, func(*turn) { fn() })
}

// SetQuota changes the fetch quota in bytes a second while it is in use; 0: none.
func (r *Reader) SetQuota(bytesPerSecond int64) { r.quota.setBound(bytesPerSecond) }

// SetWait changes Options.Wait while it is in use, for the requests that come.
func (r *Reader) SetWait(d time.Duration) { r.wait.Store(int64(max(0, d))) }

// PoolStats says how busy the remote readers are.
func (r *Reader) PoolStats() PoolStats { return r.pool.stats() }

// Close ends reads and lookups that go on without a request and waits for them. No call may run.
func (r *Reader) Close() {
	r.late.close()
	r.lookups.close()
}

// read is one partition's part of a request while it is worked on.
type read struct {
	req   *FetchPartition
	out   *PartitionData
	part  *Partition
	asked locality.Request
	ans   locality.Answer
	iso   locality.Isolation
	tr    *trace.Trace
	room  int64 // bytes it may take: its allowance
	first bool  // it may exceed room by its first batch (Kafka's minOneMessage)
	files bool  // local batches may be given as stretches of files
	acc   accumulator
	mem   memory
	began time.Time // of a remote read: when it had a reader; zero before

	over     *atomic.Bool // of its job; nil: nobody waits for it with a bound
	unlisted bool         // its records came, and the list of aborted transactions may yet
}

// hurried reports a read whose request was answered without it.
func (rd *read) hurried() bool { return rd.over != nil && rd.over.Load() }

// readList is the reads of one request.
type readList struct{ reads []read }

var readLists = sync.Pool{New: func() any { return new(readList) }}

func takeReads(n int) *readList {
	l := readLists.Get().(*readList)
	l.reads = slices.Grow(l.reads[:0], n)[:n]
	return l
}

// maxKeptReads bounds what is kept for the next request.
const maxKeptReads = 1024

func (l *readList) free() {
	if cap(l.reads) > maxKeptReads {
		return
	}
	clear(l.reads)
	readLists.Put(l)
}

// Fetch answers a request. Local partitions are read at once, remote ones in parallel in the pool; the answer comes when
// all are done, or ctx is.
func (r *Reader) Fetch(ctx context.Context, req *FetchRequest) *FetchResponse {
	resp := &FetchResponse{Partitions: make([]PartitionData, len(req.Partitions))}
	work := takeReads(len(req.Partitions))
	defer work.free()
	reads := work.reads
	limit, first := req.limit(), true
	mem := memory{lease: r.buffers.Lease()}
	patience, stop := ctx, context.CancelFunc(func() {}) // ends when the answer has to go out
	if wait := time.Duration(r.wait.Load()); wait > 0 {
		patience, stop = context.WithTimeout(ctx, wait)
	}
	defer stop()
	ahead := false
	for i := range req.Partitions {
		rd := &reads[i]
		*rd = read{req: &req.Partitions[i], out: &resp.Partitions[i], iso: req.Isolation, tr: r.trace(req, i),
			room: req.allowance(&req.Partitions[i], limit), first: first, files: req.Files, mem: mem}
		charge := r.begin(ctx, patience, req, i, rd, &ahead)
		if charge > 0 {
			first = false
		}
		limit = max(0, limit-charge)
	}
	r.readRemote(ctx, patience, req, reads)
	r.goOn(ctx, reads, limit)
	r.passFirstOn(ctx, patience, req, reads)
	for i := range reads {
		r.finish(ctx, &reads[i])
		r.ended(req, &reads[i])
	}
	return resp
}

// begin decides one partition, and reads it if it is local. It gives the bytes that the request's budget is charged: a
// remote read's whole allowance, since what it will take is not known yet (KAFKA-19462). ahead says that what the catalog needs
// for the partitions behind i is on its way.
func (r *Reader) begin(ctx, patience context.Context, req *FetchRequest, i int, rd *read, ahead *bool) int64 {
	rd.out.Topic, rd.out.TopicID, rd.out.Partition = rd.req.Topic, rd.req.TopicID, rd.req.Partition
	rd.out.HighWatermark, rd.out.LastStableOffset, rd.out.LogStartOffset = -1, -1, -1
	m := rd.tr.Mark()
	part, code, err := r.catalog.Find(endedContext, rd.req.Topic, rd.req.TopicID, rd.req.Partition)
	if code == ReplicaNotAvailable {
		if !*ahead {
			r.findAhead(req.Partitions[i+1:])
			*ahead = true
		}
		part, code, err = r.catalog.Find(patience, rd.req.Topic, rd.req.TopicID, rd.req.Partition)
	}
	if err != nil {
		rd.out.Code, rd.out.Err = code, rd.tr.Fail(m, "locality", err)
		if code == UnknownTopicOrPartition || code == UnknownTopicID {
			rd.out.Aborted = []AbortedTransaction{} // as a broker sends it
		}
		return 0
	}
	rd.part, rd.out.Topic, rd.out.TopicID = part, part.ID.Topic, part.ID.TopicID
	rd.asked = locality.Request{Offset: rd.req.Offset, CurrentLeaderEpoch: rd.req.CurrentLeaderEpoch,
		LastFetchedEpoch: rd.req.LastFetchedEpoch, Replica: req.ReplicaID, Isolation: req.Isolation}
	rd.ans = locality.Check(rd.asked, part.Offsets, part.Lineage)
	r.traceLocality(rd, m)
	return r.act(ctx, rd)
}

// findAhead has the catalog begin what it needs for partitions, so that one is not waited for after another.
func (r *Reader) findAhead(ps []FetchPartition) {
	for i := range ps {
		r.catalog.Find(endedContext, ps[i].Topic, ps[i].TopicID, ps[i].Partition)
	}
}

func (r *Reader) act(ctx context.Context, rd *read) int64 {
	o := rd.part.Offsets
	switch rd.ans.Where {
	case locality.OutOfRange:
		if why := r.unread(rd, rd.req.Offset); why != "" && !rd.local(rd.req.Offset) { // one that is here was refused for another reason
			rd.ans.Why = why
			return rd.refuse(NotLeaderOrFollower)
		}
		return rd.refuse(OffsetOutOfRange)
	case locality.UnknownEpoch:
		return rd.refuse(UnknownLeaderEpoch)
	case locality.Fenced:
		rd.out.Leader = &Leader{rd.part.LeaderID, rd.part.Lineage.Latest()}
		return rd.refuse(FencedLeaderEpoch)
	}
	rd.out.HighWatermark, rd.out.LastStableOffset, rd.out.LogStartOffset = o.HighWatermark, o.LastStableOffset, o.LogStart
	switch rd.ans.Where {
	case locality.MovedToTiered:
		rd.out.Code, rd.out.Err = OffsetMovedToTiered, rd.error(OffsetMovedToTiered)
	case locality.Diverged:
		at := rd.ans.Diverging // the answer outlives the read
		rd.out.Diverging = &at
	case locality.AtEnd:
		rd.out.Aborted = r.policy.noAborted(rd.iso, false)
	case locality.Local:
		if r.elsewhere(rd) {
			rd.ans.Where = locality.Remote
			return rd.room
		}
		return r.readLocal(ctx, rd)
	case locality.Remote:
		return rd.room
	}
	return 0
}

// refuse answers with an error of the check. HW, LSO and log start stay -1, as a broker leaves them.
func (rd *read) refuse(c Code) int64 {
	rd.out.Code, rd.out.Err = c, rd.error(c)
	return 0
}

func (rd *read) error(c Code) error {
	kind := abi.Invalid
	if c == NotLeaderOrFollower {
		kind = abi.Unavailable
	}
	return abi.Errorf("fetch", fmt.Sprintf("%s offset %d", rd.part.ID, rd.req.Offset), kind,
		"%s (%d): %s; the log %s", c, c, rd.ans.Why, holds(rd.part.Offsets))
}

// holds says which offsets a log has.
func holds(o locality.Offsets) string {
	if o.LogEnd <= o.LogStart {
		return fmt.Sprintf("is empty and begins at %d", o.LogStart)
	}
	return fmt.Sprintf("holds %d to %d", o.LogStart, o.LogEnd-1)
}

// found adds to a partition's answer what is wrong, and tells of it.
func (r *Reader) found(rd *read, f finding.Finding) {
	rd.out.Findings = append(rd.out.Findings, f)
	r.report(f)
}

// fail turns a partition's answer into an error.
func (r *Reader) fail(rd *read, err error) {
	rd.acc.release()
	until := int64(0)
	if h, ok := r.missing(rd, rd.req.Offset); ok && errors.Is(err, locallog.ErrHole) {
		until = h.Until
	}
	*rd.out = PartitionData{Topic: rd.out.Topic, TopicID: rd.out.TopicID, Partition: rd.out.Partition,
		Findings: rd.out.Findings, MissingUntil: until,
		Code: r.policy.code(err, rd.ans.Where == locality.Remote), Err: err, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1}
}

// goOn spends what is left of the request's budget, after each partition got what a broker would have given it, on local
// partitions whose segment ended before their allowance did.
func (r *Reader) goOn(ctx context.Context, reads []read, left int64) {
	if !r.policy.CrossSegments {
		return
	}
	for i := range reads {
		rd := &reads[i]
		if rd.out.Code != None || rd.part == nil || rd.ans.Where != locality.Local || rd.acc.len() == 0 {
			continue
		}
		before := rd.acc.len()
		room := min(rd.room-before, left)
		if room <= 0 {
			continue
		}
		if err := r.localFrom(ctx, rd, rd.acc.next, room, false); err != nil {
			rd.stopped()
		}
		left -= rd.acc.len() - before
	}
}

// finish adds what stands beside the records.
func (r *Reader) finish(ctx context.Context, rd *read) {
	if rd.part == nil {
		return
	}
	if rd.out.Code == None && rd.acc.len() > 0 && rd.ans.Where == locality.Local {
		if err := r.addAborted(ctx, rd); err != nil {
			r.fail(rd, err)
		}
	}
	rd.out.Files = rd.acc.files
	rd.out.Records, rd.out.buf = rd.acc.take()
	rd.out.Remote = rd.ans.Where == locality.Remote
	rd.out.Spent = r.policy.FirstPassesOn && rd.spent()
	r.traceAnswer(rd)
}
