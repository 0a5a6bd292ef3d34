package sdk

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// TestThreads: a plugin that tells where bytes lie runs on one thread, and one that brings them on all, from its first
// stream on. What the environment says stands.
func TestThreads(t *testing.T) {
	runtime.SetDefaultGOMAXPROCS()
	all := runtime.GOMAXPROCS(0)
	t.Cleanup(runtime.SetDefaultGOMAXPROCS)
	for _, tt := range []struct {
		env           string
		before, after int
	}{{"", 1, all}, {"3", 3, 3}} {
		t.Setenv(threadsEnv, tt.env)
		runtime.GOMAXPROCS(3) // as the runtime would have done by the environment
		oneThread()
		stream := false
		s := newServer(fakePlugin(&fakeRSM{src: func(context.Context, *abi.SegmentMetadata, abi.Range) (*abi.Source, error) {
			if stream {
				return &abi.Source{OriginalSize: 5, Stream: io.NopCloser(bytes.NewReader([]byte("hello")))}, nil
			}
			return &abi.Source{OriginalSize: 5, Location: &abi.Location{Parts: []abi.Part{{Inline: []byte("hello")}}}}, nil
		}}))
		s.brings = sync.OnceFunc(allThreads)
		c := dialServer(t, s)
		configure(t, c)
		for _, want := range []int{tt.before, tt.after} {
			if f := fetch(t, context.Background(), c); f.err != nil {
				t.Fatal(f.err)
			}
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("GOMAXPROCS=%s, stream %v: %d threads, want %d", tt.env, stream, got, want)
			}
			stream = true
		}
	}
}
