package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/server"
	"github.com/rsmhost/rsmhost/host/tally"
)

// Metrics are a host's and a server's metrics.
type Metrics struct {
	host     *host.Host
	server   *server.Server
	version  string
	registry *prometheus.Registry
	now      func() time.Time

	applied, refused atomic.Int64 // reloads of the configuration
}

// New makes the metrics of h and of s, which serves it; version is the program's. Both must outlive it.
func New(h *host.Host, s *server.Server, version string) *Metrics {
	m := &Metrics{host: h, server: s, version: version, registry: prometheus.NewRegistry(), now: time.Now}
	m.registry.MustRegister(collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers scrapes, also where one metric can't be told: all others are.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Gatherer gives what a scrape has.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Reloaded counts a reload of the configuration; ok says that it was applied.
func (m *Metrics) Reloaded(ok bool) {
	if ok {
		m.applied.Add(1)
		return
	}
	m.refused.Add(1)
}

// snapshot is what one scrape is made of.
type snapshot struct {
	host             host.Stats
	server           server.Stats
	plugin           *pluginInfo // nil: none
	version          string
	now              time.Time
	applied, refused int64
}

type pluginInfo struct {
	name, version, file, placement string
	starts                         int64
}

func (m *Metrics) snapshot() *snapshot {
	s := &snapshot{host: m.host.Stats(), server: m.server.Stats(), version: m.version, now: m.now(), applied: m.applied.Load(), refused: m.refused.Load()}
	if p := m.host.Plugin(); p != nil {
		info := p.Info()
		s.plugin = &pluginInfo{info.Name, info.Version, p.File(), string(p.Placement), p.Starts()}
	}
	return s
}

// kind is what a family's values are.
type kind int

const (
	counter   kind = iota
	gauge          // a number that goes up and down
	histogram      // of durations, in seconds
	summary        // of durations without quantiles, in the milliseconds that Kafka's name promises
)

// family is one metric.
type family struct {
	name, help string
	kind       kind
	labels     []string
	get        func(*snapshot) []sample
}

// sample is one series of a family.
type sample struct {
	labels []string
	value  float64
	took   tally.Durations // of a histogram or summary, in place of value
}

// collector makes metrics of families.
type collector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for i := range families {
		ch <- families[i].desc()
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.m.snapshot()
	for i := range families {
		f := &families[i]
		desc := f.desc()
		seen := map[string]bool{}
		for _, x := range f.get(s) {
			x.labels = distinct(seen, x.labels)
			ch <- f.metric(desc, x)
		}
	}
}

// distinct gives labels as a scrape can have them, and as no other series of the family has them: names come from clients and from
// metadata, and a scrape with one that is no text, or with one twice, would be none.
func distinct(seen map[string]bool, labels []string) []string {
	out := make([]string, len(labels))
	for i, l := range labels {
		out[i] = valid(l)
	}
	for key := strings.Join(out, "\x00"); seen[key]; key = strings.Join(out, "\x00") {
		out[0] += "'"
	}
	if len(out) > 0 {
		seen[strings.Join(out, "\x00")] = true
	}
	return out
}

// valid is a label as text: bytes that are none are written as Go writes them.
func valid(label string) string {
	if utf8.ValidString(label) {
		return label
	}
	quoted := strconv.Quote(label)
	return quoted[1 : len(quoted)-1]
}

func (f *family) desc() *prometheus.Desc { return prometheus.NewDesc(f.name, f.help, f.labels, nil) }

func (f *family) metric(d *prometheus.Desc, x sample) prometheus.Metric {
	switch f.kind {
	case histogram:
		buckets := map[float64]uint64{}
		for i, bound := range tally.Bounds {
			buckets[bound.Seconds()] = uint64(x.took.Buckets[i])
		}
		return prometheus.MustNewConstHistogram(d, uint64(x.took.Count), x.took.Sum.Seconds(), buckets, x.labels...)
	case summary:
		return prometheus.MustNewConstSummary(d, uint64(x.took.Count), float64(x.took.Sum)/float64(time.Millisecond), nil, x.labels...)
	case gauge:
		return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, x.value, x.labels...)
	}
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, x.value, x.labels...)
}
