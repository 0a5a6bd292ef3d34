package reader

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sort"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/host/rlmm"
	"github.com/rsmhost/rsmhost/host/transfer"
)

const (
	// maxKnown bounds the stretches that are kept, and maxMarkers the markers in them: of 24 bytes each.
	maxKnown   = 1 << 16
	maxMarkers = 1 << 18
)

// marker ends a transaction.
type marker struct {
	producer int64
	offset   int64
	abort    bool
}

// stretch is the markers of a part of one segment, as they lie in the data. It is not changed once it is kept.
type stretch struct {
	from, next int64 // offsets, next exclusive: all markers between them are in list
	pos        int64 // where the batch at next begins
	last       int64 // end of the batch that was taken last; 0: none was
	end        bool  // nothing of the segment lies behind
	list       []marker
	until      int64   // where the lineage leaves the segment
	noIndex    bool    // the segment's transaction index can't be used
	proved     []int64 // offsets behind next that an abort marker was read at
}

// ending is the marker that ends a transaction of producer that is open at offset.
func (s *stretch) ending(producer, offset int64) (marker, bool) {
	i := sort.Search(len(s.list), func(i int) bool { return s.list[i].offset >= offset })
	for _, m := range s.list[i:] {
		if m.producer == producer {
			return m, true
		}
	}
	return marker{}, false
}

// stretchKey says which segment a stretch is of.
type stretchKey struct {
	remote abi.UUID
	local  *os.File
}

// stretches is what is known of segments' markers, by segment: what was read once need not be read again for the next answer.
type stretches struct {
	mu      sync.Mutex
	lru     *simplelru.LRU[stretchKey, *stretch]
	markers int
}

func (s *stretches) get(k stretchKey) *stretch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lru == nil {
		return nil
	}
	known, _ := s.lru.Get(k)
	return known
}

func (s *stretches) put(k stretchKey, st *stretch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lru == nil {
		lru, err := simplelru.NewLRU(maxKnown, func(_ stretchKey, gone *stretch) { s.markers -= len(gone.list) })
		if err != nil { // only for a size that is not positive
			panic(err)
		}
		s.lru = lru
	}
	s.lru.Remove(k)
	s.markers += len(st.list)
	s.lru.Add(k, st)
	for s.markers > maxMarkers && s.lru.Len() > 1 {
		s.lru.RemoveOldest()
	}
}

// from gives what is known of a segment from offset on, to be extended: a copy, or a new one that begins at offset and pos.
func (s *stretches) from(k stretchKey, offset, pos, until int64) *stretch {
	anew := &stretch{from: offset, next: offset, pos: pos, until: until}
	known := s.get(k)
	if known == nil || known.until != until {
		return anew
	}
	if offset < known.from || offset > known.next {
		anew.noIndex, anew.proved = known.noIndex, known.proved
		return anew
	}
	st := *known
	st.list = slices.Clip(st.list) // what is appended goes elsewhere
	return &st
}

// behind says that the batch at st.pos follows one that ends before offset. Else one that lies there a second time would not be seen.
func (s *stretch) behind(offset int64) {
	if s.last == 0 && s.next == offset {
		s.last = offset
	}
}

// took takes in a batch that lies at pos. b is its bytes where it is a marker.
func (s *stretch) took(h *format.BatchHeader, pos int64, b []byte) error {
	if err := follows(h, s.last); err != nil {
		return err
	}
	s.last = h.LastOffset + 1
	if h.IsControl() && h.IsTransactional() {
		abort, ends, err := format.EndOfTransaction(b)
		if err != nil {
			return err
		}
		if ends {
			s.list = append(s.list, marker{h.ProducerID, h.BaseOffset, abort})
		}
	}
	s.next, s.pos = max(s.next, h.LastOffset+1), pos+h.Size()
	return nil
}

const (
	// scanPiece is how much of a remote segment is read at once in a search for markers.
	scanPiece = 64 << 10
	// scanWhole is the size up to which a batch that is passed is held against its CRC. A marker takes 78 bytes; what is much larger is
	// none, whatever its header says.
	scanWhole = 1 << 10
)

// scanRemote reads on in a remote segment behind what st knows, until enough says so or limit bytes were read. read is how many
// were. An error is of the batch that st ends before.
func (r *Reader) scanRemote(ctx context.Context, mem memory, seg piece, st *stretch, limit int64, enough func() bool) (read int64, err error) {
	end, began := false, st.pos
	read, end, err = r.walkRemote(ctx, mem, seg, st.pos, func(h *format.BatchHeader, pos int64, b []byte) (bool, error) {
		if enough() || pos-began >= limit {
			return true, nil
		}
		return false, st.took(h, pos, b)
	})
	if end {
		st.end, st.next = true, max(st.next, seg.until)
	}
	return read, err
}

