package locality

import (
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
)

var (
	// tiered holds 100-499, of which 300-499 lie locally; a segment from 250 on was not deleted yet.
	tieredLog = Offsets{LogStart: 100, LocalStart: 300, LocalBase: 250, HighWatermark: 480, LastStableOffset: 450, LogEnd: 500, Remote: true}
	// bucket is a partition of which no log directory is left.
	bucket = Offsets{LogStart: 100, LocalStart: 400, LocalBase: -1, HighWatermark: 400, LastStableOffset: 400, LogEnd: 400, Remote: true}
	plain  = Offsets{LogStart: 100, LocalStart: 100, LocalBase: 50, HighWatermark: 480, LastStableOffset: 480, LogEnd: 500}

	lineage = epoch.Of([]abi.LeaderEpoch{{Epoch: 0, StartOffset: 0}, {Epoch: 2, StartOffset: 200}, {Epoch: 5, StartOffset: 400}})
)

func consumer(offset int64) Request {
	return Request{Offset: offset, CurrentLeaderEpoch: epoch.Undefined, LastFetchedEpoch: epoch.Undefined, Replica: Consumer}
}

func (r Request) committed() Request          { r.Isolation = ReadCommitted; return r }
func (r Request) by(replica int32) Request    { r.Replica = replica; return r }
func (r Request) current(epoch int32) Request { r.CurrentLeaderEpoch = epoch; return r }
func (r Request) fetched(epoch int32) Request { r.LastFetchedEpoch = epoch; return r }
func end(e int32, offset int64) abi.LeaderEpoch {
	return abi.LeaderEpoch{Epoch: e, StartOffset: offset}
}

