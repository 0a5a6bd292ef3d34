package server

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// linesMax is how many lines of a kind are written within lineTime; how many were left out is one line more.
	linesMax = 20
	lineTime = time.Minute
	// lineKindsMax bounds the kinds that are known of: those that come then are one kind.
	lineKindsMax = 1000
)

// logLimit is a slog.Handler that bounds what peers can have written: each connection that breaks, each request that is refused
// is a line, and whoever can connect makes thousands of them a second. Lines with one message are of one kind; inKind tells kinds
// of one message apart.
type logLimit struct {
	next  slog.Handler
	lines *lines
}

// lines are those that were written lately, for a logLimit and those that are derived from it.
type lines struct {
	root slog.Handler // what was left out is said there

	mu     sync.Mutex // guards what follows
	kinds  map[lineKind]*lineCount
	closed bool
}

type lineKind struct {
	level         slog.Level
	message, kind string
}

// lineCount is a kind's lines since its first one; a timer ends them.
type lineCount struct {
	written int
	leftOut int
	timer   *time.Timer
}

func newLogLimit(next slog.Handler) *logLimit {
	return &logLimit{next, &lines{root: next, kinds: map[lineKind]*lineCount{}}}
}

type kindKey struct{}

// marked is what a line says of its kind.
type marked struct {
	kind string
	most int // lines of it that are written
}

// inKind marks lines as of a kind of their own: a constant text, never what a peer sent.
func inKind(kind string) context.Context { return ofKind(kind, linesMax) }

// ofKind is inKind for lines of which another number is written.
func ofKind(kind string, most int) context.Context {
	return context.WithValue(context.Background(), kindKey{}, marked{kind, most})
}

// Enabled implements slog.Handler.
func (l *logLimit) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *logLimit) Handle(ctx context.Context, r slog.Record) error {
	mark, ok := ctx.Value(kindKey{}).(marked)
	if !ok {
		mark.most = linesMax
	}
	if !l.lines.take(lineKind{r.Level, r.Message, mark.kind}, mark.most) {
		return nil
	}
	return l.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *logLimit) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logLimit{l.next.WithAttrs(attrs), l.lines}
}

// WithGroup implements slog.Handler.
func (l *logLimit) WithGroup(name string) slog.Handler {
	return &logLimit{l.next.WithGroup(name), l.lines}
}

// take reports whether a line is written, and counts it.
func (l *lines) take(kind lineKind, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.kinds[kind]
	if n == nil && len(l.kinds) >= lineKindsMax {
		kind = lineKind{level: kind.level, message: "lines of other kinds"}
		n = l.kinds[kind]
	}
	if n == nil {
		n = &lineCount{}
		l.kinds[kind] = n
		if !l.closed {
			n.timer = time.AfterFunc(lineTime, func() { l.end(kind, n) })
		}
	}
	if n.written < most {
		n.written++
		return true
	}
	n.leftOut++
	return false
}

// end says what was left out of a kind, and forgets it: the next of its lines is written.
func (l *lines) end(kind lineKind, n *lineCount) {
	l.mu.Lock()
	if l.kinds[kind] == n {
		delete(l.kinds, kind)
	}
	leftOut := n.leftOut
	n.leftOut = 0
	l.mu.Unlock()
	if leftOut == 0 {
		return
	}
	r := slog.NewRecord(time.Now(), kind.level, "lines of the log were left out: there were too many of their kind", 0)
	r.Add("line", kind.message)
	if kind.kind != "" {
		r.Add("kind", kind.kind)
	}
	r.Add("left_out", leftOut, "written", n.written, "within", lineTime.String())
	l.root.Handle(context.Background(), r) // a log that can't be written to is nobody's answer
}

// close says what was left out until now. Lines that come are bounded still.
func (l *lines) close() {
	l.mu.Lock()
	kinds := l.kinds
	l.kinds, l.closed = map[lineKind]*lineCount{}, true
	l.mu.Unlock()
	for kind, n := range kinds {
		if n.timer.Stop() {
			l.end(kind, n)
		}
	}
}
