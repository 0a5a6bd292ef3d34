// Package wasm holds the words of the contract's WebAssembly form, rsm-wasm/1: what a module exports and imports, the
// result word, and a codec for the documents that cross. Host and guest import the same package, so that neither can
// drift from the other.
//
// A document is a protobuf message of abipb/rsm.proto. The codec is written by hand, for the few messages that cross and
// straight to and from the types of package abi: google.golang.org/protobuf and its generated messages triple a guest
// and its time to compile (7.7 MB and 3.2 s against 2.6 MB and 1.0 s, measured), and need reflection that other
// compilers than Go's lack. A test holds the two codecs equal.
//
// # Errors
//
// Every Decode function returns an *abi.Error of kind INVALID for bytes that are no such document, and no value then;
// UNSUPPORTED for a document of a newer peer that cannot be understood without what is new in it.
// Unknown fields are skipped. What is decoded never aliases the bytes it came from.
package wasm
