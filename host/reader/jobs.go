package reader

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/trace"
)

// lateTimeout bounds a remote read that outlived its request.
const lateTimeout = time.Minute

// readRemote reads all remote partitions of a request in parallel and waits for them until patience ends, which is with ctx
// or before it.
func (r *Reader) readRemote(ctx, patience context.Context, req *FetchRequest, reads []read) {
	jobs := make([]*job, len(reads))
	for i := range reads {
		if rd := &reads[i]; rd.part != nil && rd.ans.Where == locality.Remote && rd.room > 0 {
			jobs[i] = r.job(ctx, req.ClientID, rd)
		}
	}
	if !some(jobs) {
		return
	}
	r.counts.fetching.Add(1)
	defer r.counts.waited(time.Now())
	for over := false; some(jobs); {
		for i, j := range jobs {
			if j == nil {
				continue
			}
			rd := &reads[i]
			over, jobs[i] = r.collect(ctx, patience, rd, j, over), nil
			if rd.outgrew(j) { // the new job has this read's room, so that it is the last
				rd.acc.release()
				rd.acc = accumulator{}
				jobs[i] = r.job(ctx, req.ClientID, rd)
			}
		}
	}
}

func some(jobs []*job) bool {
	return slices.ContainsFunc(jobs, func(j *job) bool { return j != nil })
}

// outgrew reports that a read was answered from one of an earlier request that might take less, and for which the first batch
// was too large. That says nothing of this one, which is begun anew: else the right to exceed an allowance could be spent on
// such answers for ever.
func (rd *read) outgrew(j *job) bool {
	return !rd.out.Late && rd.acc.tooBig && (rd.room > j.read.room || rd.first && !j.read.first)
}

// job gives the read of an earlier request that this one asks for again, or begins one.
func (r *Reader) job(ctx context.Context, client string, rd *read) *job {
	if r.policy.KeepLate {
		if j := r.late.take(rd.lateKey()); j != nil {
			r.counts.lateAnswered.Add(1)
			rd.tr.Add(rd.tr.Mark(), "late", "kept", nil, "the read that an earlier request began %s ago", time.Since(j.began).Round(time.Millisecond))
			return r.resumed(ctx, client, rd, j)
		}
	}
	r.counts.topic(rd.part).requests.Add(1)
	j := &job{read: *rd, out: *rd.out, done: make(chan struct{}), began: time.Now()}
	j.read.out, j.read.tr = &j.out, rd.tr.Fork()
	j.out.Findings = nil // those of the request stay with it
	j.read.files = false // what comes behind the remote tier lies in the same buffer
	if r.wait.Load() > 0 && r.policy.KeepLate {
		j.read.over = &j.over
	}
	r.start(ctx, client, j, r.run)
	return j
}

// start begins a job's work.
func (r *Reader) start(ctx context.Context, client string, j *job, work func(ctx context.Context, client string, rd *read) error) {
	jctx := r.detach(ctx, j)
	r.late.wg.Go(func() {
		defer r.giveWay()
		defer close(j.done)
		defer j.detach() // nothing of it may stay with a context that lives on
		defer j.cancel(nil)
		j.err = work(jctx, client, &j.read)
		r.counts.ran(&j.read, j.err)
	})
}

// resumed gives a job that is answered from a kept one: itself, or where its records came and the list of aborted transactions did
// not, one that goes on with the list.
func (r *Reader) resumed(ctx context.Context, client string, rd *read, j *job) *job {
	select {
	case <-j.done:
	default:
		return j
	}
	if !j.read.unlisted {
		return j
	}
	next := &job{read: j.read, out: j.out, done: make(chan struct{}), began: j.began}
	next.read.out, next.read.tr, next.read.unlisted, next.read.over = &next.out, rd.tr.Fork(), false, &next.over
	next.out.Findings = nil
	r.start(ctx, client, next, func(ctx context.Context, client string, rd *read) (failed error) {
		err := r.pool.do(ctx, client, func(t *turn) {
			growStack()
			rd.mem.turn, rd.began = t, t.began
			failed = r.finishRemote(ctx, rd)
		})
		return cmp.Or(err, failed)
	})
	return next
}

// detach gives a job's context: the request's own where nothing may outlive it.
func (r *Reader) detach(ctx context.Context, j *job) context.Context {
	if r.wait.Load() == 0 {
		ctx, j.cancel = context.WithCancelCause(ctx)
		j.detach = func() bool { return true }
		return ctx
	}
	jctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	j.cancel = cancel
	j.detach = context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return jctx
}

// forRecords gives the part of a job's time in which its records must come; finishRemote has one of its own. Where the request's
// deadline bounds both, a quarter of it is left for the list of aborted transactions: without it the records are worth nothing.
func (r *Reader) forRecords(ctx context.Context, rd *read) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	switch {
	case !bounded && r.wait.Load() > 0:
		return context.WithTimeout(ctx, lateTimeout)
	case bounded && rd.iso == locality.ReadCommitted && r.policy.ExactAborted:
		return context.WithTimeout(ctx, time.Until(end)*3/4)
	}
	return context.WithCancel(ctx)
}

