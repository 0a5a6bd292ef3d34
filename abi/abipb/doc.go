// Package abipb is the contract on the wire: the generated code of rsm.proto, conversions between its messages and the
// types of package abi, and what the two ends of the process form share.
//
// # Errors
//
// A *abi.Error crosses as a gRPC status and comes back equal. Its retry hint crosses in whole milliseconds, and its words
// as valid UTF-8.
package abipb
