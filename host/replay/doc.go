// Package replay holds recorded answers of a broker against a host. A case is one JSON object on a line: a request, and
// what a broker answered to it. Cases are told apart by their fields, not by the name of the file.
//
// Exact compares every field and the SHA-256 of the records: for a host that answers as Kafka does. Better compares what
// must hold for a host that may answer better; the table Tolerances says what may differ, and why. AsRecorded takes both.
//
// What is compared: the code of a Fetch answer as a whole; of each partition its topic, number, code, offsets, diverging epoch,
// leader, aborted transactions and records; of ListOffsets code, offset, timestamp and leader epoch; of OffsetForLeaderEpoch code,
// epoch and end. An answer over the wire that has another partition than was asked for, or one more, is an error. What is not: the
// throttle time, which says how busy a broker is; session ids, since replays are outside of sessions; the preferred replica and
// the addresses of nodes, which say where a cluster runs; and of an answer to -3 or by time, what OffsetsTolerances says.
//
// # Errors
//
// INVALID for a line that is no case, UNSUPPORTED for a kind of case that this version does not replay; both name the
// line.
package replay
