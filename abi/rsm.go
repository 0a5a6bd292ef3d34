package abi

import "context"

// RemoteStorageManager is the read half of KIP-405's interface of that name, and all that a plugin must implement.
//
// An implementation may rely on: seg is not nil and not changed while the call runs; ctx carries the caller's
// deadline; it was configured before the first call. It must: be safe for concurrent use; return when ctx is done; keep
// nothing of seg after it returns; never answer an absent object with empty bytes.
type RemoteStorageManager interface {
	// FetchLogSegment answers with where bytes r of the segment's log lie, or with the bytes (ABI.md, section 2).
	// Errors: NOT_FOUND when the segment as a whole is missing, CORRUPT when only its log is, INVALID for a range that
	// Range.Clamp refuses.
	FetchLogSegment(ctx context.Context, seg *SegmentMetadata, r Range) (*Source, error)

	// FetchIndex does the same for one of the segment's indexes, always whole. Errors: NOT_FOUND for an index that the
	// segment never had and for a segment that is missing as a whole, CORRUPT for one that it must have.
	FetchIndex(ctx context.Context, seg *SegmentMetadata, t IndexType) (*Source, error)
}

// Prober is what a RemoteStorageManager may implement beside: a cheap self-test against the store.
type Prober interface {
	// Probe returns nil when the store answers as configured, else an *Error for the person who configured it.
	Probe(ctx context.Context) error
}
