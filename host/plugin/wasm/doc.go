// Package wasm runs a plugin that is a WebAssembly module, in this process: memory and capability sandbox, bounded
// instances. abi/wasm has the words that host and module speak.
//
// A module is vetted by its bytes before it is compiled, gets a runtime of its own, and can reach nothing but the
// functions of package abi/wasm and a WASI of clocks, random bytes and a log: no file system, no network, no
// environment. What it reads of files goes through the directories that its configuration granted.
//
// Calls lease an instance from a pool, one call at a time in an instance. An instance is closed and replaced when it
// trapped, ended itself, overran its time, lied about what it did, or grew past its high-water mark; the call then gets
// one error that names the module and has its last words.
//
// # Trust
//
// A module cannot leave the sandbox, but it runs on this process's threads. Its time is checked at loops only: a tree of
// calls without a loop can outlast any deadline, and since compiled guest code cannot be preempted, it holds up the
// garbage collector with it. Memory is bounded, and the growth of tables is not. A module that nobody vetted belongs into
// a process of its own (placement wasm-isolated).
//
// # Concurrency
//
// A Plugin is safe for concurrent use. No instance and no runtime is closed while a call runs in it: that would be a
// SIGSEGV in generated code.
package wasm
