//go:build !wasip1

package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/abipb"
)

func TestMain(m *testing.M) {
	if os.Getenv("SDK_TEST_MAIN") != "" {
		Main(fakePlugin(&fakeRSM{}))
	}
	goleak.VerifyTestMain(m)
}

// fakeRSM answers with what its fields say.
type fakeRSM struct {
	src   func(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error)
	index func(t abi.IndexType) (*abi.Source, error)
}

func (f *fakeRSM) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	return f.src(ctx, seg, r)
}

func (f *fakeRSM) FetchIndex(_ context.Context, _ *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	return f.index(t)
}

// fakeProber has a self-test beside.
type fakeProber struct {
	fakeRSM
	err error
}

func (f *fakeProber) Probe(context.Context) error { return f.err }

func fakePlugin(rsm abi.RemoteStorageManager) Plugin {
	return Plugin{Info: abi.Info{Name: "rsm-fake", Version: "1.2.3"},
		New: func(context.Context, *Config) (abi.RemoteStorageManager, error) { return rsm, nil }}
}

// dial serves p over memory.
func dial(t *testing.T, p Plugin) abipb.RemoteStorageManagerClient {
	t.Helper()
	return dialServer(t, newServer(p))
}

func dialServer(t *testing.T, s *server) abipb.RemoteStorageManagerClient {
	t.Helper()
	return dialThrough(t, s, func(nc net.Conn) net.Conn { return nc })
}

// dialThrough is dialServer over a connection that is wrapped.
func dialThrough(t *testing.T, s *server, wrap func(net.Conn) net.Conn) abipb.RemoteStorageManagerClient {
	t.Helper()
	ln := bufconn.Listen(1 << 20)
	g := s.grpcServer()
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }() // ends with the cleanup's Stop
	conn, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			nc, err := ln.DialContext(ctx)
			if err != nil {
				return nil, err
			}
			return wrap(nc), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		<-served
	})
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), &grpc_health_v1.HealthCheckRequest{Service: abipb.HealthService}); err != nil {
		t.Errorf("health: %v", err)
	}
	return abipb.NewRemoteStorageManagerClient(conn)
}

var configureV1 = &abipb.ConfigureRequest{AbiVersion: abi.Version}

func configure(t *testing.T, c abipb.RemoteStorageManagerClient) {
	t.Helper()
	if _, err := c.Configure(context.Background(), configureV1); err != nil {
		t.Fatal(err)
	}
}

var segment = &abi.SegmentMetadata{TopicIDPartition: abi.TopicIDPartition{Topic: "orders", TopicID: abi.UUID{1}}, SegmentID: abi.UUID{2}}

// fetched is what came over one fetch.
type fetched struct {
	src    *abi.Source
	data   []byte
	frames []int
	end    *abipb.End
	err    *abi.Error
}

func fetch(t *testing.T, ctx context.Context, c abipb.RemoteStorageManagerClient) fetched {
	t.Helper()
	st, err := c.FetchLogSegment(ctx, &abipb.FetchLogSegmentRequest{Segment: abipb.FromSegment(segment), Start: 3, End: abi.ToEnd})
	if err != nil {
		t.Fatal(err)
	}
	var f fetched
	for {
		m, err := st.Recv()
		if err == io.EOF {
			return f
		}
		if err != nil {
			f.err, _ = abipb.FromStatus("", "", err)
			return f
		}
		switch r := m.Reply.(type) {
		case *abipb.FetchReply_Source:
			if f.src, err = r.Source.ToABI(); err != nil {
				t.Fatal(err)
			}
		case *abipb.FetchReply_Data:
			f.data = append(f.data, r.Data...)
			f.frames = append(f.frames, len(r.Data))
		case *abipb.FetchReply_End:
			f.end = r.End
		}
	}
}

