// Package fetchsession keeps fetch sessions (KIP-227): what clients ask for again and again, so that they need not name it
// each time, and what they were told last, so that they hear of what is new alone. It does no I/O and reads nothing.
//
// # Concurrency
//
// A Cache is safe for concurrent use. Requests of one session that overlap are told apart by its epoch: the second is
// INVALID_FETCH_SESSION_EPOCH.
//
// # Errors
//
// They are the protocol's codes, after which a client begins with a whole request.
package fetchsession
