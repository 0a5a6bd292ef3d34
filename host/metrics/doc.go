// Package metrics shows what a host and its server count in the form of Prometheus.
//
// Nothing is counted here, but for reloads: each scrape asks the rooms for their Stats. Names that begin with kafka_ are those of a broker's own
// metrics as the JMX exporter writes them (docs/metrics.md), so that a dashboard of tiered storage shows a host as it shows
// a broker; the others are the host's own and begin with rsmhost_. Every series that can be known is there from the
// start, with zero; those of a topic leave with it.
//
// # Concurrency
//
// Everything here is safe for concurrent use.
package metrics
