package wasm

import "github.com/rsmhost/rsmhost/abi"

// AppendFetchLogSegment appends a FetchLogSegmentRequest document.
func AppendFetchLogSegment(b []byte, seg *abi.SegmentMetadata, r abi.Range) []byte {
	b = appendSegment(b, 1, seg)
	b = appendInt(b, 2, r.Start)
	return appendInt(b, 3, r.End)
}

// DecodeFetchLogSegment reads a FetchLogSegmentRequest document.
func DecodeFetchLogSegment(b []byte) (*abi.SegmentMetadata, abi.Range, error) {
	var seg *abi.SegmentMetadata
	var r abi.Range
	f := document(b)
	for f.next() {
		switch f.key {
		case 1<<3 | typeLen:
			seg = f.segment(seg)
		case 2<<3 | typeVarint:
			r.Start = f.i64()
		case 3<<3 | typeVarint:
			r.End = f.i64()
		}
	}
	if seg == nil {
		f.fail("no segment")
	}
	if err := f.done("FetchLogSegmentRequest"); err != nil {
		return nil, abi.Range{}, err
	}
	return seg, r, nil
}

// AppendFetchIndex appends a FetchIndexRequest document.
func AppendFetchIndex(b []byte, seg *abi.SegmentMetadata, t abi.IndexType) []byte {
	b = appendSegment(b, 1, seg)
	return appendInt(b, 2, int64(t))
}

// DecodeFetchIndex reads a FetchIndexRequest document.
func DecodeFetchIndex(b []byte) (*abi.SegmentMetadata, abi.IndexType, error) {
	var seg *abi.SegmentMetadata
	var t abi.IndexType
	f := document(b)
	for f.next() {
		switch f.key {
		case 1<<3 | typeLen:
			seg = f.segment(seg)
		case 2<<3 | typeVarint:
			t = abi.IndexType(f.i32())
		}
	}
	if seg == nil {
		f.fail("no segment")
	}
	if err := f.done("FetchIndexRequest"); err != nil {
		return nil, 0, err
	}
	return seg, t, nil
}

func appendSegment(b []byte, num int, s *abi.SegmentMetadata) []byte {
	b, at := open(b, num)
	b = appendString(b, 1, s.Topic)
	b = appendBytes(b, 2, s.TopicID[:])
	b = appendInt(b, 3, int64(s.Partition))
	b = appendBytes(b, 4, s.SegmentID[:])
	b = appendInt(b, 5, s.StartOffset)
	b = appendInt(b, 6, s.EndOffset)
	b = appendInt(b, 7, s.MaxTimestampMs)
	b = appendInt(b, 8, s.SizeBytes)
	b = appendInt(b, 9, int64(s.BrokerID))
	b = appendInt(b, 10, s.EventTimestampMs)
	for _, e := range s.LeaderEpochs {
		var in int
		b, in = open(b, 11)
		b = appendInt(b, 1, int64(e.Epoch))
		b = appendInt(b, 2, e.StartOffset)
		b = closeAt(b, in)
	}
	if s.CustomMetadata != nil { // absent and empty differ
		b = appendBytes(b, 12, s.CustomMetadata)
	}
	b = appendBool(b, 13, s.TxnIndexEmpty)
	return closeAt(b, at)
}

// segment reads into s, which is nil for the first: a message that comes in several fields is one, as protobuf has it.
func (f *fields) segment(s *abi.SegmentMetadata) *abi.SegmentMetadata {
	topic, segment := s != nil, s != nil
	if s == nil {
		s = new(abi.SegmentMetadata)
	}
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeLen:
			s.Topic = m.string()
		case 2<<3 | typeLen:
			s.TopicID, topic = m.uuid()
		case 3<<3 | typeVarint:
			s.Partition = m.i32()
		case 4<<3 | typeLen:
			s.SegmentID, segment = m.uuid()
		case 5<<3 | typeVarint:
			s.StartOffset = m.i64()
		case 6<<3 | typeVarint:
			s.EndOffset = m.i64()
		case 7<<3 | typeVarint:
			s.MaxTimestampMs = m.i64()
		case 8<<3 | typeVarint:
			s.SizeBytes = m.i64()
		case 9<<3 | typeVarint:
			s.BrokerID = m.i32()
		case 10<<3 | typeVarint:
			s.EventTimestampMs = m.i64()
		case 11<<3 | typeLen:
			if m.room(len(s.LeaderEpochs)) {
				s.LeaderEpochs = append(s.LeaderEpochs, m.leaderEpoch())
			}
		case 12<<3 | typeLen:
			s.CustomMetadata = m.copied()
		case 13<<3 | typeVarint:
			s.TxnIndexEmpty = m.bool()
		}
	}
	if !topic || !segment {
		f.fail("a segment without its ids")
	}
	return s
}

func (f *fields) leaderEpoch() (e abi.LeaderEpoch) {
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeVarint:
			e.Epoch = m.i32()
		case 2<<3 | typeVarint:
			e.StartOffset = m.i64()
		}
	}
	return e
}
