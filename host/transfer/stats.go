package transfer

import "sync/atomic"

// Stats is what a Mover has done since it was made.
type Stats struct {
	Asked    int64 // times that the plugin was asked for a source
	Requests int64 // of the store: reads of a location, and streams that were opened
	Bytes    int64 // moved to readers
	Shared   int64 // of them: those that another read had brought
	Skipped  int64 // beyond them: those of streams that were passed over
	Retries  int64 // tries that followed a failure
}

// counts are a Mover's Stats while they grow.
type counts struct {
	asked, requests, bytes, shared, skipped, retries atomic.Int64
}

// add counts what a read did, by what its object had done before it and after.
func (c *counts) add(before, after *Evidence) {
	c.asked.Add(int64(after.Asked - before.Asked))
	c.bytes.Add(after.Bytes - before.Bytes)
	c.shared.Add(after.Shared - before.Shared)
	c.skipped.Add(after.Skipped - before.Skipped)
	c.retries.Add(int64(after.Retries - before.Retries))
}

// Stats tells what was done so far.
func (m *Mover) Stats() Stats {
	c := &m.counts
	return Stats{Asked: c.asked.Load(), Requests: c.requests.Load(), Bytes: c.bytes.Load(), Shared: c.shared.Load(),
		Skipped: c.skipped.Load(), Retries: c.retries.Load()}
}
