package coordinator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rsmhost/rsmhost/abi"
)

// The file of offsets is text, a change a line, the newest last:
//
//	rsmhost group offsets 2 00000000000000001234 5f3759df
//	8f0c2b1e {"group":"g","topic":"orders","partition":3,"offset":1234,"epoch":7,"at":1700000000000,"id":"adh9f8BMS4anaUnD8KWfWg"}
//
// Before each change stands its CRC-32C. The first line has the bytes of the file that were on disk before the last write
// began, or all of them after a clean end, and its own sum: a file that has less was cut. What is cut off behind that was not
// acknowledged. A line that is damaged is lost alone.
//
// Version 1 had "rsmhost group offsets 1" for its first line, and is read too.
const (
	fileStem  = "rsmhost group offsets "
	sumDigits = 8
	headBytes = len(fileStem) + 2 + 20 + 1 + sumDigits + 1

	// maxLine is more than any line has: a group's name of 1,024 bytes, a topic's of 249 and metadata of 4,096 are at most six
	// times that in JSON. Version 1 wrote metadata so too.
	maxLine = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(text []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli)) }

// fileHead is the first line of a file of which so many bytes are on disk.
func fileHead(size int64) []byte {
	b := fmt.Appendf(nil, "%s2 %020d ", fileStem, size)
	return append(append(b, sumOf(b)...), '\n')
}

// head is what a first line says.
type head struct {
	version string // "1", "2", that of another program, or "": not known
	size    int64  // of version 2: bytes that the file has at least; -1: not known
	whole   bool   // it is what this program wrote
}

// parseHead reads a first line, without its end.
func parseHead(line []byte) head {
	rest, ok := strings.CutPrefix(string(line), fileStem)
	if !ok {
		return head{size: -1}
	}
	version, rest, _ := strings.Cut(rest, " ")
	h := head{version: version, size: -1, whole: version == "1" && rest == ""}
	if len(line) != headBytes-1 {
		return h
	}
	n := len(line) - sumDigits
	size, err := strconv.ParseInt(strings.TrimSuffix(rest, " "+string(line[n:])), 10, 64)
	switch sums := sumOf(line[:n]) == string(line[n:]); {
	case !sums:
		h.version = "" // its digit may be what is damaged
	case version == "2" && err == nil:
		h.size, h.whole = size, true
	}
	return h
}

// written is a change with what JSON has another form for.
type written struct {
	change
	ID  string `json:"id,omitempty"`
	Raw []byte `json:"raw,omitempty"` // metadata that is no text, or is shorter so
}

// appendLine appends the line of a change.
func appendLine(b []byte, c change) []byte {
	w := written{change: c}
	if !c.ID.IsZero() {
		w.ID = c.ID.String()
	}
	if !utf8.ValidString(c.Metadata) || strings.IndexFunc(c.Metadata, dear) >= 0 {
		w.Raw, w.Metadata = []byte(c.Metadata), ""
	}
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and numbers
	}
	b = append(append(b, sumOf(text)...), ' ')
	return append(append(b, text...), '\n')
}

// dear reports a character that takes six bytes in JSON.
func dear(r rune) bool {
	return r < ' ' || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029'
}

// parseLine reads a line, without its end.
func parseLine(line []byte) (c change, ok bool) {
	if len(line) < sumDigits+1 || line[sumDigits] != ' ' {
		return c, false
	}
	text := line[sumDigits+1:]
	if sumOf(text) != string(line[:sumDigits]) {
		return c, false
	}
	var w written
	if json.Unmarshal(text, &w) != nil {
		return c, false
	}
	c = w.change
	if len(w.Raw) > 0 {
		c.Metadata = string(w.Raw)
	}
	if w.ID != "" {
		id, err := abi.ParseUUID(w.ID)
		if err != nil {
			return c, false
		}
		c.ID = id
	}
	return c, true
}

// content is what a file held.
type content struct {
	kept   int   // lines that were read
	lost   int   // lines that are damaged, the first one included
	at     int64 // the byte where the first of them begins
	short  int64 // bytes that were on disk and are not there
	beyond int   // lines that were not taken
	torn   bool  // the last line has no end, and was not acknowledged
	other  bool  // of another version
	size   int64
	first  bool // its first line is whole
}

// damaged reports that something is lost.
func (c *content) damaged() bool { return c.lost > 0 || c.short > 0 || c.beyond > 0 }

// emptied reports a file of which nothing is left that this program wrote.
func (c *content) emptied() bool { return c.kept == 0 && (c.short > 0 || !c.first) }

// parseFile reads a file, a line at a time, and passes on its changes. What apply refuses is counted. An error is the reader's.
func parseFile(r io.Reader, apply func(change) bool) (out content, err error) {
	lines := lineReader{r: bufio.NewReaderSize(r, maxLine)}
	first, err := lines.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return out, err
	}
	h := parseHead(first)
	if h.version != "" && h.version != "1" && h.version != "2" && err == nil {
		return content{other: true}, nil
	}
	out.first = h.whole && err == nil
	out.lose(!h.whole && err == nil, 0)
	for err == nil {
		at, line := lines.at, []byte(nil)
		if line, err = lines.next(); err != nil && !errors.Is(err, io.EOF) {
			return out, err
		}
		if err != nil { // also one that is whole: what is appended must not stand behind it
			out.torn = len(line) > 0 && at >= h.size
			out.lose(len(line) > 0 && at < h.size, at)
			break
		}
		out.take(line, at, apply)
	}
	out.size = lines.at
	out.short = max(0, h.size-out.size)
	return out, nil
}

func (c *content) lose(is bool, at int64) {
	if is {
		if c.lost == 0 {
			c.at = at
		}
		c.lost++
	}
}

// take takes a line. In a damaged one there may be two, whose border is what was damaged.
func (c *content) take(line []byte, at int64, apply func(change) bool) {
	if one, ok := parseLine(line); ok {
		c.pass(one, apply)
		return
	}
	c.lose(true, at)
	for i := sumDigits + 1; i+sumDigits+2 < len(line); i++ {
		if line[i+sumDigits] != ' ' || line[i+sumDigits+1] != '{' {
			continue
		}
		if second, ok := parseLine(line[i:]); ok {
			if first, ok := parseLine(line[:i-1]); ok {
				c.pass(first, apply)
			}
			c.pass(second, apply)
			return
		}
	}
}

func (c *content) pass(one change, apply func(change) bool) {
	if apply(one) {
		c.kept++
	} else {
		c.beyond++
	}
}

// lineReader reads lines, of any length without memory for it.
type lineReader struct {
	r  *bufio.Reader
	at int64 // in the file, behind the last line
}

// next gives a line without its end, which holds until the next one. Of a line of more than maxLine bytes it gives the
// beginning. With io.EOF it gives what stands behind the last end.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	l.at += int64(len(line))
	if !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimSuffix(line, []byte("\n")), err
	}
	long := bytes.Clone(line[:headBytes])
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.r.ReadSlice('\n')
		l.at += int64(len(line))
	}
	return long, err
}
