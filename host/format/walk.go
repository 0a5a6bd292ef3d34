package format

import "io"

// Walker steps over whole batches that lie one after another, as in a log segment or a fetch answer.
//
//	w := format.Walk(b)
//	for w.Next() {
//		use(w.Header(), w.Bytes())
//	}
//	err, cut := w.Err(), w.Rest()
//
// It allocates nothing. It looks at headers alone: VerifyBatch checks a batch's content.
type Walker struct {
	b    []byte
	pos  int64 // of the current batch
	next int64 // of the one after it
	h    BatchHeader
	err  error
}

// Walk begins before the first batch in b.
func Walk(b []byte) Walker { return Walker{b: b} }

// Next goes to the next batch. It reports false at the end, at a batch that b does not hold whole, and at one whose
// header is damaged; only the last is an error (Err).
func (w *Walker) Next() bool {
	w.pos = w.next
	if w.err != nil {
		return false
	}
	h, err := ParseBatchHeader(w.b[w.pos:])
	if err == io.ErrUnexpectedEOF {
		return false
	}
	if err != nil {
		w.err = err
		return false
	}
	if h.Size() > int64(len(w.b))-w.pos {
		return false
	}
	w.h, w.next = h, w.pos+h.Size()
	return true
}

// Header is the current batch's header, good until the next call of Next.
func (w *Walker) Header() *BatchHeader { return &w.h }

// Bytes is the current batch, whole: a part of what Walk was given.
func (w *Walker) Bytes() []byte { return w.b[w.pos:w.next:w.next] }

// Pos is the position of the current batch in b; after Next reported false, that of Rest.
func (w *Walker) Pos() int64 { return w.pos }

// Rest is what was not walked, once Next reported false: empty, a cut batch, or everything from the bad one on.
func (w *Walker) Rest() []byte { return w.b[w.next:] }

// Err is the damage that ended the walk: CORRUPT, or nil.
func (w *Walker) Err() error { return w.err }