func streamOf(r io.Reader, size int64) *fakeRSM {
	return &fakeRSM{src: func(context.Context, *abi.SegmentMetadata, abi.Range) (*abi.Source, error) {
		return &abi.Source{OriginalSize: size, Stream: io.NopCloser(r)}, nil
	}}
}

func TestPhases(t *testing.T) {
	c := dial(t, fakePlugin(streamOf(strings.NewReader("x"), 1)))
	ctx := context.Background()
	if f := fetch(t, ctx, c); !errors.Is(f.err, abi.Phase) {
		t.Errorf("fetch before configure: %v, want PHASE", f.err)
	}
	configure(t, c)
	if _, err := c.Configure(ctx, configureV1); kindOf(err) != abi.Phase {
		t.Errorf("configure again: %v, want PHASE", err)
	}
	if f := fetch(t, ctx, c); f.err != nil || string(f.data) != "x" {
		t.Errorf("fetch: %q, %v", f.data, f.err)
	}
	if _, err := c.Drain(ctx, &abipb.DrainRequest{DeadlineMs: 1}); err != nil {
		t.Errorf("drain: %v", err)
	}
	if f := fetch(t, ctx, c); !errors.Is(f.err, abi.Phase) {
		t.Errorf("fetch after drain: %v, want PHASE", f.err)
	}
	if _, err := c.Probe(ctx, &abipb.ProbeRequest{}); kindOf(err) != abi.Phase {
		t.Errorf("probe after drain: %v, want PHASE", err)
	}
}

func kindOf(err error) abi.Kind {
	e, _ := abipb.FromStatus("", "", err)
	return abi.KindOf(e)
}

func TestConfigureThatFailedMayBeTriedAgain(t *testing.T) {
	want := &abi.Error{Op: "configure", Subject: "root", Kind: abi.Invalid, Err: abi.Text("no")}
	p := fakePlugin(&fakeRSM{})
	p.New = func(context.Context, *Config) (abi.RemoteStorageManager, error) {
		if want != nil {
			return nil, want
		}
		return &fakeRSM{}, nil
	}
	c := dial(t, p)
	_, err := c.Configure(context.Background(), configureV1)
	if got, _ := abipb.FromStatus("", "", err); !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	want = nil
	configure(t, c)
}

func TestConfigureVersions(t *testing.T) {
	c := dial(t, fakePlugin(&fakeRSM{}))
	_, err := c.Configure(context.Background(), &abipb.ConfigureRequest{AbiVersion: 7})
	if kindOf(err) != abi.Unsupported || !strings.Contains(err.Error(), "7") || !strings.Contains(err.Error(), "[1]") {
		t.Errorf("version 7: %v, want UNSUPPORTED with both", err)
	}
}

func TestConfigureOpensGrantedDirectories(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := fakePlugin(nil)
	p.Info.Schema = []byte(`{"properties": {"root": {"x-grant": "fs.read"}, "other": {"x-grant": "fs.read"}, "plain": {}}}`)
	p.New = func(_ context.Context, c *Config) (abi.RemoteStorageManager, error) {
		r, err := c.Root("root")
		if err != nil {
			return nil, err
		}
		size, err := r.Size("f")
		names, listErr := r.ReadDir(".", 5)
		secret, _ := c.Secret("key")
		_, plainErr := c.Root("plain")
		_, otherErr := c.Root("other")
		if size != 3 || err != nil || !slices.Equal(names, []string{"f"}) || listErr != nil || secret != "s3cret" || plainErr == nil || otherErr == nil {
			return nil, abi.Errorf("", "", abi.Internal, "%d, %v, %v, %v, %q, %v, %v", size, err, names, listErr, secret, plainErr, otherErr)
		}
		return &fakeRSM{}, nil
	}
	req := &abipb.ConfigureRequest{AbiVersion: 1, Values: abipb.FromSettings(map[string]string{"root": dir, "plain": "/"}),
		Secrets: abipb.FromSettings(map[string]string{"key": "s3cret"})}
	c := dial(t, p)
	if _, err := c.Configure(context.Background(), req); err != nil {
		t.Error(err)
	}
	req.Values = abipb.FromSettings(map[string]string{"root": filepath.Join(dir, "missing")})
	_, err := dial(t, p).Configure(context.Background(), req)
	if e, _ := abipb.FromStatus("", "", err); !errors.Is(e, abi.NotFound) || e.Subject != "root" {
		t.Errorf("a missing directory: %v, want NOT_FOUND about root", err)
	}
}

