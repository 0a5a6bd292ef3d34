package format

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/rsmhost/rsmhost/abi"
)

// RecordHead is what places a record: all that a search for an offset or a timestamp needs.
type RecordHead struct {
	Offset    int64
	Timestamp int64 // milliseconds; -1: magic 0
}

// RecordHeads gives the records of the one batch at the start of b to visit, in their order, until it wants no more. What is
// compressed is inflated as a stream, of which nothing is kept: InflateMemory says how much that takes. maxDecoded bounds the
// bytes that come out of it (0: DefaultMaxDecoded). It does not check the CRC.
//
// Errors: as Records has them. Those behind the record that visit wanted last are not looked for.
func RecordHeads(b []byte, maxDecoded int64, visit func(RecordHead) (more bool)) error {
	if maxDecoded <= 0 {
		maxDecoded = DefaultMaxDecoded
	}
	h, payload, err := compressed(b)
	switch {
	case err != nil:
		return err
	case h.Magic < 2 && h.Codec() == CodecNone:
		visit(RecordHead{h.LastOffset, h.BaseTimestamp})
		return nil
	case h.Magic >= 2 && h.Count == 0 && len(payload) == 0:
		return nil // emptied by compaction
	case h.Magic >= 2:
		return overInflated(&h, payload, maxDecoded, func(r *bufio.Reader) error { return headsV2(&h, r, visit) })
	}
	base := int64(0)
	if h.Magic > 0 && h.LastOffset != 0 { // see innerBase
		last := int64(0)
		keep := func(r RecordHead) bool { last = r.Offset; return true }
		if err := overInflated(&h, payload, maxDecoded, func(r *bufio.Reader) error { return innerHeads(&h, r, keep) }); err != nil {
			return err
		}
		if last > h.LastOffset {
			return corrupt(h.name(), "its last relative offset is %d, more than its own", last)
		}
		base = h.LastOffset - last
	}
	return overInflated(&h, payload, maxDecoded, func(r *bufio.Reader) error {
		return innerHeads(&h, r, func(rec RecordHead) bool { rec.Offset += base; return visit(rec) })
	})
}

// overInflated runs fn over what payload inflates to.
func overInflated(h *BatchHeader, payload []byte, limit int64, fn func(*bufio.Reader) error) error {
	in, err := inflate(h, payload, limit)
	if err != nil {
		return within(h, codecError(h.Codec(), err, len(payload), limit))
	}
	defer in.close()
	r := bufioPool.Get().(*bufio.Reader)
	defer bufioPool.Put(r)
	r.Reset(in)
	defer r.Reset(nil)
	err = fn(r)
	if err == nil || errors.As(err, new(*abi.Error)) {
		return err
	}
	return within(h, codecError(h.Codec(), noEOF(err), len(payload), limit))
}

// headsV2 reads records of magic 2. An error that is no *abi.Error is of the stream.
func headsV2(h *BatchHeader, r *bufio.Reader, visit func(RecordHead) bool) error {
	if h.Count < 0 {
		return corrupt(h.name(), "it has %d records", h.Count)
	}
	for i := range int(h.Count) {
		size, _, err := zigzag(r)
		if err != nil {
			return err
		}
		if size < 0 || size > math.MaxInt32 {
			return corrupt(h.name(), "record %d of %d has length %d", i, h.Count, size)
		}
		if _, err := r.ReadByte(); err != nil { // attributes
			return err
		}
		stamp, n, err := zigzag(r)
		if err != nil {
			return err
		}
		delta, m, err := zigzag(r)
		if err != nil {
			return err
		}
		left := size - int64(1+n+m)
		if left < 0 || delta < 0 || delta > h.LastOffset-h.BaseOffset {
			return corrupt(h.name(), "record %d of %d has length %d and offset delta %d", i, h.Count, size, delta)
		}
		rec := RecordHead{h.BaseOffset + delta, h.BaseTimestamp + stamp}
		if h.TimestampType() == LogAppendTime {
			rec.Timestamp = h.MaxTimestamp
		}
		if !visit(rec) {
			return nil
		}
		if err := discard(r, left); err != nil {
			return err
		}
	}
	if _, err := r.ReadByte(); err == nil {
		return corrupt(h.name(), "bytes are left after its %d records", h.Count)
	} else if err != io.EOF {
		return err
	}
	return nil
}

// innerHeads reads the entries inside a wrapper of magic 0 or 1, with the offsets that they have there. There is at least one.
func innerHeads(h *BatchHeader, r *bufio.Reader, visit func(RecordHead) bool) error {
	for n := 0; ; n++ {
		peek, err := r.Peek(headerSizeV1)
		switch {
		case err == io.EOF && len(peek) == 0 && n > 0:
			return nil
		case err == io.EOF && len(peek) == 0:
			return corrupt(h.name(), "a wrapper of %s without records", h.Codec())
		case err != nil && err != io.EOF:
			return err
		}
		inner, err := ParseBatchHeader(peek)
		if err != nil {
			return corrupt(h.name(), "entry %d inside of it: %v", n, cutBatch(err, len(peek)))
		}
		if inner.Magic != h.Magic || inner.Codec() != CodecNone {
			return corrupt(h.name(), "magic %d, codec %s inside a wrapper of magic %d", inner.Magic, inner.Codec(), h.Magic)
		}
		rec := RecordHead{inner.LastOffset, inner.BaseTimestamp}
		if h.Magic == 1 && h.TimestampType() == LogAppendTime {
			rec.Timestamp = h.MaxTimestamp
		}
		if !visit(rec) {
			return nil
		}
		if err := discard(r, inner.Size()); err != nil {
			return err
		}
	}
}

func discard(r *bufio.Reader, n int64) error {
	_, err := r.Discard(int(n))
	return err
}

// zigzag reads a varint, and gives how many bytes it has.
func zigzag(r *bufio.Reader) (v int64, n int, err error) {
	peek, err := r.Peek(binary.MaxVarintLen64)
	u, n := binary.Uvarint(peek)
	switch {
	case n > 0:
		_, err = r.Discard(n)
		return unzigzag(u), n, err
	case n < 0:
		return 0, 0, errors.New("a varint that is too large")
	case err == nil || err == io.EOF:
		err = errCut
	}
	return 0, 0, err
}
