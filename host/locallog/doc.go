// Package locallog is the local tier: a Kafka log directory, opened read-only. It works out what a broker would on start
// (log end, high watermark, last stable offset, leader epochs) from the files, and finds the bytes of an offset.
//
// Nothing is ever written below a log directory.
//
// # Concurrency
//
// A Dir and its Logs are safe for concurrent use until Close.
//
// # Errors
//
// *abi.Error: NOT_FOUND and DENIED for what can't be opened, CORRUPT for bytes that are not Kafka's, each with the path; UNAVAILABLE
// with ErrHole for offsets that are missing.
// What a broker would repair on start (a torn tail, a broken index) is no error, and neither is what is lost and can be told by the
// rest: Dir and Log name it in Findings, and Dir.Report what a read meets later. What makes a partition unreadable is its Log's Err,
// and no reason not to open the others.
package locallog