func TestFeatures(t *testing.T) {
	for _, tc := range []struct {
		rsm      abi.RemoteStorageManager
		declared []string
		want     []string
	}{
		{&fakeProber{}, nil, []string{"probe"}},
		{&fakeProber{}, []string{"probe"}, []string{"probe"}},
		{&fakeRSM{}, []string{"probe", "other"}, []string{"other"}},
		{&fakeRSM{}, nil, nil},
	} {
		p := fakePlugin(tc.rsm)
		p.Info.Features = tc.declared
		c := dial(t, p)
		configure(t, c)
		info, err := c.Describe(context.Background(), &abipb.DescribeRequest{})
		if err != nil || !slices.Equal(info.Features, tc.want) || !slices.Equal(info.AbiVersions, []int32{1}) || info.Name != "rsm-fake" {
			t.Errorf("%T: %v, %v, want %v", tc.rsm, info, err, tc.want)
		}
	}
}

func TestProbe(t *testing.T) {
	ctx := context.Background()
	prober := &fakeProber{}
	c := dial(t, fakePlugin(prober))
	configure(t, c)
	if _, err := c.Probe(ctx, &abipb.ProbeRequest{}); err != nil {
		t.Errorf("probe: %v", err)
	}
	prober.err = abi.E("probe", "root", abi.NotFound, nil)
	if _, err := c.Probe(ctx, &abipb.ProbeRequest{}); kindOf(err) != abi.NotFound {
		t.Errorf("probe: %v, want NOT_FOUND", err)
	}
	c = dial(t, fakePlugin(&fakeRSM{}))
	configure(t, c)
	if _, err := c.Probe(ctx, &abipb.ProbeRequest{}); kindOf(err) != abi.Unsupported {
		t.Errorf("probe of a plugin without: %v, want UNSUPPORTED", err)
	}
}

func TestLocation(t *testing.T) {
	want := &abi.Source{OriginalSize: 5, ETag: "e", Location: &abi.Location{Parts: []abi.Part{{Inline: []byte("hello")}}}}
	c := dial(t, fakePlugin(&fakeRSM{src: func(_ context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
		if !reflect.DeepEqual(seg, segment) || r.Start != 3 || r.End != abi.ToEnd {
			return nil, fmt.Errorf("got %+v, %v", seg, r)
		}
		return want, nil
	}}))
	configure(t, c)
	f := fetch(t, context.Background(), c)
	if f.err != nil || !reflect.DeepEqual(f.src, want) || f.end != nil || f.data != nil {
		t.Errorf("got %+v", f)
	}
}

func TestStream(t *testing.T) {
	for _, size := range []int{0, 1, abipb.DefaultFrame - 1, abipb.DefaultFrame, abipb.DefaultFrame + 1, 3<<20 + 5} {
		want := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(want), "EOF with data": iotest.DataErrReader(bytes.NewReader(want)), "half reads": iotest.HalfReader(bytes.NewReader(want)),
		} {
			c := dial(t, fakePlugin(streamOf(r, int64(size))))
			configure(t, c)
			f := fetch(t, context.Background(), c)
			if f.err != nil || !bytes.Equal(f.data, want) {
				t.Fatalf("%s %d: %d bytes, %v", name, size, len(f.data), f.err)
			}
			sum := crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli))
			if f.end == nil || f.end.BytesSent != int64(size) || f.end.Crc32C != sum {
				t.Errorf("%s %d: end %v, want %d and %d", name, size, f.end, size, sum)
			}
			for i, n := range f.frames {
				if n > abipb.DefaultFrame || n < minFrame && i < len(f.frames)-1 {
					t.Errorf("%s %d: frame %d has %d bytes", name, size, i, n)
				}
			}
		}
	}
}

