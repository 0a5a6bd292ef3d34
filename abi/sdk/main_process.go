//go:build !wasip1

package sdk

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rsmhost/rsmhost/abi/abipb"
)

// Main runs p for the host that started this process, and ends the process when the host is done with it or gone. It
// never returns. Started by a person, it says what it is and exits with status 2.
//
// Standard output belongs to the handshake: from here on, what is printed there goes to standard error. As long as p answers
// with locations alone, one of its threads runs at a time, and from its first stream on as many as there are cores; GOMAXPROCS in
// the environment wins.
func Main(p Plugin) {
	if os.Getenv(abipb.CookieKey) != abipb.CookieValue {
		fmt.Fprintf(os.Stderr, "%s is a storage plugin and does nothing by itself; rsmhost runs it: rsmhost --plugin %s\n",
			p.Info.Name, selfPath())
		os.Exit(2)
	}
	if err := serve(p); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Info.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func selfPath() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return os.Args[0]
}

// serve speaks go-plugin's protocol: a line on standard output that says where the gRPC server listens, then gRPC. It
// returns when the host is gone.
func serve(p Plugin) error {
	if os.Getenv("PLUGIN_CLIENT_CERT") != "" {
		return fmt.Errorf("the host asks for TLS (AutoMTLS); this plugin serves on a private socket without it")
	}
	out, err := takeStdout()
	if err != nil {
		return fmt.Errorf("cannot set standard output aside: %w", err)
	}
	gone, err := watchHost()
	if err != nil {
		return err
	}
	ln, remove, err := listen(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	defer remove()
	signal.Ignore(os.Interrupt) // meant for the host, which shares the terminal

	s := newServer(p)
	oneThread()
	s.brings = sync.OnceFunc(allThreads)
	g := s.grpcServer()
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }() // ends with g.Stop, and is awaited below
	// 1 is the version of go-plugin's own protocol. The last field would be a certificate.
	if _, err := fmt.Fprintf(out, "1|%d|unix|%s|grpc|\n", abipb.HandshakeVersion, ln.Addr()); err != nil {
		g.Stop()
		<-served
		return fmt.Errorf("cannot write the handshake: %w", err)
	}
	out.Close()
	select {
	case <-gone:
		g.Stop()
		<-served
		return nil
	case err := <-served:
		return fmt.Errorf("the server ended: %w", err)
	}
}

// streamWorkers is how many goroutines stay to answer calls, with stacks that have grown to what a call needs. What comes
// beyond them gets goroutines of its own.
const streamWorkers = 16

// requestWindow is what may come of requests before they are read. It stands because gRPC would measure the connection
// otherwise: a ping with every request, and an answer to it, which both sides wake up for.
const requestWindow = 1 << 20

// grpcServer makes a server with all that a host of go-plugin's protocol looks for.
func (s *server) grpcServer() *grpc.Server {
	g := grpc.NewServer(
		grpc.ForceServerCodecV2(abipb.Codec{}),
		grpc.WriteBufferSize(abipb.DefaultFrame), // one system call for a frame instead of eight
		grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticStreamWindowSize(requestWindow),
		grpc.StaticConnWindowSize(requestWindow),
	)
	abipb.RegisterRemoteStorageManagerServer(g, s)
	h := health.NewServer()
	h.SetServingStatus(abipb.HealthService, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(g, h)
	return g
}

// takeStdout gives standard output under another descriptor, and lets descriptor 1 lead to standard error.
func takeStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "handshake"), unix.Dup2(2, 1)
}

// listen makes the socket in dir, which the host made for this process alone, or in a new private directory.
func listen(dir string) (ln net.Listener, remove func(), err error) {
	remove = func() {}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "rsm"); err != nil {
			return nil, nil, err
		}
		remove = func() { os.RemoveAll(dir) }
	}
	// A short name: the whole path must fit in some hundred bytes.
	if ln, err = net.Listen("unix", filepath.Join(dir, "s")); err != nil {
		remove()
		return nil, nil, err
	}
	return ln, remove, nil
}

// parentPoll is how often a plugin without a lifeline looks whether its parent is still the same.
const parentPoll = time.Second

// watchHost gives a channel that is closed when the host is gone: at the end of the lifeline, a pipe that the host holds
// open, or without one when the parent process is another. Its goroutine lives as long as the process.
func watchHost() (<-chan struct{}, error) {
	gone := make(chan struct{})
	name := os.Getenv(abipb.LifelineEnv)
	if name == "" {
		parent := os.Getppid()
		go func() {
			for range time.Tick(parentPoll) {
				if os.Getppid() != parent {
					close(gone)
					return
				}
			}
		}()
		return gone, nil
	}
	fd, err := strconv.Atoi(name)
	if err != nil || fd < 3 {
		return nil, fmt.Errorf("%s=%s names no inherited descriptor", abipb.LifelineEnv, name)
	}
	unix.CloseOnExec(fd)
	pipe := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		io.Copy(io.Discard, pipe) // nothing is ever written; any end is the end
		close(gone)
	}()
	return gone, nil
}
