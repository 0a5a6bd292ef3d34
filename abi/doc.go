// Package abi is the contract between a host of Apache Kafka's tiered storage and the plugin that knows a store: the
// read half of Kafka's RemoteStorageManager (KIP-405) in Go types. ABI.md in this folder is its normative text, for an
// author in any language; abipb holds the same words on the wire, wasm the form for WebAssembly modules, and sdk is
// what a Go author imports.
//
// The package imports the standard library alone and outlives every mechanism that carries it.
//
// # Concurrency
//
// All types are plain values. A RemoteStorageManager must be safe for concurrent use.
//
// # Errors
//
// Every method returns an *Error, or an error that wraps one. An error that does not is INTERNAL.
package abi
