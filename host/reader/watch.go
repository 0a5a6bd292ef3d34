package reader

import "github.com/rsmhost/rsmhost/host/trace"

// Watched is one partition's read when its answer is ready. Nothing of it may be kept.
type Watched struct {
	Request *FetchRequest
	Asked   *FetchPartition
	Answer  *PartitionData
	Steps   []trace.Brief // of an earlier request's read too, where this one was answered from it
}

// trace is the trace of the i-th partition: the request's own, a brief one where reads are watched, or none.
func (r *Reader) trace(req *FetchRequest, i int) *trace.Trace {
	if t := req.Partitions[i].Trace; t != nil || r.watch == nil {
		return t
	}
	return trace.NewBrief(req.ID)
}

// ended tells who watches of a partition's read.
func (r *Reader) ended(req *FetchRequest, rd *read) {
	r.counts.answered(rd)
	if r.watch == nil || rd.req.Trace != nil {
		return
	}
	r.watch(Watched{req, rd.req, rd.out, rd.tr.Briefs()})
	rd.tr.Free()
	rd.tr = nil
}
