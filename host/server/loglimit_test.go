package server

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// TestLinesOfAKindAreBounded: some are written, then one says how many were not; other kinds are written beside.
func TestLinesOfAKindAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncBuffer
		limit := newLogLimit(slog.NewTextHandler(&out, nil))
		log := slog.New(limit)
		derived := log.With("part", "inside")
		for i := range 1000 {
			log.WarnContext(inKind("a reason"), "a peer did it", "from", i)
			derived.WarnContext(inKind("a reason"), "a peer did it", "from", i)
		}
		log.WarnContext(inKind("another"), "a peer did it")
		log.Info("a peer did it")
		log.Debug("not enabled")
		if n := strings.Count(out.String(), "\n"); n != linesMax+2 {
			t.Errorf("%d lines", n)
		}
		time.Sleep(lineTime)
		synctest.Wait()
		said := out.String()[strings.LastIndex(strings.TrimSpace(out.String()), "\n")+1:]
		for _, want := range []string{"level=WARN", `line="a peer did it"`, `kind="a reason"`, "left_out=1980", "written=20", "within=1m0s"} {
			if !strings.Contains(said, want) {
				t.Errorf("no %s in %s", want, said)
			}
		}
		log.WarnContext(inKind("a reason"), "a peer did it", "from", "later")
		if !strings.Contains(out.String(), "from=later") {
			t.Error("after its time the next is not written")
		}
		for range linesMax + 4 {
			log.WarnContext(inKind("a reason"), "a peer did it")
		}
		limit.lines.close()
		if !strings.Contains(out.String(), "left_out=5 ") {
			t.Errorf("at the end nobody says what was left out: %s", said)
		}
	})
}

// TestKindsOfLinesAreBounded: messages that are made of what a peer sent don't grow what is kept of them.
func TestKindsOfLinesAreBounded(t *testing.T) {
	var out syncBuffer
	limit := newLogLimit(slog.NewTextHandler(&out, nil))
	for i := range 3 * lineKindsMax {
		slog.New(limit).Warn(fmt.Sprint("made of ", i))
	}
	if n := len(limit.lines.kinds); n > lineKindsMax+1 {
		t.Errorf("%d kinds", n)
	}
	if n := strings.Count(out.String(), "\n"); n != lineKindsMax+linesMax {
		t.Errorf("%d lines", n)
	}
	limit.lines.close()
}

// TestFloodOfBrokenConnections: each is closed and counted, and the log stays short.
func TestFloodOfBrokenConnections(t *testing.T) {
	v := serve(t, local, Options{})
	const n = 200
	for range n {
		w := v.dial(t)
		w.send(header(999, 0))
		w.nc.Close()
	}
	hammer.Eventually(t, 10*time.Second, func() bool { return v.Stats().Broken == n })
	if lines := strings.Count(v.log.String(), "a connection is closed"); lines != linesMax {
		t.Errorf("%d lines", lines)
	}
}

// TestRefusedConnectionsSayWhatToRaise: once for many.
func TestRefusedConnectionsSayWhatToRaise(t *testing.T) {
	for setting, o := range map[string]Options{"max.connections": {MaxConnections: 1}, "max.connections.per.ip": {MaxConnectionsPerIP: 1}} {
		v := serve(t, local, o)
		v.dial(t)
		hammer.Eventually(t, 10*time.Second, func() bool { return v.Connections() == 1 })
		const n = 100
		for range n {
			nc, err := net.Dial("tcp", v.address)
			if err != nil {
				t.Fatal(err)
			}
			nc.Close()
		}
		hammer.Eventually(t, 10*time.Second, func() bool { return v.Stats().Refused == n })
		if log := v.log.String(); strings.Count(log, "too many") != 1 || !strings.Contains(log, "raise "+setting+" ") || !strings.Contains(log, setting+"=1") {
			t.Errorf("%s: the log says %s", setting, log)
		}
	}
}
