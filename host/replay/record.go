package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/epoch"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locality"
	"github.com/rsmhost/rsmhost/host/reader"
)

const (
	requestBytes   = 52428800 // a consumer's fetch.max.bytes
	offsetsVersion = 11
)

// MarshalJSON gives the case as a line of a file has it.
func (c *Case) MarshalJSON() ([]byte, error) {
	line := struct {
		Note     string `json:"note,omitempty"`
		Request  any    `json:"request"`
		Response any    `json:"response"`
	}{Note: c.Note}
	switch {
	case c.Fetch != nil:
		line.Request, line.Response = c.Fetch.Request, c.Fetch.Response
	case c.Offsets != nil:
		line.Request, line.Response = c.Offsets.Request, c.Offsets.Response
	case c.Epoch != nil:
		line.Request, line.Response = c.Epoch.Request, c.Epoch.Response
	}
	return json.Marshal(line)
}

// Recorder makes cases of what a cluster answers. The same data, number and seed make the same cases.
type Recorder struct {
	Client     *Client
	Topic      string
	Partitions []int32
	Cases      int // at most, of all partitions together
	Seed       uint64
	Emit       func(*Case) error // takes a case; an error ends the recording
}

// Run records. It asks at the offsets where answers go wrong (the log's ends, borders of tiers, segments, batches and leader
// epochs, beyond the end), of both isolation levels, with budgets around the size of a batch, with leader epochs that are right
// and wrong, of several partitions at once, by time; and at random offsets until there are enough cases. moved says that the
// topic's ends moved meanwhile: then cases that name them won't repeat.
//
// Errors: those of a connection, of ctx and of Emit, and UNAVAILABLE for a server that is too busy to find an offset by time.
func (r *Recorder) Run(ctx context.Context) (moved bool, err error) {
	rng := rand.New(rand.NewPCG(r.Seed, 0))
	var surveys []*survey
	for _, p := range r.Partitions {
		s := &survey{c: r.Client, topic: r.Topic, partition: p}
		if err := s.look(ctx, rng); err != nil {
			return false, err
		}
		surveys = append(surveys, s)
	}
	if err := r.ask(ctx, r.choose(surveys, rng)); err != nil {
		return false, err
	}
	for _, s := range surveys {
		end, start := s.special(ctx, reader.Latest, locality.ReadUncommitted), s.special(ctx, reader.Earliest, locality.ReadUncommitted)
		moved = moved || end.Offset != s.end || start.Offset != s.start
	}
	return moved, r.Client.Err()
}

// ask asks each case's request, and gives the case with its answer.
func (r *Recorder) ask(ctx context.Context, cases []*Case) error {
	for _, c := range cases {
		switch {
		case c.Fetch != nil:
			req, err := c.Fetch.Request.request()
			if err != nil {
				return err
			}
			got := answer(ctx, r.Client, req, nil)
			c.Fetch.Response.ErrorCode, c.Fetch.Response.Partitions = got.code, got.partitions
			if got.code != 0 {
				c.Fetch.Response.Partitions = []ResponsePartition{}
			}
		case c.Offsets != nil:
			c.Offsets.Response = c.Offsets.Request.patiently(ctx, r.Client)
			if ctx.Err() == nil && c.Offsets.Response.ErrorCode == int16(reader.RequestTimedOut) { // which says how busy it was, and nothing of its data
				return abi.Errorf("record", r.Topic, abi.Unavailable, "the server did not find %s of partition %d in time, asked %d times", c.Note, c.Offsets.Request.Partition, walkTries)
			}
		case c.Epoch != nil:
			c.Epoch.Response = c.Epoch.Request.ask(ctx, r.Client)
		}
		if err := cmpErr(r.Client.Err(), ctx.Err()); err != nil {
			return err
		}
		if err := r.Emit(c); err != nil {
			return err
		}
	}
	return nil
}

