//go:build !plantedbug

package planted

// The planted bugs.
const (
	NestedHole    = false // a lookup is Kafka's: a segment inside another hides the offsets behind it
	SkippedBatch  = false // a read that goes on into another segment loses its first batch
	DeadLineage   = false // a read goes on into what a fenced leader wrote
	NoTxnIndex    = false // the transaction indexes of the remote tier are not looked at
	CutTooLate    = false // an answer ends with a batch that exceeds the limit by one byte
	UncheckedCRCs = false // the CRC of a batch is not checked
)
