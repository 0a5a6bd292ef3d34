package server

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/locallog"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
)

// connected gives the two ends of a TCP connection on loopback.
func connected(t testing.TB) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close(); client.Close() })
	return server, client
}

// oneSegment is a local segment of about size bytes, and its content.
func oneSegment(t testing.TB, size int) (*locallog.Segment, []byte) {
	t.Helper()
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, tp("orders"), kafkabytes.NewSegment(t, tp("orders"), 1, kafkabytes.Batch{Base: 0, Last: 9, Size: size}))
	d, err := locallog.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	seg := d.Logs()[0].Segments()[0]
	b, err := os.ReadFile(seg.Path())
	if err != nil {
		t.Fatal(err)
	}
	return seg, b
}

// plainConn is a connection that is no TCP connection, as one of TLS is.
type plainConn struct{ net.Conn }

// TestSend: an answer arrives as its parts in order, from memory and from files, whether files are copied or not, and so
// do two at once that are sent from one file.
func TestSend(t *testing.T) {
	seg, content := oneSegment(t, 3<<20)
	big := make([]byte, 700_000)
	rand.Read(big)
	a := &answer{b: []byte("the head, between, and the end")}
	n := int64(len(content))
	a.cuts = []cut{
		{8, body{bytes: big}},
		{10, body{files: []locallog.Stretch{{Segment: seg, Pos: 100, Bytes: n - 300}, {Segment: seg, Pos: 7, Bytes: 1}}}},
		{10, body{bytes: big[:10]}},
		{len(a.b), body{files: []locallog.Stretch{{Segment: seg, Pos: 0, Bytes: n}}}},
	}
	want := bytes.Join([][]byte{a.b[:8], big, a.b[8:10], content[100 : n-200], content[7:8], big[:10], a.b[10:], content}, nil)
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"tcp":   func(c net.Conn) net.Conn { return c },
		"other": func(c net.Conn) net.Conn { return plainConn{c} },
	} {
		t.Run(name, func(t *testing.T) {
			hammer.Run(t, 2, 1, func(int, int) {
				server, client := connected(t)
				steps := 0
				s := newSender(wrap(server), 10*time.Second, func() { steps++ })
				failed := make(chan error, 1)
				go func() { // ends with the answer, or when the connection is closed
					failed <- s.send(a)
					server.Close()
				}()
				got, err := io.ReadAll(client)
				if err := <-failed; err != nil {
					t.Error(err)
				}
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, want %d, %v", len(got), len(want), err)
				}
				if steps < len(want)/writeStep {
					t.Errorf("%d steps", steps)
				}
			})
		})
	}
}

// TestSendCut: a file that became shorter ends the connection with a sentence that names it.
func TestSendCut(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"tcp":   func(c net.Conn) net.Conn { return c },
		"other": func(c net.Conn) net.Conn { return plainConn{c} },
	} {
		t.Run(name, func(t *testing.T) {
			seg, content := oneSegment(t, 100_000)
			if err := os.Truncate(seg.Path(), 5000); err != nil {
				t.Fatal(err)
			}
			server, client := connected(t)
			s := newSender(wrap(server), 10*time.Second, func() {})
			done := make(chan struct{})
			go func() { // ends when the connection is closed below
				defer close(done)
				io.Copy(io.Discard, client)
			}()
			err := s.send(&answer{cuts: []cut{{0, body{files: []locallog.Stretch{{Segment: seg, Bytes: int64(len(content))}}}}}})
			if abi.KindOf(err) != abi.Corrupt || !strings.Contains(err.Error(), seg.Path()) || !strings.Contains(err.Error(), "byte 5000") {
				t.Errorf("%v", err)
			}
			server.Close()
			<-done
		})
	}
}

// TestSendStalled: a client that takes nothing costs the timeout, from memory and from files.
func TestSendStalled(t *testing.T) {
	seg, content := oneSegment(t, 20<<20)
	for name, b := range map[string]body{
		"memory": {bytes: content},
		"file":   {files: []locallog.Stretch{{Segment: seg, Bytes: int64(len(content))}}},
	} {
		server, _ := connected(t)
		s := newSender(server, 20*time.Millisecond, func() {})
		if err := s.send(&answer{cuts: []cut{{0, b}}}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkSend sends 1 MiB of a file, by sendfile and by way of memory.
func BenchmarkSend(b *testing.B) {
	seg, content := oneSegment(b, 1<<20)
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"sendfile": func(c net.Conn) net.Conn { return c },
		"copied":   func(c net.Conn) net.Conn { return plainConn{c} },
	} {
		b.Run(name, func(b *testing.B) {
			server, client := connected(b)
			done := make(chan struct{})
			go func() { // ends when the connection is closed below
				defer close(done)
				buf := make([]byte, 1<<20)
				for {
					if _, err := client.Read(buf); err != nil {
						return
					}
				}
			}()
			s := newSender(wrap(server), 10*time.Second, func() {})
			a := &answer{cuts: []cut{{0, body{files: []locallog.Stretch{{Segment: seg, Bytes: int64(len(content))}}}}}}
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.send(a); err != nil {
					b.Fatal(err)
				}
			}
			server.Close()
			<-done
		})
	}
}

// TestLocalFilesAreSent: what lies in a log directory is not read into memory.
func TestLocalFilesAreSent(t *testing.T) {
	dir := t.TempDir()
	kafkabytes.WriteLog(t, dir, tp("orders"), kafkabytes.NewSegment(t, tp("orders"), 1, kafkabytes.Batch{Base: 0, Last: 9, Size: 12 << 20}))
	v := serveHost(t, host.Config{LogDirs: []string{dir}, MemoryBytes: 1 << 20}, Options{})
	resp := ask[*kmsg.FetchResponse](v.dial(t), fetchOf(v.host.Topics()[0], 0, 0), 18)
	if n := len(resp.Topics[0].Partitions[0].RecordBatches); n < 12<<20 {
		t.Errorf("%d bytes", n)
	}
	if used, peak := v.host.MemoryInUse(); used != 0 {
		t.Errorf("%d bytes are in use, of %d", used, peak)
	}
}
