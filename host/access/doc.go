// Package access says who a client is and what it may do: TLS with client certificates, SASL (PLAIN, SCRAM-SHA-256 and
// SCRAM-SHA-512) against a file of verifiers, and a file of rules. It knows no message of the Kafka protocol: host/server
// carries tokens and asks.
//
// # Decisions and files
//
// Rules, Users and Exchange are decisions over bytes, without I/O. Access reads the files behind them, and again when they
// change: a file is looked at when somebody asks, at most once a second. What is new and wrong is said once in the log, and
// what was good before stays in force.
//
// # Concurrency
//
// An Access, Rules and Users are safe for concurrent use. An Exchange belongs to one connection.
//
// # Errors
//
// Errors of files are INVALID with the line, or the file's own kind. A client that is not let in is AUTH: the sentence is
// for the log, and must not be told to the client, who hears the same whatever was wrong.
package access
