// Package config puts a host's configuration together: defaults, a YAML file over them, environment variables over that,
// flags over all; and it keeps where each value came from.
//
// A key that Kafka has keeps Kafka's name. The table Keys is the one place where keys are declared: file, environment,
// flags and help are made from it.
//
// # Errors
//
// INVALID, with the key as subject and the file's line where there is one.
package config
