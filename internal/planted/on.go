//go:build plantedbug

package planted

// The planted bugs.
var (
	NestedHole    bool // a lookup is Kafka's: a segment inside another hides the offsets behind it
	SkippedBatch  bool // a read that goes on into another segment loses its first batch
	DeadLineage   bool // a read goes on into what a fenced leader wrote
	NoTxnIndex    bool // the transaction indexes of the remote tier are not looked at
	CutTooLate    bool // an answer ends with a batch that exceeds the limit by one byte
	UncheckedCRCs bool // the CRC of a batch is not checked
)
