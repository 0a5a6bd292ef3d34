// Package indexcache keeps the indexes of remote segments: on disk, where they outlive the process, and in memory while
// they are hot. Each index is fetched by itself and only when a read needs it, once however many reads wait for it.
//
// # Files
//
// "<startOffset>_<segmentId>" with Kafka's suffix for the index, holding the index and a trailer of 12 bytes: "rsmi",
// CRC-32C and length of the index, big-endian. A file that does not check out is a miss. A file is written under a name
// ending in ".tmp" and renamed. Files with other names are left alone.
//
// # Concurrency
//
// A Cache is safe for concurrent use. What it returns is immutable and stays valid whatever the cache does.
//
// # Errors
//
// Those of the loader, unchanged, and CORRUPT for an index that is damaged as the store gave it, twice. A damaged or
// unwritable cache never fails a read.
package indexcache
