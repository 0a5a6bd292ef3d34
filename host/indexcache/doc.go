// Package indexcache keeps the indexes of remote segments: on disk, where they outlive the process, and in memory while
// they are hot. Each index is fetched by itself and only when a read needs it, once however many reads wait for it.
//
// # Files
//
// "<startOffset>_<segmentId>" with Kafka's suffix for the index, holding the index and a trailer of 12 bytes: "rsmi",
// CRC-32C and length of the index, big-endian. A file that does not check out is a miss, and goes. A file is written under
// a name ending in ".tmp" and renamed. It is not synced to the disk: that costs milliseconds and would make torn files
// rarer, while the trailer makes them harmless. Files with other names are left alone.
//
// # What leaves
//
// An index that nobody asked for within Options.TTL, the one that was not asked for longest where there are too many
// bytes, and those of a segment that was removed. There is no goroutine: what expired leaves when the cache is next used.
// The indexes in memory are counted in Options.Budget, and leave when a read needs the bytes.
//
// # Concurrency
//
// A Cache is safe for concurrent use. What it returns is immutable and stays valid whatever the cache does, also after
// Close: there is nothing to lock, map or reopen.
//
// # Errors
//
// Those of the loader, unchanged; CORRUPT for an index that is damaged as the store gave it, twice; PHASE after Close,
// never an empty index. A damaged or unwritable directory never fails a read.
package indexcache
