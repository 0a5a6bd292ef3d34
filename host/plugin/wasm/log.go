package wasm

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"

	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

const (
	// logPerCall bounds what one call may write to the log, in bytes: a guest that prints in a loop fills no disk.
	logPerCall = 64 << 10
	// lastLines is how many lines an error quotes, and lastText how many bytes of them.
	lastLines = 3
	lastText  = 900
)

// guestLog turns what an instance prints into lines of the plugin's log, and remembers the last ones of the call at hand
// for its error.
type guestLog struct {
	to *slog.Logger

	mu      sync.Mutex
	partial []byte   // a line that has not ended yet
	cutting bool     // the line went over its limit: the rest of it is dropped
	last    []string // the last lines of this call
	verdict string   // the line with which a runtime gave up, if one did
	spent   int      // bytes logged in this call
	dropped int      // lines that were not
}

// begin forgets the call before.
func (l *guestLog) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last, l.verdict, l.spent, l.dropped = l.last[:0], "", 0, 0
}

// end logs a last line that did not end, and says what was dropped.
func (l *guestLog) end(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.partial) > 0 {
		l.printedLocked(ctx)
	}
	if l.dropped > 0 {
		l.to.WarnContext(ctx, "the plugin printed too much in one call", "dropped_lines", l.dropped)
	}
}

// write takes what the guest printed, in pieces of any size.
func (l *guestLog) write(ctx context.Context, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(b) > 0 {
		line, rest, ended := bytes.Cut(b, []byte{'\n'})
		b = rest
		if room := abiwasm.MaxLogLine - len(l.partial); len(line) > room {
			line, l.cutting = line[:room], true
		}
		l.partial = append(l.partial, line...)
		if ended {
			l.printedLocked(ctx)
		}
	}
}

// printedLocked logs the line that was printed. What the runtimes of Go and of others say when they give up is an error.
func (l *guestLog) printedLocked(ctx context.Context) {
	line, cut := string(l.partial), l.cutting
	l.partial, l.cutting = l.partial[:0], false
	level := slog.LevelInfo
	if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
		level = slog.LevelError
		if l.verdict == "" {
			l.verdict = line
		}
	}
	l.logLocked(ctx, level, line, cut)
}

// line takes one whole line with a level.
func (l *guestLog) line(ctx context.Context, level slog.Level, line string, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logLocked(ctx, level, line, cut)
}

func (l *guestLog) logLocked(ctx context.Context, level slog.Level, line string, cut bool) {
	line = strings.ToValidUTF8(strings.TrimRight(line, "\r"), "\uFFFD")
	if line == "" {
		return
	}
	if l.spent += len(line); l.spent > logPerCall {
		l.dropped++
		return
	}
	if len(l.last) == lastLines {
		l.last = append(l.last[:0], l.last[1:]...)
	}
	l.last = append(l.last, line)
	var attrs []slog.Attr
	if cut {
		attrs = append(attrs, slog.Bool("cut", true))
	}
	l.to.LogAttrs(ctx, level, line, attrs...)
}

// words are the last that the guest said in this call, for an error: empty, or in quotes.
func (l *guestLog) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.last
	if l.verdict != "" {
		said = []string{l.verdict}
	}
	if len(said) == 0 {
		return ""
	}
	text := strings.Join(said, " | ")
	if len(text) > lastText {
		text = strings.ToValidUTF8(text[:lastText], "") + "..."
	}
	return `; its last words: "` + text + `"`
}

// levelOf maps the levels of the contract. One that it does not know is Info.
func levelOf(level int32) slog.Level {
	switch level {
	case abiwasm.LogDebug:
		return slog.LevelDebug
	case abiwasm.LogWarn:
		return slog.LevelWarn
	case abiwasm.LogError:
		return slog.LevelError
	}
	return slog.LevelInfo
}
