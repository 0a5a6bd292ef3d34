// Package format reads Apache Kafka's own bytes: record batches of every magic and codec, the indexes and checkpoints
// beside a segment, producer snapshots, and the records of the remote log metadata topic. It writes them as far as
// tests, tools and the re-framing of old batches need it.
//
// It is pure functions over bytes: no I/O, no goroutines, no clock, no state but pools of decompressors. A length or a
// count in the bytes is a claim: nothing is allocated for it before as many bytes stand behind it as could justify it.
//
// # Concurrency
//
// All functions may be called concurrently, also over the same bytes, which they never change. A Walker belongs to one
// goroutine.
//
// # Errors
//
// Every error is an *abi.Error, but for io.ErrUnexpectedEOF of ParseBatchHeader. CORRUPT means damaged bytes,
// UNSUPPORTED a version of a format that this package does not know, EXHAUSTED a batch that decompresses to more than
// the caller allows, INVALID (only from the functions that encode) an argument that the format cannot hold. The text
// names the offset or the position in the bytes; the caller, who knows the file, wraps it.
package format
