package format

import "fmt"

// ControlType is the type of a control record (KIP-98). Consumers ignore the types that are not declared here; KRaft
// and share groups have more.
type ControlType int16

// The control types that end a transaction.
const (
	ControlAbort  ControlType = 0
	ControlCommit ControlType = 1
)

// String is Kafka's name of the type.
func (t ControlType) String() string {
	switch t {
	case ControlAbort:
		return "ABORT"
	case ControlCommit:
		return "COMMIT"
	}
	return fmt.Sprintf("CONTROL(%d)", int16(t))
}

// ControlRecord reads the type from the key of a control batch's record: i16 version, i16 type. As in Kafka a version
// above 0 is read as if it were 0. A key that is too short and a negative version are CORRUPT.
func ControlRecord(key []byte) (ControlType, error) {
	c := cursor{b: key}
	version, t := c.i16("version"), c.i16("type")
	if version < 0 {
		c.failAt(0, "version %d", version)
	}
	return ControlType(t), c.err("key of a control record")
}

// EndOfTransaction reads the marker of a control batch, b, whole: whether it ends a transaction, and whether by aborting it.
// Compaction empties the marker of a transaction that it has nothing to say of any more: that ends it as a commit does. Control
// records of other kinds end none. Errors: those of ControlOf.
func EndOfTransaction(b []byte) (abort, ends bool, err error) {
	t, ok, err := ControlOf(b)
	if err != nil || !ok {
		return false, err == nil, err
	}
	return t == ControlAbort, t == ControlAbort || t == ControlCommit, nil
}

// ControlOf reads the type of a control batch, the one at the start of b. It reports false for one that compaction emptied.
// Kafka compresses none, and one that is compressed is CORRUPT: nothing is inflated for it. Other errors: those of Records and
// ControlRecord.
func ControlOf(b []byte) (ControlType, bool, error) {
	h, err := ParseBatchHeader(b)
	if err != nil {
		return 0, false, cutBatch(err, len(b))
	}
	if h.Codec() != CodecNone && h.Count != 0 {
		return 0, false, corrupt(h.name(), "a control batch that is compressed with %s", h.Codec())
	}
	recs, err := Records(b, 0)
	if err != nil || len(recs) == 0 {
		return 0, false, err
	}
	t, err := ControlRecord(recs[0].Key)
	return t, err == nil, err
}
