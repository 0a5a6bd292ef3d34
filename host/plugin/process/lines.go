package process

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

const (
	maxLine      = 8 << 10  // bytes of a line that are kept; the rest is counted
	maxTailLines = 50       // that are kept for an error, of
	maxTailBytes = 64 << 10 // in all
)

// lines is what a plugin writes, as lines: to the log, and the last of them for errors. It takes everything as it comes:
// a plugin must never block on what it has to say.
type lines struct {
	name string
	log  *slog.Logger // nil: nobody

	mu struct {
		sync.Mutex
		pid    int
		kept   []string
		bytes  int               // in kept
		hidden *strings.Replacer // secrets; nil: none
	}
}

func newLines(name string, log *slog.Logger) *lines { return &lines{name: name, log: log} }

func (l *lines) setPid(pid int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.pid = pid
}

// minSecret is the shortest secret that is looked for. Shorter ones would blank out ordinary words, and are not secret.
const minSecret = 6

// hide keeps secrets out of what is logged and quoted from here on.
func (l *lines) hide(secrets []string) {
	var pairs []string
	for _, s := range secrets {
		if len(s) >= minSecret {
			pairs = append(pairs, s, "***")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.hidden = strings.NewReplacer(pairs...)
}

// drain takes lines until r ends. r's buffer is maxLine bytes.
func (l *lines) drain(r *bufio.Reader) {
	for {
		line, err := readLine(r)
		if err == nil || line != "" {
			l.add(line)
		}
		if err != nil {
			return
		}
	}
}

// readLine gives the next line without its end. Of a line that is too long it gives the beginning and how much is missing.
func readLine(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	line := strings.TrimRight(string(b), "\r\n")
	if err != bufio.ErrBufferFull {
		return line, err
	}
	missing := 0
	for err == bufio.ErrBufferFull {
		b, err = r.ReadSlice('\n')
		missing += len(b)
	}
	return fmt.Sprintf("%s ... (%d bytes more)", line, missing), err
}

func (l *lines) add(line string) {
	l.mu.Lock()
	if l.mu.hidden != nil {
		line = l.mu.hidden.Replace(line)
	}
	pid := l.mu.pid
	l.mu.kept = append(l.mu.kept, line)
	l.mu.bytes += len(line)
	for len(l.mu.kept) > maxTailLines || l.mu.bytes > maxTailBytes {
		l.mu.bytes -= len(l.mu.kept[0])
		l.mu.kept = l.mu.kept[1:]
	}
	l.mu.Unlock()
	if l.log == nil {
		return
	}
	level := slog.LevelInfo
	if isPanic(line) {
		level = slog.LevelError
	}
	l.log.LogAttrs(context.Background(), level, line, slog.String("plugin", l.name), slog.Int("pid", pid))
}

// isPanic recognizes the first line of a Go program's death.
func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// tail gives the last lines.
func (l *lines) tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.mu.kept...)
}

// quoteTail is the part of an error's sentence that tells what the plugin wrote last: the reason of a panic, not the end
// of its stack, or else the last three lines.
func (l *lines) quoteTail() string {
	kept := l.tail()
	from := max(0, len(kept)-3)
	for i, line := range kept {
		if isPanic(line) {
			from = i
		}
	}
	kept = kept[from:min(len(kept), from+3)]
	if len(kept) == 0 {
		return "; it wrote nothing to standard error"
	}
	quoted := make([]string, len(kept))
	for i, line := range kept {
		quoted[i] = fmt.Sprintf("%q", clip(line))
	}
	return "; its last words: " + strings.Join(quoted, ", ")
}

// clip cuts what is quoted in a sentence.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