// TestCheck is the order of checks of spec 1.3 and the choice of 1.4.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name  string
		r     Request
		o     Offsets
		where Where
		bound int64
		div   abi.LeaderEpoch
	}{
		{"below the log start", consumer(99), tieredLog, OutOfRange, 0, end(0, 0)},
		{"a negative offset", consumer(-1), tieredLog, OutOfRange, 0, end(0, 0)},
		{"the smallest offset there is", consumer(-1 << 63), tieredLog, OutOfRange, 0, end(0, 0)},
		{"the log start", consumer(100), tieredLog, Remote, 480, end(0, 0)},
		{"last below the local segments", consumer(249), tieredLog, Remote, 480, end(0, 0)},
		{"a local segment below the local start wins", consumer(250), tieredLog, Local, 480, end(0, 0)},
		{"the local start", consumer(300), tieredLog, Local, 480, end(0, 0)},
		{"last below the high watermark", consumer(479), tieredLog, Local, 480, end(0, 0)},
		{"at the high watermark", consumer(480), tieredLog, AtEnd, 480, end(0, 0)},
		{"above the high watermark", consumer(499), tieredLog, AtEnd, 480, end(0, 0)},
		{"at the log end", consumer(500), tieredLog, AtEnd, 480, end(0, 0)},
		{"beyond the log end", consumer(501), tieredLog, OutOfRange, 0, end(0, 0)},
		{"committed, below the last stable offset", consumer(449).committed(), tieredLog, Local, 450, end(0, 0)},
		{"committed, at the last stable offset", consumer(450).committed(), tieredLog, AtEnd, 450, end(0, 0)},
		{"committed, remote", consumer(100).committed(), tieredLog, Remote, 450, end(0, 0)},
		{"a debug consumer is a consumer", consumer(100).by(DebugConsumer), tieredLog, Remote, 480, end(0, 0)},

		{"a follower below the local segments", consumer(100).by(2), tieredLog, MovedToTiered, 0, end(0, 0)},
		{"a future replica too", consumer(100).by(-3), tieredLog, MovedToTiered, 0, end(0, 0)},
		{"a follower below the log start", consumer(99).by(2), tieredLog, OutOfRange, 0, end(0, 0)},
		{"a follower reads up to the log end", consumer(490).by(2), tieredLog, Local, 500, end(0, 0)},
		{"a follower that has all", consumer(500).by(2), tieredLog, AtEnd, 500, end(0, 0)},
		{"a follower is not held to committed", consumer(490).by(2).committed(), tieredLog, Local, 500, end(0, 0)},

		{"no local tier, log start", consumer(100), bucket, Remote, 400, end(0, 0)},
		{"no local tier, last offset", consumer(399), bucket, Remote, 400, end(0, 0)},
		{"no local tier, the end", consumer(400), bucket, AtEnd, 400, end(0, 0)},
		{"no local tier, beyond", consumer(401), bucket, OutOfRange, 0, end(0, 0)},

		{"no remote tier, a segment begins below the log start", consumer(99), plain, OutOfRange, 0, end(0, 0)},
		{"no remote tier", consumer(100), plain, Local, 480, end(0, 0)},
		{"no remote tier, beyond", consumer(501), plain, OutOfRange, 0, end(0, 0)},

		{"an old leader epoch", consumer(300).current(4), tieredLog, Fenced, 0, end(0, 0)},
		{"a new leader epoch", consumer(300).current(6), tieredLog, UnknownEpoch, 0, end(0, 0)},
		{"the right leader epoch", consumer(300).current(5), tieredLog, Local, 480, end(0, 0)},
		{"fencing comes before the range", consumer(-5).current(4), tieredLog, Fenced, 0, end(0, 0)},

		{"the last epoch is right", consumer(300).fetched(2), tieredLog, Local, 480, end(0, 0)},
		{"the last epoch ends at the offset", consumer(400).fetched(2), tieredLog, Local, 480, end(0, 0)},
		{"the last epoch ends below the offset", consumer(401).fetched(2), tieredLog, Diverged, 0, end(2, 400)},
		{"an epoch without records", consumer(300).fetched(3), tieredLog, Diverged, 0, end(2, 400)},
		{"diverging in the remote tier", consumer(201).fetched(1), tieredLog, Diverged, 0, end(0, 200)},
		{"the last epoch is right, remote", consumer(201).fetched(2), tieredLog, Remote, 480, end(0, 0)},
		{"an epoch nobody knows, remote", consumer(201).fetched(9), tieredLog, Remote, 480, end(0, 0)},
		{"an epoch nobody knows, local", consumer(301).fetched(9), tieredLog, OutOfRange, 0, end(0, 0)},
		{"below the log start with a last epoch", consumer(99).fetched(2), tieredLog, OutOfRange, 0, end(0, 0)},
		{"a follower with a last epoch, remote", consumer(201).fetched(9).by(3), tieredLog, MovedToTiered, 0, end(0, 0)},
	} {
		a := Check(tt.r, tt.o, lineage)
		if a.Where != tt.where || a.Diverging != tt.div || tt.bound != 0 && a.Bound != tt.bound {
			t.Errorf("%s: %v, bound %d, diverging %v; want %v, %d, %v", tt.name, a.Where, a.Bound, a.Diverging, tt.where, tt.bound, tt.div)
		}
		if a.Why == "" && a.Where != Local {
			t.Errorf("%s: %v without a reason", tt.name, a.Where)
		}
	}
}

// TestEmptyLineage: who knows no epoch can't fence, and can't tell where an epoch ends.
func TestEmptyLineage(t *testing.T) {
	if a := Check(consumer(300).current(7), tieredLog, epoch.Lineage{}); a.Where != Local {
		t.Errorf("a current epoch: %v", a.Where)
	}
	if a := Check(consumer(300).fetched(7), tieredLog, epoch.Lineage{}); a.Where != OutOfRange {
		t.Errorf("a last epoch: %v", a.Where)
	}
}

// TestWords: each outcome has a word for the trace.
func TestWords(t *testing.T) {
	for w := Local; w <= MovedToTiered; w++ {
		if w.String() == "" {
			t.Errorf("outcome %d has no word", w)
		}
	}
	if ReadCommitted.String() != "read_committed" || ReadUncommitted.String() != "read_uncommitted" {
		t.Error("the isolation levels have other words")
	}
}
