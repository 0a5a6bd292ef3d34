// Package host is the remote-fetch read path of Apache Kafka's tiered storage (KIP-405) for programs that embed it: Open
// gives a Host, and a Host answers fetches from the remote tier, a local log directory, or both.
//
// # Concurrency
//
// A Host is safe for concurrent use until Close.
//
// # Errors
//
// *abi.Error, written for the person who must act.
package host
