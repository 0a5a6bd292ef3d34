//go:build !wasip1

package sdk

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/abipb"
)

// phase is where a plugin stands in its life. It only grows, except that a configuration that failed may be tried again.
type phase int

const (
	described phase = iota
	configuring
	ready
	draining
)

func (p phase) String() string {
	return [...]string{"not configured", "being configured", "configured", "draining"}[p]
}

// server answers the calls of the contract with one Plugin.
type server struct {
	abipb.UnimplementedRemoteStorageManagerServer
	plugin Plugin
	brings func() // is called before the plugin brings bytes itself; nil: nobody wants to know

	mu    sync.Mutex
	phase phase
	rsm   abi.RemoteStorageManager // since ready
	frame int                      // bytes of a data reply, since ready
	calls int                      // that run now
	idle  chan struct{}            // made by Drain where calls run, closed when the last ends
}

func newServer(p Plugin) *server {
	if len(p.Info.ABIVersions) == 0 {
		p.Info.ABIVersions = []int32{abi.Version}
	}
	return &server{plugin: p}
}

// Describe says what the plugin is. What its backend can do beside is known once there is one.
func (s *server) Describe(context.Context, *abipb.DescribeRequest) (*abipb.Info, error) {
	info := s.plugin.Info
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rsm != nil {
		_, can := s.rsm.(abi.Prober)
		has := slices.Contains(info.Features, featureProbe)
		switch {
		case can && !has:
			info.Features = append(slices.Clone(info.Features), featureProbe)
		case has && !can:
			info.Features = slices.DeleteFunc(slices.Clone(info.Features), func(f string) bool { return f == featureProbe })
		}
	}
	return abipb.FromInfo(info), nil
}

const featureProbe = "probe"

// Configure makes the backend.
func (s *server) Configure(ctx context.Context, req *abipb.ConfigureRequest) (*abipb.ConfigureReply, error) {
	if err := s.step(described, configuring); err != nil {
		return nil, abipb.ToStatus(err)
	}
	rsm, err := s.newBackend(ctx, req)
	if err := s.configured(rsm, frameSize(req.GetMaxFrame()), err); err != nil {
		return nil, abipb.ToStatus(abi.AsError("configure", "", err))
	}
	return &abipb.ConfigureReply{AbiVersion: req.GetAbiVersion()}, nil
}

// configured ends the phase in which the backend is made. A drain in the meantime stands.
func (s *server) configured(rsm abi.RemoteStorageManager, frame int, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase != configuring:
		return abi.Errorf("configure", "", abi.Phase, "the plugin is %v", s.phase)
	case err != nil:
		s.phase = described
		return err
	}
	s.phase, s.rsm, s.frame = ready, rsm, frame
	return nil
}

// step goes from one phase to the next, or reports PHASE.
func (s *server) step(from, to phase) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != from {
		return abi.Errorf("configure", "", abi.Phase, "the plugin is %v; it is configured once", s.phase)
	}
	s.phase = to
	return nil
}

func (s *server) newBackend(ctx context.Context, req *abipb.ConfigureRequest) (abi.RemoteStorageManager, error) {
	if !slices.Contains(s.plugin.Info.ABIVersions, req.GetAbiVersion()) {
		return nil, abi.Errorf("configure", "abi_version", abi.Unsupported, "the host chose version %d of the contract, this plugin speaks %v",
			req.GetAbiVersion(), s.plugin.Info.ABIVersions)
	}
	values := abipb.ToSettings(req.GetValues())
	dirs, err := grantedDirs(s.plugin.Info.Schema, values)
	if err != nil {
		return nil, err
	}
	c, err := NewConfig(values, abipb.ToSettings(req.GetSecrets()), dirs)
	if err != nil {
		return nil, err
	}
	rsm, err := s.plugin.New(ctx, c)
	if err != nil {
		c.Close()
		return nil, err
	}
	return rsm, nil // which keeps c until the process ends
}