// choose takes cases of each class in turn, so that few cases have something of all, and fills up with random ones.
func (r *Recorder) choose(surveys []*survey, rng *rand.Rand) []*Case {
	var classes [][]*Case
	for _, s := range surveys {
		classes = append(classes, s.atSpots(), s.specials(), s.epochEnds(), s.budgets(), s.withEpochs(), s.beyond(), s.byTime())
	}
	if len(surveys) > 1 {
		classes = append(classes, together(surveys))
	}
	known := map[string]bool{}
	var out []*Case
	add := func(c *Case) {
		b, err := json.Marshal([]any{c.Fetch, c.Offsets, c.Epoch})
		if err == nil && !known[string(b)] && len(out) < r.Cases {
			known[string(b)] = true
			out = append(out, c)
		}
	}
	for i, more := 0, true; more && len(out) < r.Cases; i++ {
		more = false
		for _, class := range classes {
			if i < len(class) {
				add(class[i])
				more = true
			}
		}
	}
	for try := 0; len(out) < r.Cases && try < 4*r.Cases; try++ { // a small log has no more
		if s := surveys[rng.IntN(len(surveys))]; s.start < s.end {
			add(s.random(rng))
		}
	}
	return out
}

func (s *survey) fetchCase(note string, at int64, iso locality.Isolation, bytes int64) *Case {
	return &Case{Note: note, Fetch: &FetchCase{Request: s.request(at, iso, bytes)}}
}

// saw takes note of the batches of an answer. next is the offset behind it; border says that it ended there without a need.
func (s *survey) saw(p *reader.PartitionData, at int64) (next int64, border bool) {
	w, n, size := format.Walk(p.Records), 0, int64(0)
	next = at
	for w.Next() {
		h := w.Header()
		if n++; n == 1 {
			s.firsts = append(s.firsts, batchAt{h.BaseOffset, h.LastOffset, h.Size()})
		}
		if n <= 2 {
			s.add(h.BaseOffset, "a batch's first offset")
			if h.BaseTimestamp >= 0 {
				s.times = append(s.times, h.BaseTimestamp)
			}
		}
		if gap := h.BaseOffset > next && n > 1; gap {
			s.add(next, "a gap")
		}
		next, size = h.LastOffset+1, size+h.Size()
	}
	s.add(next-1, "a batch's last offset")
	return max(at, next), next < s.end && len(w.Rest()) == 0 && size < surveyBytes/2
}

var isolations = []locality.Isolation{locality.ReadUncommitted, locality.ReadCommitted}

// atSpots asks at what has a name, and beside it.
func (s *survey) atSpots() (out []*Case) {
	for _, beside := range []int64{0, -1, 1} {
		for _, x := range s.spots {
			for _, iso := range isolations {
				note := x.what
				if beside != 0 {
					note = fmt.Sprintf("%s, %+d", note, beside)
				}
				out = append(out, s.fetchCase(note, x.offset+beside, iso, surveyBytes))
			}
		}
	}
	return out
}

// specials asks for the offsets that have a name, as far as the cluster knows them.
func (s *survey) specials() (out []*Case) {
	version := s.c.version(listOffsetsKey, offsetsVersion)
	for _, ms := range []int64{reader.Latest, reader.Earliest, reader.MaxTimestamp, reader.EarliestLocal, reader.LatestTiered, reader.EarliestPendingUpload} {
		if version < reader.FirstVersion(ms) {
			continue
		}
		for _, iso := range isolations {
			out = append(out, s.offsetsCase("", ms, iso, nil))
		}
	}
	return out
}

func (s *survey) offsetsCase(note string, ms int64, iso locality.Isolation, current *int32) *Case {
	return &Case{Note: note, Offsets: &OffsetsCase{Request: OffsetsRequest{Version: s.c.version(listOffsetsKey, offsetsVersion), Topic: s.topic, Partition: s.partition,
		Timestamp: ms, Isolation: iso, CurrentLeaderEpoch: current}}}
}

// byTime asks for offsets around times that are there.
func (s *survey) byTime() (out []*Case) {
	times := slices.Clone(s.times)
	slices.Sort(times)
	times = slices.Compact(times)
	for _, beside := range []int64{0, -1, 1} {
		for _, ms := range times {
			for _, iso := range isolations {
				out = append(out, s.offsetsCase("", max(0, ms+beside), iso, nil))
			}
		}
	}
	return append(out, s.offsetsCase("before all", 0, locality.ReadUncommitted, nil), s.offsetsCase("after all", 1<<45, locality.ReadUncommitted, nil))
}

