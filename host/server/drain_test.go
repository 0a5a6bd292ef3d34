package server

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/host"
	"github.com/rsmhost/rsmhost/host/access"
	"github.com/rsmhost/rsmhost/internal/hammer"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/internal/memrsm"
)

// TestShutdownInTheMiddle: clients that stopped reading in the middle of an answer, of files, of memory or of TLS, don't hold
// up the end of the server beyond the time it has, and nothing of their answers is left.
func TestShutdownInTheMiddle(t *testing.T) {
	seg := kafkabytes.NewSegment(t, tp("orders"), 1, kafkabytes.Batch{Base: 0, Last: 9, Size: 24 << 20})
	dir, meta := t.TempDir(), t.TempDir()
	kafkabytes.WriteLog(t, dir, tp("orders"), seg)
	kafkabytes.WriteMetadata(t, meta, kafkabytes.Finished(seg)...)
	files := host.Config{LogDirs: []string{dir}}
	k := newKeep(t)
	var encrypted access.Options
	k.tls(&encrypted)
	for name, tt := range map[string]struct {
		cfg    host.Config
		access access.Options
		dial   func(address string) (net.Conn, error)
	}{
		"files":  {files, access.Options{}, func(a string) (net.Conn, error) { return net.Dial("tcp", a) }},
		"memory": {host.Config{RSM: memrsm.New(memrsm.Inline, seg), Metadata: "dir:" + meta}, access.Options{}, func(a string) (net.Conn, error) { return net.Dial("tcp", a) }},
		"TLS":    {files, encrypted, func(a string) (net.Conn, error) { return tls.Dial("tcp", a, k.client(pkix.Name{})) }},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := access.New(tt.access)
			if err != nil {
				t.Fatal(err)
			}
			v := serveHost(t, tt.cfg, Options{Access: who})
			for range 3 {
				nc, err := tt.dial(v.address)
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				(&wire{t, nc}).send(frame(fetchOf(v.host.Topics()[0], 0, 0), 1))
			}
			hammer.Eventually(t, 10*time.Second, func() bool { return v.unsent.count() == 3 })
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := v.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("it took %v", took)
			}
			if used, _ := v.host.MemoryInUse(); used != 0 || v.unsent.count() != 0 {
				t.Errorf("%d bytes and %d answers are left", used, v.unsent.count())
			}
		})
	}
}
