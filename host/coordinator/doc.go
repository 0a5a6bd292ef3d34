// Package coordinator is what consumer groups need: members and their assignment, of the classic protocol and of KIP-848,
// and the offsets that they commit.
//
// Members are kfake's, franz-go's broker for tests, which runs in this process: no port leads to it, each client has a
// connection of its own in memory. It is told of the topics that are served and makes up their ids; no message lets one of
// those out, clients see and send the real ones. Offsets are not kfake's but this package's, by the topic's real id, in one
// file whose writes are synced before they are acknowledged: see the store.
//
// # Concurrency
//
// A Coordinator is safe for concurrent use. A Session belongs to one connection of a client and takes one request at a
// time, as a broker does; Close may be called while one runs.
//
// # Errors
//
// What is wrong with a request is an answer with Kafka's code. What is wrong inside is COORDINATOR_NOT_AVAILABLE, after
// which clients try again, and a line in the log.
package coordinator
