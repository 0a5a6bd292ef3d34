package e2e

import (
	"context"
	"io"
	"os"
	"strconv"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
)

// stallingPlugin writes its process id into the file that its setting names, at the moment when the host waits for the
// bytes of a segment; they never come.
func stallingPlugin() sdk.Plugin {
	return sdk.Plugin{
		Info: abi.Info{Name: "stalls", Version: "0.0.0", Schema: []byte(`{"properties": {"pidfile": {"type": "string"}}}`)},
		New: func(_ context.Context, c *sdk.Config) (abi.RemoteStorageManager, error) {
			return stalling{pidfile: c.Value("pidfile")}, nil
		},
	}
}

type stalling struct{ pidfile string }

func (s stalling) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, _ abi.Range) (*abi.Source, error) {
	return &abi.Source{OriginalSize: seg.SizeBytes, Stream: &stalledStream{s.pidfile, ctx.Done()}}, nil
}

func (stalling) FetchIndex(_ context.Context, seg *abi.SegmentMetadata, _ abi.IndexType) (*abi.Source, error) {
	return nil, abi.Errorf("fetch_index", seg.Key(), abi.NotFound, "there is none")
}

// stalledStream gives some bytes and then none until its call is over.
type stalledStream struct {
	pidfile string
	over    <-chan struct{}
}

func (s *stalledStream) Read(p []byte) (int, error) {
	if err := os.WriteFile(s.pidfile+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return 0, err
	}
	if err := os.Rename(s.pidfile+".new", s.pidfile); err != nil {
		return 0, err
	}
	<-s.over
	return 0, io.ErrUnexpectedEOF
}

func (*stalledStream) Close() error { return nil }