// run does a remote read: when the quota and a reader are free.
func (r *Reader) run(ctx context.Context, client string, rd *read) error {
	records, stop := r.forRecords(ctx, rd)
	defer stop()
	charged, err := r.quota.reserve(records, rd.room)
	if err != nil {
		return err
	}
	var failed error
	err = r.pool.do(records, client, func(t *turn) {
		defer t.tell()
		growStack()
		rd.mem.turn, rd.began = t, t.began
		failed = r.remote(records, rd)
		if r.vanished(rd, failed) {
			failed = r.afterLook(records, rd, failed)
		}
		if failed == nil {
			failed = r.finishRemote(ctx, rd)
		}
	})
	r.quota.settle(charged, rd.acc.len())
	if err != nil {
		return err
	}
	return failed
}

// growStack makes the stack of a new goroutine as large as a remote read through a plugin needs it. It grows once and with
// nothing on it, where it would be copied three times, each time with more (4% of the CPU time of a server of remote reads).
// It is called when a reader is free: a read that waits for one keeps its small stack.
//
//go:noinline
func growStack() {
	var room [24 << 10]byte
	runtime.KeepAlive(&room)
}

// finishRemote adds what stands beside the records of a remote read.
func (r *Reader) finishRemote(ctx context.Context, rd *read) error {
	if rd.acc.len() > 0 {
		if r.wait.Load() > 0 {
			bounded, stop := context.WithTimeout(ctx, lateTimeout)
			defer stop()
			ctx = bounded
		}
		err := r.addAborted(ctx, rd)
		rd.unlisted = err != nil && passingKind(err) && r.policy.ExactAborted
		return err
	}
	rd.out.Aborted = r.policy.noAborted(rd.iso, rd.acc.tooBig)
	return nil
}

// collect waits for a job and answers its partition from it. It reports whether the wait is over for those that follow.
func (r *Reader) collect(ctx, patience context.Context, rd *read, j *job, over bool) bool {
	if over { // what is ready is taken all the same
		select {
		case <-j.done:
			r.adopt(ctx, rd, j)
		default:
			r.answerLate(rd, j)
		}
		return true
	}
	select {
	case <-j.done:
		r.adopt(ctx, rd, j)
		return false
	case <-patience.Done():
	}
	if ctx.Err() == nil {
		r.answerLate(rd, j)
		return true
	}
	j.cancel(context.Cause(ctx))
	<-j.done // it ends with its context
	r.adopt(ctx, rd, j)
	return false
}

// answerLate answers with nothing, and keeps the read for the retry.
func (r *Reader) answerLate(rd *read, j *job) {
	rd.out.Late = true
	j.over.Store(true)
	r.counts.lateLeft.Add(1)
	rd.tr.Add(trace.Mark{}, "late", "not ready", nil, "within %s; the next fetch of this offset is answered from it", time.Duration(r.wait.Load()))
	if !r.policy.KeepLate {
		r.late.wg.Go(j.drop)
		return
	}
	j.detach()
	r.late.keep(rd.lateKey(), j)
	r.giveWay() // it may have been done before it was kept
}

// giveWay drops reads that are done and kept for those who wait for memory: they began to wait before these were done, when
// there was nothing to shed.
func (r *Reader) giveWay() {
	if n := r.buffers.Wanted(); n > 0 {
		r.late.shed(n)
	}
}

// adopt makes a job's result the partition's.
func (r *Reader) adopt(ctx context.Context, rd *read, j *job) {
	rd.tr.Join(j.read.tr)
	rd.out.Findings = append(rd.out.Findings, j.out.Findings...)
	j.read.tr = nil
	if j.err != nil && j.read.unlisted && ctx.Err() == nil && r.policy.KeepLate && r.wait.Load() > 0 {
		r.fail(rd, j.err) // the records are kept for the retry, which asks for the list alone
		r.late.keep(rd.lateKey(), j)
		r.giveWay()
		return
	}
	if j.err != nil {
		j.read.acc.release()
		if r.policy.EmptyOnTimeout && ctx.Err() != nil {
			return
		}
		r.fail(rd, asked(ctx, j.err))
		return
	}
	if !r.fit(rd, j) {
		return
	}
	rd.acc, rd.out.Aborted = j.read.acc, j.out.Aborted
}

// asked gives an error of a job the kind that its request's own end has: a job is cancelled where a request met its
// deadline.
func asked(ctx context.Context, err error) error {
	if ctx.Err() == nil || abi.KindOf(err) != abi.Cancelled {
		return err
	}
	return abi.E("fetch", "", abi.KindOf(ctx.Err()), err)
}

// fit cuts a result that a request with a larger allowance began to this one's, in whole batches. It reports false where
// not even the first batch may go out: then it is kept once more.
func (r *Reader) fit(rd *read, j *job) bool {
	acc := &j.read.acc
	if acc.n <= rd.room || rd.room >= j.read.room {
		return true
	}
	n := int64(0)
	for w := format.Walk(acc.buf.B[:acc.n]); w.Next(); {
		if size := w.Header().Size(); n+size <= rd.room || n == 0 && rd.first {
			n += size
			acc.next = w.Header().LastOffset + 1
			continue
		}
		break
	}
	if n == 0 {
		rd.acc.tooBig = true
		r.late.keep(rd.lateKey(), j)
		r.giveWay()
		return false
	}
	acc.n = n
	return true
}