// epochEnds asks where leader epochs end, those that are not there too.
func (s *survey) epochEnds() (out []*Case) {
	for _, e := range append([]int32{-1, s.latest + 1, s.latest + 5}, s.epochs...) {
		out = append(out, &Case{Epoch: &EpochCase{Request: EpochRequest{Topic: s.topic, Partition: s.partition, LeaderEpoch: e}}})
	}
	return out
}

// budgets asks with room for a little less, just as much, and a little more than a batch.
func (s *survey) budgets() (out []*Case) {
	for _, b := range s.firsts {
		for _, x := range []struct {
			bytes int64
			note  string
		}{{b.size - 1, "room for less than the first batch"}, {b.size, "room for the first batch"}, {b.size + 1, "room for the first batch and a byte"},
			{1, "room for a byte"}, {0, "no room"}, {3 * b.size, "room for three batches"}} {
			c := s.fetchCase(x.note, b.base, locality.ReadUncommitted, max(0, x.bytes))
			out = append(out, c)
			whole := s.fetchCase(x.note+", of the request", b.last, locality.ReadCommitted, surveyBytes)
			whole.Fetch.Request.MaxBytes = max(0, x.bytes)
			out = append(out, whole)
		}
	}
	return out
}

// withEpochs asks with leader epochs that are right, too old and too new, as the client's and as the last fetched one.
func (s *survey) withEpochs() (out []*Case) {
	if s.latest == epoch.Undefined {
		return nil
	}
	for _, d := range []int32{0, 1, -1, -2} {
		current := s.latest + d
		if current < 0 {
			continue
		}
		for _, x := range []spot{{s.start, "the log start"}, {(s.start + s.end) / 2, "the middle"}, {s.end, "the end"}} {
			c := s.fetchCase(fmt.Sprintf("%s, current leader epoch %+d", x.what, d), x.offset, locality.ReadUncommitted, surveyBytes)
			c.Fetch.Request.Partitions[0].CurrentLeaderEpoch = &current
			last := s.fetchCase(fmt.Sprintf("%s, last fetched epoch %+d", x.what, d), x.offset, locality.ReadUncommitted, surveyBytes)
			last.Fetch.Request.Partitions[0].LastFetchedEpoch = &current
			out = append(out, c, last)
		}
		out = append(out, s.offsetsCase(fmt.Sprintf("current leader epoch %+d", d), reader.Latest, locality.ReadUncommitted, &current),
			&Case{Note: fmt.Sprintf("current leader epoch %+d", d), Epoch: &EpochCase{Request: EpochRequest{Topic: s.topic, Partition: s.partition, LeaderEpoch: s.latest, CurrentLeaderEpoch: &current}}})
	}
	return out
}

// beyond asks where nothing is.
func (s *survey) beyond() (out []*Case) {
	for _, iso := range isolations {
		for _, x := range []spot{{s.end + 1, "behind the end"}, {s.end + 1000000, "far behind the end"}, {s.start - 1, "below the log start"}, {0, "offset 0"}} {
			out = append(out, s.fetchCase(x.what, max(0, x.offset), iso, surveyBytes))
		}
	}
	return out
}

// together asks for several partitions at once, with room for all and for a part.
func together(surveys []*survey) (out []*Case) {
	for i, first := range surveys {
		second := surveys[(i+1)%len(surveys)]
		for _, bytes := range []int64{requestBytes, surveyBytes, 4096} {
			for j, iso := range isolations {
				c := first.fetchCase("two partitions", first.spots[j%len(first.spots)].offset, iso, surveyBytes)
				c.Fetch.Request.MaxBytes = bytes
				c.Fetch.Request.Partitions = append(c.Fetch.Request.Partitions, second.request(second.start, iso, surveyBytes).Partitions...)
				out = append(out, c)
			}
		}
	}
	return out
}

// random asks somewhere, for some bytes.
func (s *survey) random(rng *rand.Rand) *Case {
	bytes := []int64{1, 1000, 10_000, 100_000, surveyBytes, 4 * surveyBytes}[rng.IntN(6)]
	return s.fetchCase("", s.start+rng.Int64N(s.end-s.start), isolations[rng.IntN(2)], bytes)
}
