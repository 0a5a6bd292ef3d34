// Package server is a Host as a Kafka broker: clients connect, list topics and read what lies in the remote tier, in a
// local log directory or in both, without knowing. It is read-only: what would write is refused at once, with the
// protocol's error.
//
// It coordinates consumer groups too, by package coordinator: what they commit is the one thing that clients can change.
//
// Who connects, and what it may do, is host/access's to say: TLS and SASL are asked for before anything else is served, and
// each request is held against the rules in force when it is answered.
//
// # Concurrency
//
// A Server is safe for concurrent use. A connection has two goroutines: one reads requests ahead, one answers them in
// their order. Shutdown and Close wait for all of them.
//
// # Errors
//
// What is wrong with a partition is an answer with Kafka's code, and a line in the log. A connection is closed, with a
// line in the log, only where the protocol is broken: a size that can't be, bytes that are no request, an api key or a
// version that is not served; or where a client does not prove who it is.
package server
