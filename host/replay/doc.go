// Package replay holds recorded answers of a broker against a host. A case is one JSON object on a line: a request, and
// what a broker answered to it. Cases are told apart by their fields, not by the name of the file.
//
// Exact compares every field and the SHA-256 of the records: for a host that answers as Kafka does. Better compares what
// must hold for a host that may answer better; the table Tolerances says what may differ, and why. AsRecorded takes both.
//
// # Errors
//
// INVALID for a line that is no case, UNSUPPORTED for a kind of case that this version does not replay; both name the
// line.
package replay
