package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
)

// recorded is the requests in testdata/frames.txt: one of each kind that eight real clients sent while they read a topic and
// took part in groups (internal/tools/recordframes).
func recorded(t testing.TB) (frames [][]byte) {
	t.Helper()
	b, err := os.ReadFile("testdata/frames.txt")
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		var key, version int16
		var client, text string
		if _, err := fmt.Sscan(lines.Text(), &key, &version, &client, &text); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		frame, err := hex.DecodeString(text)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		frames = append(frames, frame)
	}
	return frames
}

// TestRecordedAreRead: each request of a real client is read to its end, as what it is.
func TestRecordedAreRead(t *testing.T) {
	v := serve(t, local, Options{})
	clients := map[string]bool{}
	for _, frame := range recorded(t) {
		c := newConn(v.Server, nowhere{})
		c.r = bufio.NewReader(bytes.NewReader(frame))
		req, err := c.readRequest(context.Background(), true)
		if err != nil {
			t.Fatalf("%x: %v", frame, err)
		}
		if _, err := c.r.ReadByte(); err != io.EOF {
			t.Errorf("%s version %d: something is left: %v", kmsg.NameForKey(req.key), req.version, err)
		}
		if !req.unsupported {
			again := kmsg.NewRequestFormatter(kmsg.FormatterClientID(req.client)).AppendRequest(nil, req.msg, req.correlation)
			if !bytes.Equal(again, frame) {
				t.Errorf("%s version %d: read as %+v\n%x\n%x", kmsg.NameForKey(req.key), req.version, req.msg, frame, again)
			}
		}
		clients[req.client] = true
	}
	if len(clients) < 8 {
		t.Errorf("only of %v", slices.Sorted(maps.Keys(clients)))
	}
}

// nowhere is a connection of which only the deadlines and addresses are used.
type nowhere struct{ net.Conn }

func (nowhere) SetReadDeadline(time.Time) error { return nil }
func (nowhere) LocalAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }
func (nowhere) RemoteAddr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// fuzzed is a Host for fuzzing, and who may connect: nobody is asked, and alice.
func fuzzed(f *testing.F) (h *host.Host, alice *access.Access) {
	f.Helper()
	h, err := host.Open(context.Background(), host.Config{LogDirs: []string{local}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { h.Close() })
	var o access.Options
	newKeep(f).users(&o)
	if alice, err = access.New(o); err != nil {
		f.Fatal(err)
	}
	return h, alice
}

// FuzzConnection sends bytes to a server, of whose clients SASL is asked or not: whatever they are, the connection ends in
// time, nothing of it is left, and the server lives on.
func FuzzConnection(f *testing.F) {
	h, alice := fuzzed(f)
	for _, frame := range recorded(f) {
		f.Add(frame, false)
	}
	for _, sasl := range []bool{false, true} {
		all := bytes.Join(recorded(f), nil)
		f.Add(all[:len(all)/2], sasl)
		f.Add(all[len(all)/2:], sasl)
		f.Add([]byte{0x7f, 0xff, 0xff, 0xff}, sasl)
	}
	for key, a := range newAPIs(nil) {
		q := kmsg.RequestForKey(key)
		q.SetVersion(a.max)
		f.Add(frame(q, 1), false)
		q.SetVersion(a.min)
		f.Add(append(frame(q, 1), frame(q, 2)...), true)
	}
	f.Add(login(), true)
	f.Fuzz(func(t *testing.T, b []byte, sasl bool) {
		o := Options{Host: h, ReadTimeout: 5 * time.Millisecond, IdleTimeout: 3 * time.Millisecond, WriteTimeout: time.Second}
		if sasl {
			o.Access = alice
		}
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := net.Pipe()
		s.welcome(theirs)
		go func() {
			defer ours.Close()
			ours.Write(b) // the server may close first
		}()
		buf := make([]byte, 4096)
		for err == nil {
			_, err = ours.Read(buf)
		}
		s.Close()
		if n := s.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		if n := s.unsent.count(); n != 0 || s.unsent.total != 0 {
			t.Errorf("%d answers of %d bytes are left", n, s.unsent.total)
		}
		if !s.queued.TryAcquire(s.o.MaxQueuedBytes) {
			t.Error("a request takes memory for ever")
		}
	})
}

// login is alice's way in, and a request behind it.
func login() []byte {
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, access.Plain
	token := kmsg.NewPtrSASLAuthenticateRequest()
	token.Version, token.SASLAuthBytes = 2, []byte("\x00alice\x00wonderland")
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 9
	return append(append(frame(handshake, 1), frame(token, 2)...), frame(metadata, 3)...)
}

// FuzzRequest sends a request whose header is good, of a key and a version that are served, and whose body is anything, to
// a server that has had many before: there is an answer to it, of its length and with its number, or the connection ends.
// Groups have members: kfake, which runs in this process, must bear it too.
func FuzzRequest(f *testing.F) {
	h, _ := fuzzed(f)
	s, err := New(Options{Host: h, ReadTimeout: time.Second, IdleTimeout: time.Second})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	keys := slices.Sorted(maps.Keys(s.apis))
	for _, frame := range recorded(f) {
		key, version := int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
		body := 14 + int(max(0, int16(binary.BigEndian.Uint16(frame[12:]))))
		f.Add(uint8(slices.Index(keys, key)), uint8(version-s.apis[key].min), frame[min(body, len(frame)):])
	}
	for i, key := range keys {
		q := kmsg.RequestForKey(key)
		q.SetVersion(s.apis[key].max)
		body := q.AppendTo(nil)
		if q.IsFlexible() {
			body = append([]byte{0}, body...) // tags
		}
		f.Add(uint8(i), uint8(s.apis[key].max-s.apis[key].min), body)
	}
	f.Fuzz(func(t *testing.T, at, version uint8, body []byte) {
		key := keys[int(at)%len(keys)]
		a := s.apis[key]
		ours, theirs := net.Pipe()
		s.welcome(theirs)
		defer ours.Close()
		ours.SetDeadline(time.Now().Add(10 * time.Second))
		go ours.Write(header(key, a.min+int16(version)%(a.max-a.min+1), body...)) // ends with ours
		heard(t, ours, kmsg.Key(key))
	})
}

// heard takes one answer, or the end. What waits for others is left alone.
func heard(t *testing.T, nc net.Conn, key kmsg.Key) {
	switch key {
	case kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Fetch:
		nc.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	}
	var head [8]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		if os.IsTimeout(err) && key != kmsg.JoinGroup && key != kmsg.SyncGroup && key != kmsg.Fetch {
			t.Errorf("%s has no answer, and no end", key.Name())
		}
		return
	}
	nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	if got := binary.BigEndian.Uint32(head[4:]); got != 9 {
		t.Errorf("%s: an answer to %d", key.Name(), got)
	}
	if n := int64(binary.BigEndian.Uint32(head[:])); n > 4 {
		if _, err := io.CopyN(io.Discard, nc, n-4); err != nil {
			t.Errorf("%s: of the %d bytes that it promises: %v", key.Name(), n, err)
		}
	}
}
