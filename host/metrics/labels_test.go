package metrics

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestLabelsAreText: names that are no text, and names that are the same as text, are series of their own.
func TestLabelsAreText(t *testing.T) {
	seen := map[string]bool{}
	var got []string
	for _, l := range []string{"orders", "\xff", `\xff`, "a\x00b\xfe", "orders"} {
		got = append(got, distinct(seen, []string{l})[0])
	}
	if want := []string{"orders", `\xff`, `\xff'`, `a\x00b\xfe`, "orders'"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if out := distinct(map[string]bool{}, nil); len(out) != 0 {
		t.Errorf("%q", out)
	}
}

// broken is a metric that can't be told.
type broken struct{}

func (broken) Describe(chan<- *prometheus.Desc) {}

func (broken) Collect(ch chan<- prometheus.Metric) {
	d := prometheus.NewDesc("rsmhost_broken", "", nil, nil)
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 1)
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 2)
}

// TestScrapeWithoutAMetric: one that can't be told keeps no others away.
func TestScrapeWithoutAMetric(t *testing.T) {
	w := start(t)
	w.registry.MustRegister(broken{})
	answer := httptest.NewRecorder()
	w.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 || !strings.Contains(answer.Body.String(), "rsmhost_partitions") {
		t.Errorf("%d: %.300s", answer.Code, answer.Body)
	}
}