func TestFrameLimitOfTheHost(t *testing.T) {
	c := dial(t, fakePlugin(streamOf(strings.NewReader(strings.Repeat("x", 100_000)), 100_000)))
	if _, err := c.Configure(context.Background(), &abipb.ConfigureRequest{AbiVersion: 1, MaxFrame: 1000}); err != nil {
		t.Fatal(err)
	}
	if f := fetch(t, context.Background(), c); f.err != nil || len(f.data) != 100_000 || slices.Max(f.frames) != 1000 {
		t.Errorf("%d bytes, frames up to %d, %v", len(f.data), slices.Max(f.frames), f.err)
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

func TestStreamThatFails(t *testing.T) {
	inner := &abi.Error{Op: "GET", Subject: "key", Kind: abi.Precondition, Err: abi.Text("changed")}
	for name, c := range map[string]struct {
		r    io.Reader
		want abi.Kind
	}{
		"error of the contract": {iotest.ErrReader(inner), abi.Precondition},
		"truncated":             {iotest.ErrReader(io.ErrUnexpectedEOF), abi.Corrupt},
		"any other":             {iotest.ErrReader(errors.New("boom")), abi.Internal},
		"nothing for ever":      {emptyReader{}, abi.Internal},
	} {
		cl := dial(t, fakePlugin(streamOf(io.MultiReader(strings.NewReader("some"), c.r), 10)))
		configure(t, cl)
		f := fetch(t, context.Background(), cl)
		if !errors.Is(f.err, c.want) || f.end != nil || string(f.data) != "some" {
			t.Errorf("%s: %q, end %v, %v, want %v and no end", name, f.data, f.end, f.err, c.want)
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, src := range map[string]*abi.Source{"nil": nil, "empty": {},
		"both": {Location: &abi.Location{}, Stream: io.NopCloser(strings.NewReader(""))}} {
		c := dial(t, fakePlugin(&fakeRSM{src: func(context.Context, *abi.SegmentMetadata, abi.Range) (*abi.Source, error) { return src, nil }}))
		configure(t, c)
		if f := fetch(t, context.Background(), c); !errors.Is(f.err, abi.Internal) {
			t.Errorf("%s: %+v, want INTERNAL", name, f)
		}
	}
}

// pingCounter is a connection that counts the HTTP/2 PING frames that come over it and are no answers to one.
type pingCounter struct {
	net.Conn
	header  []byte // of the frame that is on its way, 9 bytes when it is whole: RFC 9113, 4.1
	payload int    // bytes still to come of it
	pings   atomic.Int64
}

func (c *pingCounter) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for rest := b[:n]; len(rest) > 0; {
		if c.payload > 0 {
			skipped := min(c.payload, len(rest))
			c.payload, rest = c.payload-skipped, rest[skipped:]
			continue
		}
		c.header, rest = append(c.header, rest[0]), rest[1:]
		if len(c.header) < 9 {
			continue
		}
		const ping, ack = 6, 1
		if c.header[3] == ping && c.header[4]&ack == 0 {
			c.pings.Add(1)
		}
		c.payload = int(c.header[0])<<16 | int(c.header[1])<<8 | int(c.header[2])
		c.header = c.header[:0]
	}
	return n, err
}

// TestRequestsBringNoPings: gRPC pings with each request unless its windows stand, and host and plugin wake up once more for it.
func TestRequestsBringNoPings(t *testing.T) {
	var conn *pingCounter
	rsm := &fakeRSM{src: func(context.Context, *abi.SegmentMetadata, abi.Range) (*abi.Source, error) {
		return &abi.Source{Location: &abi.Location{Parts: []abi.Part{{Inline: []byte("hello")}}}}, nil
	}}
	c := dialThrough(t, newServer(fakePlugin(rsm)), func(nc net.Conn) net.Conn {
		conn = &pingCounter{Conn: nc}
		return conn
	})
	configure(t, c)
	for range 20 {
		if f := fetch(t, context.Background(), c); f.err != nil {
			t.Fatal(f.err)
		}
	}
	if n := conn.pings.Load(); n != 0 {
		t.Errorf("%d pings came with 20 answers", n)
	}
}

func TestIndex(t *testing.T) {
	c := dial(t, fakePlugin(&fakeRSM{index: func(t abi.IndexType) (*abi.Source, error) {
		return nil, abi.Errorf("fetch_index", t.String(), abi.NotFound, "none")
	}}))
	configure(t, c)
	st, err := c.FetchIndex(context.Background(), &abipb.FetchIndexRequest{Segment: abipb.FromSegment(segment), IndexType: 4})
	if err != nil {
		t.Fatal(err)
	}
	_, err = st.Recv()
	if e, _ := abipb.FromStatus("", "", err); !errors.Is(e, abi.NotFound) || e.Subject != "TRANSACTION" {
		t.Errorf("got %v", err)
	}
}

func TestDeadlineAndCancelReachTheBackend(t *testing.T) {
	seen := make(chan error, 1)
	c := dial(t, fakePlugin(&fakeRSM{src: func(ctx context.Context, _ *abi.SegmentMetadata, _ abi.Range) (*abi.Source, error) {
		<-ctx.Done()
		seen <- ctx.Err()
		return nil, ctx.Err()
	}}))
	configure(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if f := fetch(t, ctx, c); !errors.Is(f.err, abi.Deadline) {
		t.Errorf("got %v, want DEADLINE", f.err)
	}
	if err := <-seen; err == nil {
		t.Error("the backend's context did not end")
	}
}

// blockingReader gives a byte, then nothing until it is let go.
type blockingReader struct {
	started chan struct{}
	release chan struct{}
}

func (b *blockingReader) Read(p []byte) (int, error) {
	if b.started != nil {
		close(b.started)
		b.started = nil
		return copy(p, "x"), nil
	}
	<-b.release
	return 0, io.EOF
}

func TestDrainWaitsForStreams(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	c := dial(t, fakePlugin(streamOf(&blockingReader{started, release}, 1)))
	configure(t, c)
	got := make(chan fetched, 1)
	go func() { got <- fetch(t, context.Background(), c) }() // awaited below
	<-started
	if _, err := c.Drain(context.Background(), &abipb.DrainRequest{DeadlineMs: 1}); err != nil { // comes back at its deadline
		t.Error(err)
	}
	drained := make(chan error, 1)
	go func() { // awaited below
		_, err := c.Drain(context.Background(), &abipb.DrainRequest{DeadlineMs: 60_000})
		drained <- err
	}()
	select {
	case err := <-drained:
		t.Errorf("drained while a stream ran: %v", err)
	default:
	}
	close(release)
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if f := <-got; f.err != nil || string(f.data) != "x" {
		t.Errorf("the stream that ran: %q, %v", f.data, f.err)
	}
}

// TestStartedByAPerson runs this test binary as a plugin, without a host.
func TestStartedByAPerson(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = []string{"SDK_TEST_MAIN=1"}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || out.Len() != 0 {
		t.Errorf("%v, stdout %q, want exit status 2 and nothing on stdout", err, out.String())
	}
	if msg := errOut.String(); !strings.Contains(msg, "rsm-fake") || !strings.Contains(msg, "rsmhost --plugin "+exe) || strings.Count(msg, "\n") != 1 {
		t.Errorf("stderr %q", msg)
	}
}
