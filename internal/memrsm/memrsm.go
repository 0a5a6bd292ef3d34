// Package memrsm is a RemoteStorageManager whose objects lie in memory, for tests: it answers in every form of the
// contract, counts what it is asked, and knows which of its streams are still open.
package memrsm

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// Form is how a Store answers.
type Form int

// The forms.
const (
	Inline Form = iota // a location of inline parts, for the whole object
	Ranged             // the same for the range that was asked for
	Stream
)

// maxPart is the largest inline part that the contract allows.
const maxPart = 64 << 10

// Call is one call that a Store got.
type Call struct {
	Segment abi.UUID
	Index   abi.IndexType // 0: the log
	Range   abi.Range
}

// Store is the RemoteStorageManager. Its fields may be set until the first call.
type Store struct {
	Form   Form
	NoSize bool                                    // sources do not tell the object's size
	Before func(ctx context.Context, c Call) error // runs before a call is answered; an error is the answer

	mu      sync.Mutex
	segment map[abi.UUID]*kafkabytes.Segment
	calls   []Call
	open    int
}

var _ abi.RemoteStorageManager = (*Store)(nil)

// New makes a Store that holds segments.
func New(form Form, segs ...*kafkabytes.Segment) *Store {
	s := &Store{Form: form, segment: map[abi.UUID]*kafkabytes.Segment{}}
	for _, seg := range segs {
		s.segment[seg.Meta.SegmentID] = seg
	}
	return s
}

// Put adds a segment, or replaces the one with its id. It must not be changed afterwards.
func (s *Store) Put(seg *kafkabytes.Segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segment[seg.Meta.SegmentID] = seg
}

// Remove removes a segment.
func (s *Store) Remove(id abi.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.segment, id)
}

// Calls gives the calls so far.
func (s *Store) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Open is the number of streams that nobody closed yet.
func (s *Store) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// FetchLogSegment answers with the log's bytes.
func (s *Store) FetchLogSegment(ctx context.Context, m *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	seg, err := s.called(ctx, Call{m.SegmentID, 0, r})
	if err != nil {
		return nil, err
	}
	return s.answer(seg.Log, r)
}

// FetchIndex answers with an index, NOT_FOUND where it is nil.
func (s *Store) FetchIndex(ctx context.Context, m *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	seg, err := s.called(ctx, Call{Segment: m.SegmentID, Index: t})
	if err != nil {
		return nil, err
	}
	b := map[abi.IndexType][]byte{abi.OffsetIndex: seg.OffsetIndex, abi.TimeIndex: seg.TimeIndex, abi.TransactionIndex: seg.TxnIndex,
		abi.LeaderEpochIndex: seg.Epochs, abi.ProducerSnapshot: seg.Snapshot}[t]
	switch {
	case b == nil && t != abi.OffsetIndex && t != abi.TimeIndex:
		return nil, abi.Errorf("fetch_index", m.Key(), abi.NotFound, "the segment has no %s index", t)
	case len(b) == 0:
		return s.source(b, b, 0), nil
	}
	return s.answer(b, abi.Range{End: abi.ToEnd})
}

func (s *Store) called(ctx context.Context, c Call) (*kafkabytes.Segment, error) {
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.mu.Unlock()
	if s.Before != nil {
		if err := s.Before(ctx, c); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	seg, ok := s.segment[c.Segment]
	s.mu.Unlock()
	if !ok {
		return nil, abi.Errorf("fetch", c.Segment.String(), abi.NotFound, "no such segment")
	}
	return seg, nil
}

func (s *Store) answer(b []byte, r abi.Range) (*abi.Source, error) {
	r, err := r.Clamp(int64(len(b)))
	if err != nil {
		return nil, err
	}
	return s.source(b, b[r.Start:r.End+1], int64(len(b))), nil
}

func (s *Store) source(whole, part []byte, size int64) *abi.Source {
	src := &abi.Source{OriginalSize: size}
	if s.NoSize {
		src.OriginalSize = -1
	}
	switch s.Form {
	case Stream:
		s.mu.Lock()
		s.open++
		s.mu.Unlock()
		src.Stream = &stream{Reader: bytes.NewReader(part), store: s}
	case Ranged:
		src.Location = &abi.Location{Scope: abi.ScopeRange, Parts: inline(part)}
	default:
		src.Location = &abi.Location{Scope: abi.ScopeObject, Parts: inline(whole)}
	}
	return src
}

func inline(b []byte) []abi.Part {
	parts := []abi.Part{{Inline: b[:min(len(b), maxPart)]}}
	for b = b[len(parts[0].Inline):]; len(b) > 0; b = b[min(len(b), maxPart):] {
		parts = append(parts, abi.Part{Inline: b[:min(len(b), maxPart)]})
	}
	return parts
}

// stream is an open stream of a Store.
type stream struct {
	io.Reader
	store *Store
	once  sync.Once
}

func (s *stream) Close() error {
	s.once.Do(func() {
		s.store.mu.Lock()
		defer s.store.mu.Unlock()
		s.store.open--
	})
	return nil
}
