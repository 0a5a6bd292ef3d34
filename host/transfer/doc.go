// Package transfer turns a Source into bytes. A Source of a plugin says where an object lies, or carries it; whoever
// reads here sees an object with ReadAt and never which of the two it was.
//
// # One request for many reads
//
// A location that is good for the whole log of a segment is asked for once and kept, once it could be opened; it is asked
// for again where what it leads to is not there, can't be read, or is not what was promised. What a stream or a location of a range brings
// is shared by the reads that run at that moment and overlap: see stretch.go.
//
// # Further tries
//
// What may pass (Kind.Retriable) is tried again up to three times within the context, after the pause that the store asked
// for, or one that doubles; a stream that broke goes on at its next byte, and an object that changed meanwhile is
// PRECONDITION. Damaged bytes are asked for a second time. This is the only place that does so.
//
// # Concurrency
//
// A Mover is safe for concurrent use. An Object belongs to one read.
//
// # Errors
//
// Those of the plugin, unchanged, and *abi.Error of the kinds DENIED (a location outside the grants), CORRUPT (fewer
// bytes than promised), UNSUPPORTED (a location that this host can't move), INVALID (a range outside the object).
package transfer