// grantedDirs gives the directories that the settings themselves grant: those whose schema says "x-grant": "fs.read".
func grantedDirs(schema []byte, values map[string]string) (map[string]string, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	var doc struct {
		Properties map[string]struct {
			Grant string `json:"x-grant"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(schema, &doc); err != nil {
		return nil, abi.Errorf("configure", "schema", abi.Internal, "the plugin's schema is not JSON: %w", err)
	}
	dirs := map[string]string{}
	for name, p := range doc.Properties {
		if p.Grant == "fs.read" && values[name] != "" {
			dirs[name] = values[name]
		}
	}
	return dirs, nil
}

// frameSize is the size of a data reply that the host can take.
func frameSize(limit int32) int {
	if limit <= 0 {
		return abipb.DefaultFrame
	}
	return min(int(limit), abipb.DefaultFrame)
}

// enter begins a call of the backend. The error is PHASE where there is none; else the caller owes a leave.
func (s *server) enter(op string) (abi.RemoteStorageManager, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != ready {
		return nil, abi.Errorf(op, "", abi.Phase, "the plugin is %v", s.phase)
	}
	s.calls++
	return s.rsm, nil
}

func (s *server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// FetchLogSegment answers with a Source, and with its bytes where it is a stream.
func (s *server) FetchLogSegment(req *abipb.FetchLogSegmentRequest, st grpc.ServerStreamingServer[abipb.FetchReply]) error {
	return s.fetch("fetch_log_segment", req.GetSegment(), st,
		func(ctx context.Context, rsm abi.RemoteStorageManager, seg *abi.SegmentMetadata) (*abi.Source, error) {
			return rsm.FetchLogSegment(ctx, seg, abi.Range{Start: req.GetStart(), End: req.GetEnd()})
		})
}

// FetchIndex does the same for an index.
func (s *server) FetchIndex(req *abipb.FetchIndexRequest, st grpc.ServerStreamingServer[abipb.FetchReply]) error {
	return s.fetch("fetch_index", req.GetSegment(), st,
		func(ctx context.Context, rsm abi.RemoteStorageManager, seg *abi.SegmentMetadata) (*abi.Source, error) {
			return rsm.FetchIndex(ctx, seg, abi.IndexType(req.GetIndexType()))
		})
}

func (s *server) fetch(op string, msg *abipb.SegmentMetadata, st grpc.ServerStream,
	call func(context.Context, abi.RemoteStorageManager, *abi.SegmentMetadata) (*abi.Source, error)) error {
	rsm, err := s.enter(op)
	if err != nil {
		return abipb.ToStatus(err)
	}
	defer s.leave()
	seg, err := msg.ToABI()
	if err != nil {
		return abipb.ToStatus(err)
	}
	src, err := call(st.Context(), rsm, seg)
	if err != nil {
		return abipb.ToStatus(abi.AsError(op, seg.Key(), err))
	}
	defer src.Close()
	if src == nil || (src.Location == nil) == (src.Stream == nil) {
		return abipb.ToStatus(abi.Errorf(op, seg.Key(), abi.Internal, "the plugin's answer is not either a location or a stream"))
	}
	if err := st.SendMsg(sourceFrame(src)); err != nil || src.Stream == nil {
		return err
	}
	if s.brings != nil {
		s.brings()
	}
	return s.sendStream(op, seg, st, src.Stream)
}

func sourceFrame(src *abi.Source) *abipb.Frame {
	return &abipb.Frame{Reply: &abipb.FetchReply{Reply: &abipb.FetchReply_Source{Source: abipb.FromSource(src)}}}
}

// minFrame is what a frame waits for before it is sent. Less would cost more in calls than it gains in time.
const minFrame = 64 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sendStream sends r in frames, and an End that lets the host tell a whole stream from a cut one.
func (s *server) sendStream(op string, seg *abi.SegmentMetadata, st grpc.ServerStream, r io.Reader) error {
	var end abipb.End
	r = &patientReader{r: r, alive: st.Context().Err}
	for {
		buf := frames.Get(s.frame)
		n, err := io.ReadAtLeast(r, *buf, min(minFrame, s.frame))
		*buf = (*buf)[:n]
		end.BytesSent += int64(n)
		end.Crc32C = crc32.Update(end.Crc32C, castagnoli, *buf)
		if n == 0 {
			frames.Put(buf)
		} else if err := st.SendMsg(abipb.DataFrame(mem.NewBuffer(buf, frames))); err != nil {
			return err
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF: // of ReadAtLeast: the stream's end
			return st.SendMsg(&abipb.Frame{Reply: &abipb.FetchReply{Reply: &abipb.FetchReply_End{End: &end}}})
		default:
			return abipb.ToStatus(abi.AsError(op, seg.Key(), err))
		}
	}
}

// patientReader ends a loop around a reader that gives nothing: when the call is over, and after many empty reads.
type patientReader struct {
	r     io.Reader
	alive func() error
	empty int
}

func (p *patientReader) Read(b []byte) (int, error) {
	if err := p.alive(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	if n > 0 || err != nil {
		p.empty = 0
		return n, eofIsEnd(err)
	}
	if p.empty++; p.empty == 100 {
		return 0, io.ErrNoProgress
	}
	return 0, nil
}

// eofIsEnd keeps the reader's own io.ErrUnexpectedEOF, a truncation, apart from the one that io.ReadAtLeast makes of io.EOF.
func eofIsEnd(err error) error {
	if err == io.ErrUnexpectedEOF {
		return abi.E("read", "", abi.Corrupt, err)
	}
	return err
}

// Probe runs the backend's self-test.
func (s *server) Probe(ctx context.Context, _ *abipb.ProbeRequest) (*abipb.ProbeReply, error) {
	rsm, err := s.enter("probe")
	if err != nil {
		return nil, abipb.ToStatus(err)
	}
	defer s.leave()
	prober, ok := rsm.(abi.Prober)
	if !ok {
		return nil, abipb.ToStatus(abi.Errorf("probe", "", abi.Unsupported, "the plugin has no self-test"))
	}
	if err := prober.Probe(ctx); err != nil {
		return nil, abipb.ToStatus(abi.AsError("probe", "", err))
	}
	return &abipb.ProbeReply{}, nil
}

// Drain takes no more calls, and waits for those that run until the deadline.
func (s *server) Drain(ctx context.Context, req *abipb.DrainRequest) (*abipb.DrainReply, error) {
	idle := s.drain()
	if idle == nil {
		return &abipb.DrainReply{}, nil
	}
	timer := time.NewTimer(time.Duration(req.GetDeadlineMs()) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-ctx.Done():
	}
	return &abipb.DrainReply{}, nil
}

// drain ends the phase in which calls are taken, and gives what is closed when the last has ended; nil: none runs.
func (s *server) drain() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = draining
	if s.calls > 0 && s.idle == nil {
		s.idle = make(chan struct{})
	}
	return s.idle
}

// frames keeps the buffers of data replies. gRPC's own pool has no class between 32 KiB and 1 MiB, and clears what it
// lends.
var frames = &framePool{}

type framePool struct{ pool sync.Pool }

// Get lends a buffer of n bytes with whatever is in it.
func (p *framePool) Get(n int) *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok && cap(*b) >= n {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n)
	return &b
}

// Put takes a buffer back.
func (p *framePool) Put(b *[]byte) { p.pool.Put(b) }