// walkRemote visits the batches of a remote segment from position pos on, until visit says stop or fails. b is the bytes of a
// small one, good by its CRC, which a marker is. end says that it came to the segment's end, or to where the lineage leaves it.
func (r *Reader) walkRemote(ctx context.Context, mem memory, seg piece, pos int64, visit func(h *format.BatchHeader, pos int64, b []byte) (stop bool, err error)) (read int64, end bool, err error) {
	if r.store == nil {
		return 0, false, abi.Errorf("read", seg.Key(), abi.Phase, "no plugin is given to read the remote tier")
	}
	obj := r.log(seg.Segment)
	defer obj.Close()
	obj.Expect(min(pos+scanPiece, seg.SizeBytes))
	w := &window{obj: obj, seg: seg, size: seg.SizeBytes, first: scanPiece, strict: true, start: pos, mem: mem}
	if w.buf, err = mem.get(ctx, scanPiece); err != nil {
		return 0, false, err
	}
	defer func() { w.buf.Release() }()
	for {
		if pos > w.start && pos+format.HeaderSizeV2 > w.start+w.n {
			w.drop(pos) // the next piece begins here
		}
		h, ok, err := w.header(ctx, pos)
		if err != nil {
			return w.moved, false, err
		}
		if !ok || h.BaseOffset >= seg.until {
			return w.moved, true, nil
		}
		b, err := w.passed(ctx, &h, pos)
		if err != nil {
			return w.moved, false, err
		}
		if stop, err := visit(&h, pos, b); stop || err != nil {
			return w.moved, false, err
		}
		pos += h.Size()
	}
}

// passed gives the bytes of a small batch in the window, good by its CRC; nil of a large one.
func (w *window) passed(ctx context.Context, h *format.BatchHeader, pos int64) ([]byte, error) {
	if h.Size() > scanWhole {
		if h.IsControl() {
			return nil, w.corrupt(pos, errors.New("a marker of this size"))
		}
		return nil, nil
	}
	if end := pos + h.Size(); end > w.start+w.n {
		if pos > w.start {
			w.drop(pos)
		}
		if err := w.fill(ctx, max(end, w.start+w.first)); err != nil && w.start+w.n < end {
			return nil, err
		}
	}
	b := w.bytes(pos, pos+h.Size())
	if err := format.VerifyBatch(h, b); err != nil {
		return nil, w.corrupt(pos, err)
	}
	return b, nil
}

// scanLocal is scanRemote in a segment of the local log. What it has of the last segment may grow.
func scanLocal(s *locallog.Segment, st *stretch, enough func() bool) error {
	_, err := s.Batches(st.pos, func(b *locallog.Batch) (bool, error) {
		var bytes []byte
		if b.IsControl() && b.IsTransactional() {
			var err error
			if bytes, err = markerOf(s, &b.BatchHeader, b.Pos)(); err != nil {
				return true, err
			}
		}
		if err := st.took(&b.BatchHeader, b.Pos, bytes); err != nil {
			return true, err
		}
		return enough(), nil
	})
	if errors.Is(err, io.EOF) {
		err = abi.E("read", s.Path(), abi.Corrupt, err)
	}
	return err
}

// OpenTransactions takes in a remote segment: open is the first offset of each transaction that is open at its begin, by producer,
// and at its end afterwards. All of the segment is read.
//
// Errors: those of the store; CORRUPT where a batch can't be read. open is of no use then.
func (r *Reader) OpenTransactions(ctx context.Context, seg *rlmm.Segment, open map[int64]int64) error {
	mem := memory{lease: r.buffers.Lease()}
	_, _, err := r.walkRemote(ctx, mem, whole(seg), 0, func(h *format.BatchHeader, _ int64, b []byte) (bool, error) {
		_, known := open[h.ProducerID]
		switch {
		case !h.IsTransactional():
		case !h.IsControl() && !known:
			open[h.ProducerID] = h.BaseOffset
		case h.IsControl():
			_, ends, err := format.EndOfTransaction(b)
			if ends {
				delete(open, h.ProducerID)
			}
			return false, err
		}
		return false, nil
	})
	return err
}

// tailEntries is how many entries of the offset index the end of a segment is: 64 KiB, as brokers have it.
const tailEntries = 16

// ProducersAtEnd is what producers wrote in the last batches of a remote segment. It is empty where these can't be read as they are.
//
// Errors: those of the store that may pass.
func (r *Reader) ProducersAtEnd(ctx context.Context, seg *rlmm.Segment) (tail format.ProducerTail, err error) {
	if !r.policy.Verify || r.store == nil {
		return tail, nil
	}
	x, _, err := r.offsetIndex(ctx, seg, new(transfer.Evidence))
	if err != nil {
		return tail, onlyPassing(ctx, err)
	}
	offset, pos := seg.EndOffset+1, int64(1)
	for i := 0; i < tailEntries && pos > 0; i++ {
		offset, pos = x.Lookup(seg.StartOffset, offset-1)
	}
	_, _, err = r.walkRemote(ctx, memory{lease: r.buffers.Lease()}, whole(seg), pos, func(h *format.BatchHeader, _ int64, _ []byte) (bool, error) {
		tail.Add(h)
		return false, nil
	})
	if err != nil {
		return format.ProducerTail{}, onlyPassing(ctx, err)
	}
	return tail, nil
}

// onlyPassing is an error that a later try may not meet.
func onlyPassing(ctx context.Context, err error) error {
	if passing(ctx, err) {
		return err
	}
	return nil
}
