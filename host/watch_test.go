package host

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/host/reader"
	"github.com/rsmhost/rsmhost/host/trace"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// TestSlowRead: a read that took longer than the bound is logged with its steps; with a bound of 0 none is.
func TestSlowRead(t *testing.T) {
	var log bytes.Buffer
	seg := tens(t, tp("orders", 1), 11, 0, 2, 0)
	h := open(t, Config{RSM: memrsm.New(memrsm.Inline, seg), Metadata: metadata(t, finished(seg)...), SlowRead: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	want(t, "the read", read(t, h, from("orders", 10)), "NONE [10]")
	line := regexp.MustCompile(`msg="slow read" request="" client="" partition=orders-0 offset=10 ms=\d+ code=NONE bytes=100 late=false steps="locality remote 10 \d+\.\d\dms, ` +
		`epoch [^"]*segment [^"]*index miss \d+ [^"]*position [^"]*source location [^"]*transfer [^"]*batches 1 [^"]*answer NONE 100 [^"]*" untold=0`)
	if !line.MatchString(log.String()) {
		t.Errorf("logged %s", log.String())
	}
	h.Adjust(Live{})
	log.Reset()
	want(t, "again", read(t, h, from("orders", 10)), "NONE [10]")
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
	if s := h.Stats(); s.SlowReads != 1 || s.Steps["answer"].Count != 2 || s.Steps["index"].Count != 2 {
		t.Errorf("%d slow reads, steps %+v", s.SlowReads, s.Steps)
	}
}

// TestSlowReadsAreTold: one a second, and the next says how many were not. What an earlier request began counts with the time
// that it took.
func TestSlowReadsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := &watch{}
		w.begin(slog.New(slog.NewTextHandler(&log, nil)), time.Second)
		r := reader.Watched{Request: &reader.FetchRequest{}, Asked: &reader.FetchPartition{}, Answer: &reader.PartitionData{}}
		r.Steps = []trace.Brief{{Name: "transfer", Took: 3 * time.Second}, {Name: "answer", Took: time.Millisecond}}
		for range 3 {
			w.read(r)
		}
		time.Sleep(slowEvery)
		w.read(r)
		r.Steps = []trace.Brief{{Name: "answer", Took: time.Second - 1}}
		w.read(r)
		if got := log.String(); strings.Count(got, "slow read") != 2 || !strings.Contains(got, "ms=3000") || !strings.Contains(got, "untold=2") {
			t.Errorf("logged %s", got)
		}
		if n := w.found.Load(); n != 4 {
			t.Errorf("%d slow reads", n)
		}
	})
}

// TestLookStats: a failure has a beginning and an end.
func TestLookStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		l.ended(t.Context(), nil)
		l.ended(ended, context.Canceled) // says nothing
		time.Sleep(time.Second)
		l.ended(t.Context(), context.DeadlineExceeded)
		time.Sleep(time.Second)
		l.ended(t.Context(), context.DeadlineExceeded)
		if s := l.get(); s.Count != 3 || s.Failures != 2 || !s.Good.Equal(began) || !s.FailingSince.Equal(began.Add(time.Second)) || s.Err == nil {
			t.Errorf("failing: %+v", s)
		}
		l.ended(t.Context(), nil)
		if s := l.get(); s.Count != 4 || !s.FailingSince.IsZero() || s.Err != nil {
			t.Errorf("over: %+v", s)
		}
	})
}
