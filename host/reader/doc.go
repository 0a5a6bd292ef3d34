// Package reader is the read path of a broker with tiered storage: a Fetch in, record batches out. It decides with
// host/locality, finds the segment with host/rlmm, the position with host/indexcache, and moves the bytes with
// host/transfer or host/locallog, under one byte budget over the partitions of a request.
//
// # Concurrency
//
// A Reader is safe for concurrent use. A FetchResponse belongs to its caller, who releases it.
//
// # Errors
//
// A Fetch has no error of its own: each partition carries Kafka's code and the error behind it.
package reader
