package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rsmhost/rsmhost/host/trace"
)

// The columns of a trace: "  locality    remote        log start 0, ...        0.01 ms  ▇▇".
const (
	nameWidth    = 10
	outcomeWidth = 12
	barWidth     = 12
)

// ink colours text for a terminal; the zero value leaves it as it is.
type ink struct{ on bool }

func (i ink) paint(code, s string) string {
	if !i.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (i ink) dim(s string) string  { return i.paint("2", s) }
func (i ink) bold(s string) string { return i.paint("1", s) }
func (i ink) red(s string) string  { return i.paint("31", s) }
func (i ink) cyan(s string) string { return i.paint("36", s) }

// writeTrace writes the steps of a read under a title, each with its time and a bar of its share of the whole.
func writeTrace(w io.Writer, title string, t *trace.Trace) error {
	paint := ink{isTerminal(w)}
	steps := t.Steps()
	width, longest := 0, time.Duration(1)
	for _, s := range steps {
		if s.Err == nil {
			width = max(width, min(utf8.RuneCountInString(s.Detail), 96))
		}
		if s.Name != "answer" {
			longest = max(longest, s.Took)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n", paint.bold(title))
	for i, s := range steps {
		if i > 1 && beginsTier(s, steps[i-1]) {
			b.WriteByte('\n')
		}
		writeStep(&b, paint, s, width, longest)
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// beginsTier says where a read goes on into another segment, or to what follows them all: there a line is left empty.
func beginsTier(s, before trace.Step) bool {
	switch s.Name {
	case "epoch":
		return before.Name != "locality"
	case "aborted", "answer":
		return before.Name != "aborted"
	case "local":
		return before.Name != "local" && before.Name != "locality"
	}
	return false
}

func writeStep(b *bytes.Buffer, paint ink, s trace.Step, width int, longest time.Duration) {
	name, outcome, detail := pad(s.Name, nameWidth), pad(s.Outcome, outcomeWidth), s.Detail
	if s.Err != nil {
		// A sentence is not cut to a column: it goes last.
		fmt.Fprintf(b, "  %s  %s  %s\n", paint.bold(name), paint.red(outcome), paint.red(detail))
		return
	}
	bar := ""
	if s.Name != "answer" {
		bar = strings.Repeat("▇", int(int64(barWidth)*int64(s.Took)/int64(longest)))
	}
	line := fmt.Sprintf("  %s  %s  %s  %8s  %s", paint.bold(name), paint.cyan(outcome), pad(detail, width), millis(s.Took), paint.dim(bar))
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-utf8.RuneCountInString(s)))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// span is a step as JSON.
type span struct {
	Name       string         `json:"name"`
	Outcome    string         `json:"outcome"`
	Detail     string         `json:"detail"`
	StartUs    int64          `json:"startUs"`
	DurationUs int64          `json:"durationUs"`
	Attributes map[string]any `json:"attributes,omitempty"`
	Error      string         `json:"error,omitempty"`
}

// traceDoc is a trace as JSON.
type traceDoc struct {
	RequestID string `json:"requestId"`
	Spans     []span `json:"spans"`
}

func spansOf(t *trace.Trace) *traceDoc {
	if t == nil {
		return nil
	}
	doc := &traceDoc{RequestID: t.ID}
	for _, s := range t.Steps() {
		sp := span{Name: s.Name, Outcome: s.Outcome, Detail: s.Detail, StartUs: s.Start.Microseconds(), DurationUs: s.Took.Microseconds()}
		for _, a := range s.Attrs {
			if sp.Attributes == nil {
				sp.Attributes = map[string]any{}
			}
			sp.Attributes[a.Key] = a.Value
		}
		if s.Err != nil {
			sp.Error = s.Err.Error()
		}
		doc.Spans = append(doc.Spans, sp)
	}
	return doc
}
