// Package rlmm is the remote log metadata manager (RLMM): which tiered segment holds (leader epoch, offset). It applies
// the events of Kafka's remote log metadata topic (KIP-405) to a state machine a partition, and answers lookups.
//
// # Concurrency
//
// A Store and its Partitions are safe for concurrent use: lookups see either all of an event or nothing of it.
//
// # Errors
//
// Reading a source fails only where nothing can be read. A record or a transition that Kafka would drop is dropped, counted
// and named in the Report.
package rlmm
