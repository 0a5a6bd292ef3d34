// Guest is the plugin that the tests of host/plugin/wasm run. What it does is chosen by the topic of the segment that it is
// asked for, and at configuration by the setting "configure".
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
)

func main() {
	sdk.Main(sdk.Plugin{
		Info: abi.Info{Name: "guest", Vendor: "tests", Version: "0.0.1", Schema: []byte(`{"type":"object"}`)},
		New:  newStore,
	})
}

// store does what it is told.
type store struct {
	config *sdk.Config
	calls  int // in this instance
	kept   [][]byte
}

func newStore(_ context.Context, c *sdk.Config) (abi.RemoteStorageManager, error) {
	switch c.Value("configure") {
	case "refuse":
		return nil, abi.Errorf("configure", "root", abi.Invalid, "no such place")
	case "panic":
		panic("configured to panic")
	case "loop":
		for {
		}
	}
	return &store{config: c}, nil
}

func (s *store) Probe(context.Context) error {
	if s.config.Value("probe") == "fail" {
		return &abi.Error{Op: "probe", Subject: "bucket", Kind: abi.Auth, Status: 403, RequestID: "r-1", RetryAfter: 2 * time.Second,
			Err: abi.E("get", "key", abi.Denied, errors.New("expired"))}
	}
	return nil
}

func (s *store) FetchIndex(ctx context.Context, seg *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	if t == abi.TransactionIndex {
		return nil, abi.E("fetch_index", seg.Key(), abi.NotFound, nil)
	}
	return text(fmt.Sprintf("%v of %s %v", t, seg.Key(), seg.LeaderEpochs)), nil
}

// text answers with a few bytes inline.
func text(s string) *abi.Source {
	return &abi.Source{OriginalSize: int64(len(s)), Location: &abi.Location{Parts: []abi.Part{{Inline: []byte(s)}}, Scope: abi.ScopeObject}}
}

func (s *store) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	s.calls++
	what, arg, _ := strings.Cut(seg.Topic, "=")
	if strings.HasPrefix(what, "stream") {
		return s.stream(what, seg, r)
	}
	switch what {
	case "location":
		return &abi.Source{OriginalSize: seg.SizeBytes, ETag: "e", Location: &abi.Location{
			Parts: []abi.Part{{File: &abi.FilePart{Root: "root", Path: "a/b.log", Offset: r.Start, Length: r.Len()}}}}}, nil
	case "calls":
		return text(strconv.Itoa(s.calls)), nil
	case "clock":
		return text(strconv.FormatInt(time.Now().UnixNano(), 10)), nil
	case "random":
		b := make([]byte, 16)
		rand.Read(b)
		return text(hex.EncodeToString(b)), nil
	case "sleep":
		before := time.Now()
		d, _ := time.ParseDuration(arg)
		time.Sleep(d)
		return text(strconv.FormatInt(int64(time.Since(before)), 10)), nil
	case "deadline":
		d, ok := ctx.Deadline()
		return text(fmt.Sprint(ok, " ", time.Until(d).Milliseconds())), nil
	case "print":
		fmt.Println("to stdout", arg)
		fmt.Fprint(os.Stderr, "to stderr ", arg)
		n, err := os.Stdin.Read(make([]byte, 1))
		return text(fmt.Sprint(n, " ", err)), nil
	case "flood":
		for range 10_000 {
			fmt.Println("one more line of many")
		}
		return text("done"), nil
	}
	return s.misbehave(what, arg)
}

func (s *store) misbehave(what, arg string) (*abi.Source, error) {
	switch what {
	case "panic":
		panic("boom " + arg)
	case "loop":
		for {
		}
	case "exit":
		os.Exit(7)
	case "bomb":
		for {
			s.kept = append(s.kept, make([]byte, 1<<20))
		}
	case "hold": // arg MiB, and give them up
		n, _ := strconv.Atoi(arg)
		b := make([]byte, n<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		return text("held"), nil
	case "goroutine":
		go func() { // outlives the call, as a plugin's mistake
			time.Sleep(time.Hour)
		}()
		return text("left one"), nil
	case "escape":
		_, err := os.ReadFile("/etc/passwd")
		_, err2 := os.ReadDir(".")
		return text(fmt.Sprint(err, "; ", err2, "; ", os.Args, len(os.Environ()))), nil
	case "big":
		return &abi.Source{Location: &abi.Location{Parts: []abi.Part{{Inline: make([]byte, 2<<20)}}}}, nil
	case "nothing":
		return nil, nil
	case "size", "read":
		return s.file(what, arg)
	}
	return nil, abi.Errorf("fetch", what, abi.Unsupported, "no such test")
}

// file looks at a file below a root: "root:path".
func (s *store) file(what, arg string) (*abi.Source, error) {
	name, path, _ := strings.Cut(arg, ":")
	root, err := s.config.Root(name)
	if err != nil {
		return nil, err
	}
	if what == "size" {
		n, err := root.Size(path)
		return text(strconv.FormatInt(n, 10)), err
	}
	b := make([]byte, 10)
	n, err := root.ReadAt(path, b, 3)
	if err != nil && err != io.EOF {
		return nil, err
	}
	return text(fmt.Sprintf("%s %v", b[:n], err)), nil
}

func (s *store) stream(what string, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	r, err := r.Clamp(seg.SizeBytes)
	if err != nil {
		return nil, err
	}
	return &abi.Source{OriginalSize: seg.SizeBytes, ETag: "s", Stream: &pattern{what: what, at: r.Start, end: r.End + 1}}, nil
}

// pattern is a stream whose byte at i is i modulo 251, and that goes wrong in the middle of its range where it is told to.
type pattern struct {
	what    string
	at, end int64
	given   int64
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.at == p.end {
		return 0, io.EOF
	}
	if p.given >= 300_000 {
		switch p.what {
		case "stream-fail":
			return 0, &abi.Error{Op: "get", Subject: "k", Kind: abi.Throttled, Status: 503, Err: abi.Text("slow down")}
		case "stream-cut":
			return 0, io.ErrUnexpectedEOF
		case "stream-panic":
			panic("in the middle")
		case "stream-loop":
			for {
			}
		case "stream-sleep":
			time.Sleep(time.Hour)
		case "stream-exit":
			os.Exit(0)
		}
	}
	b = b[:min(int64(len(b)), p.end-p.at, 100_000)]
	for i := range min(len(b), 251) { // loops are slow in a guest, copies are not
		b[i] = byte((p.at + int64(i)) % 251)
	}
	for n := 251; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
	p.at += int64(len(b))
	p.given += int64(len(b))
	return len(b), nil
}

// Close of a deaf stream does not come back.
func (p *pattern) Close() error {
	if p.what == "stream-deaf" {
		for {
		}
	}
	return nil
}
