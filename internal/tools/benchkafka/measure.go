package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// server is one of the two.
type server struct {
	address string
	pid     int
}

// sample is what rawfetch prints of one pass.
type sample struct {
	Bytes     int64   `json:"bytes"`
	MBs       float64 `json:"mb_per_second"`
	P99ms     float64 `json:"p99_ms"`
	CPUPerGiB float64 `json:"server_cpu_seconds_per_gib"`
	RSSMiB    float64 `json:"server_rss_mib"`
	Cut       bool    `json:"cut_by_deadline"`
}

// pass is one way of reading.
type pass struct {
	name string
	args []string
}

var passes = []pass{
	{"remote, 1 partition", []string{"-t", big, "-p", "0"}},
	{"remote, 4 partitions", []string{"-t", big, "-p", "0,1,2,3"}},
	{"local, 1 partition", []string{"-t", near, "-p", "0", "-to", "-1"}},
	{"local, 4 partitions", []string{"-t", near, "-p", "0,1,2,3", "-to", "-1"}},
}

type measuring struct {
	client      string
	rounds      int
	kafka, ours server
	progress    io.Writer
}

// all measures every pass, in turns, and prints the table.
func (m *measuring) all(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "%-22s %-14s %10s %10s   %s\n", "", "", "Kafka", "rsmhost", "ratio, median (least to greatest)")
	for _, p := range passes {
		kafka, ours, err := m.turns(ctx, p)
		if err != nil {
			return err
		}
		print := func(what string, of func(sample) float64) {
			r := ratios(kafka, ours, of)
			fmt.Fprintf(out, "%-22s %-14s %10.2f %10.2f   %.2fx (%.2f to %.2f)\n", p.name, what, median(figures(kafka, of)), median(figures(ours, of)), median(r), slices.Min(r), slices.Max(r))
		}
		print("MB/s", func(s sample) float64 { return s.MBs })
		print("CPU s/GiB", func(s sample) float64 { return s.CPUPerGiB })
		print("p99 ms", func(s sample) float64 { return s.P99ms })
		print("resident MiB", func(s sample) float64 { return s.RSSMiB })
	}
	return nil
}

// remoteAlone reads the remote tier of rsmhost alone, for a profile.
func (m *measuring) remoteAlone(ctx context.Context, out io.Writer) error {
	for range m.rounds {
		s, err := m.once(ctx, m.ours, passes[1])
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %.0f MB/s, %.2f CPU s/GiB\n", passes[1].name, s.MBs, s.CPUPerGiB)
	}
	return nil
}

// turns measures a pass of both in turns, after two rounds that warm them up.
func (m *measuring) turns(ctx context.Context, p pass) (kafka, ours []sample, err error) {
	for i := range m.rounds + 2 {
		fmt.Fprintf(m.progress, "%s: round %d of %d\n", p.name, i+1, m.rounds+2)
		k, err := m.once(ctx, m.kafka, p)
		if err != nil {
			return nil, nil, fmt.Errorf("the broker: %w", err)
		}
		o, err := m.once(ctx, m.ours, p)
		if err != nil {
			return nil, nil, fmt.Errorf("rsmhost: %w", err)
		}
		if k.Bytes != o.Bytes && !k.Cut && !o.Cut && abs(k.Bytes-o.Bytes) > k.Bytes/50 {
			return nil, nil, fmt.Errorf("%s: Kafka gave %d bytes and rsmhost %d", p.name, k.Bytes, o.Bytes)
		}
		if i >= 2 {
			kafka, ours = append(kafka, k), append(ours, o)
		}
	}
	return kafka, ours, nil
}

func abs(n int64) int64 { return max(n, -n) }

func (m *measuring) once(ctx context.Context, s server, p pass) (sample, error) {
	out, err := command(ctx, m.client, append([]string{"-b", s.address, "-pid", strconv.Itoa(s.pid), "-limit", "1m"}, p.args...)...).Output()
	if err != nil {
		return sample{}, fmt.Errorf("rawfetch: %w", err)
	}
	var got sample
	if err := json.Unmarshal(out, &got); err != nil {
		return sample{}, err
	}
	if got.Bytes == 0 {
		return sample{}, fmt.Errorf("%s: nothing was read", p.name)
	}
	return got, nil
}

func figures(of []sample, value func(sample) float64) []float64 {
	var out []float64
	for _, s := range of {
		out = append(out, value(s))
	}
	return out
}

// ratios are ours to Kafka's, round by round.
func ratios(kafka, ours []sample, value func(sample) float64) []float64 {
	var out []float64
	for i := range kafka {
		out = append(out, value(ours[i])/value(kafka[i]))
	}
	return out
}

func median(of []float64) float64 {
	of = slices.Clone(of)
	slices.Sort(of)
	return of[len(of)/2]
}
