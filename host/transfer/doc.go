// Package transfer turns a Source into bytes. A Source of a plugin says where an object lies, or carries it; whoever
// reads here sees an object with ReadAt and never which of the two it was.
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
