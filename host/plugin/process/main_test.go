package process

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
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/abipb"
	"github.com/rsmhost/rsmhost/abi/sdk"
)

const (
	pluginEnv = "RSM_TEST_PLUGIN" // this binary is a plugin of that kind
	hostEnv   = "RSM_TEST_HOST"   // this binary is a host of that kind
)

func TestMain(m *testing.M) {
	if kind := os.Getenv(pluginEnv); kind != "" {
		pluginMain(kind)
		os.Exit(0)
	}
	if kind := os.Getenv(hostEnv); kind != "" {
		hosts[kind]()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// pluginMain is the plugin of one kind. What a fetch does is said by the topic: see goodRSM.
func pluginMain(kind string) {
	switch kind {
	case "good":
		sdk.Main(testPlugin(nil))
	case "abi7":
		sdk.Main(testPlugin([]int32{7, 8}))
	case "loud":
		for range 2 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<20))
		}
		sdk.Main(testPlugin(nil))
	case "forker":
		fork("sleeper")
		sdk.Main(testPlugin(nil))
	case "daemonizer", "bare-daemonizer":
		forkTwice(kind == "bare-daemonizer")
		sdk.Main(testPlugin(nil))
	case "sleeper":
		hang()
	case "middle":
		fork("sleeper")
	case "banner":
		fmt.Println("hello from the plugin")
		sdk.Main(testPlugin(nil))
	case "babbler":
		os.Stdout.WriteString(strings.Repeat("x", 10<<20))
		hang()
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot find libfoo.so")
		os.Exit(3)
	case "silent":
		fmt.Fprintln(os.Stderr, "still loading")
		hang()
	case "version2":
		fmt.Println("1|2|unix|/nowhere|grpc|")
		hang()
	case "netrpc":
		fmt.Println("1|1|unix|/nowhere|netrpc|")
		hang()
	case "faraway":
		fmt.Println("1|1|tcp|192.0.2.1:80|grpc|")
		hang()
	case "deaf":
		ln := must(net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")))
		fmt.Printf("1|1|unix|%s|grpc|\n", ln.Addr())
		hang()
	case "raw", "raw-tcp":
		rawMain(kind)
	case "goplugin":
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig: plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: abipb.CookieKey, MagicCookieValue: abipb.CookieValue},
			Plugins:         plugin.PluginSet{"rsm": vendorPlugin{}},
			GRPCServer:      plugin.DefaultGRPCServer,
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fork starts another of this binary that leaves the process group and keeps standard error.
func fork(kind string) {
	cmd := exec.Command(must(os.Executable()))
	cmd.Env = []string{pluginEnv + "=" + kind}
	if dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR"); dir != "" {
		cmd.Env = append(cmd.Env, "PLUGIN_UNIX_SOCKET_DIR="+dir)
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, "forked", cmd.Process.Pid)
}

// forkTwice makes a daemon: in a session of its own, without its parent. A bare one has neither environment nor directory of the plugin.
func forkTwice(bare bool) {
	cmd := exec.Command(must(os.Executable()))
	cmd.Env = append(os.Environ(), pluginEnv+"=middle")
	if bare {
		cmd.Env, cmd.Dir = []string{pluginEnv + "=middle"}, "/"
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		panic(err)
	}
}

func testPlugin(versions []int32) sdk.Plugin {
	return sdk.Plugin{
		Info: abi.Info{Name: "test", Vendor: "rsmhost", Version: "1.0.0", ABIVersions: versions,
			Schema: []byte(`{"properties": {"root": {"x-grant": "fs.read"}}}`)},
		New: func(_ context.Context, c *sdk.Config) (abi.RemoteStorageManager, error) {
			if c.Value("fail") != "" {
				return nil, abi.E("configure", "fail", abi.Invalid, abi.Text(c.Value("fail")))
			}
			if secret, ok := c.Secret("key"); ok {
				fmt.Fprintln(os.Stderr, "the secret is", secret)
			}
			return &goodRSM{config: c}, nil
		},
	}
}

// goodRSM does in a fetch what the topic says.
type goodRSM struct{ config *sdk.Config }

var wholeError = &abi.Error{Op: "GET", Subject: "bucket/key", Kind: abi.Throttled, Status: 503, RequestID: "r-1", RetryAfter: 2 * time.Second,
	Err: &abi.Error{Kind: abi.Unavailable, Err: abi.Text("inner")}}

func (g *goodRSM) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, r abi.Range) (*abi.Source, error) {
	switch seg.Topic {
	case "location":
		return &abi.Source{OriginalSize: 5, Location: &abi.Location{Parts: []abi.Part{{Inline: []byte("hello")}}}}, nil
	case "stream": // of as many bytes as the partition says
		return &abi.Source{OriginalSize: int64(seg.Partition), Stream: io.NopCloser(io.LimitReader(&counting{}, int64(seg.Partition)))}, nil
	case "zeros":
		return &abi.Source{OriginalSize: int64(seg.Partition), Stream: io.NopCloser(io.LimitReader(zeros{}, int64(seg.Partition)))}, nil
	case "endless":
		return &abi.Source{OriginalSize: -1, Stream: io.NopCloser(&counting{})}, nil
	case "stalled":
		return &abi.Source{OriginalSize: -1, Stream: stalledReader{ctx}}, nil
	case "error":
		return nil, wholeError
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "exit":
		fmt.Fprintln(os.Stderr, "I was told to go")
		os.Exit(7)
	case "panic":
		go func() { panic("out of cheese") }()
		select {}
	case "print":
		fmt.Println("noise on standard output")
		fmt.Println(strings.Repeat("y", 1<<20))
		return &abi.Source{Stream: io.NopCloser(strings.NewReader("printed"))}, nil
	case "report": // on what the plugin can see
		cwd, _ := os.Getwd()
		in, _ := io.ReadAll(os.Stdin)
		report := strings.Join(os.Environ(), "\n") + "\ncwd=" + cwd + "\nstdin=" + strconv.Itoa(len(in)) + "\nroot=" + g.config.Value("root")
		return &abi.Source{Stream: io.NopCloser(strings.NewReader(report))}, nil
	}
	return nil, abi.Errorf("fetch", seg.Topic, abi.NotFound, "no such topic")
}

func (*goodRSM) FetchIndex(_ context.Context, seg *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	return &abi.Source{Stream: io.NopCloser(strings.NewReader(seg.Topic + " " + t.String()))}, nil
}

func (*goodRSM) Probe(context.Context) error {
	return abi.E("probe", "root", abi.NotFound, abi.Text("nothing there"))
}

// counting gives bytes that tell where they are.
type counting struct{ at int }

func (c *counting) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = pattern(c.at + i)
	}
	c.at += len(p)
	return len(p), nil
}

func pattern(at int) byte { return byte(at ^ at>>8 ^ at>>16) }

// stalledReader gives nothing until its call is over.
type stalledReader struct{ ctx context.Context }

func (s stalledReader) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
func (s stalledReader) Close() error             { return nil }

// rawMain is a plugin without the SDK, as another language would have it: a gRPC server and a line. It ends by a signal.
func rawMain(kind string) {
	ln, line := net.Listener(nil), "1|1|unix|%s|grpc|\n"
	if kind == "raw-tcp" {
		ln, line = must(net.Listen("tcp", "127.0.0.1:0")), "1|1|tcp|%s|grpc|\n"
	} else {
		ln = must(net.Listen("unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")))
	}
	g := grpc.NewServer()
	abipb.RegisterRemoteStorageManagerServer(g, rawServer{})
	fmt.Printf(line, ln.Addr())
	g.Serve(ln)
}

// rawServer speaks the protocol, or breaks it as the topic says. It has no Drain, no Probe, no health.
type rawServer struct {
	abipb.UnimplementedRemoteStorageManagerServer
}

func (rawServer) Describe(context.Context, *abipb.DescribeRequest) (*abipb.Info, error) {
	return &abipb.Info{Name: "raw", AbiVersions: []int32{1, 9}}, nil
}

func (rawServer) Configure(context.Context, *abipb.ConfigureRequest) (*abipb.ConfigureReply, error) {
	return &abipb.ConfigureReply{AbiVersion: 1}, nil
}

func (rawServer) FetchLogSegment(req *abipb.FetchLogSegmentRequest, st grpc.ServerStreamingServer[abipb.FetchReply]) error {
	source := &abipb.FetchReply{Reply: &abipb.FetchReply_Source{Source: &abipb.Source{OriginalSize: 3}}}
	data := &abipb.FetchReply{Reply: &abipb.FetchReply_Data{Data: []byte("abc")}}
	end := func(n int64, sum uint32) *abipb.FetchReply {
		return &abipb.FetchReply{Reply: &abipb.FetchReply_End{End: &abipb.End{BytesSent: n, Crc32C: sum}}}
	}
	big := func(n int) *abipb.FetchReply {
		return &abipb.FetchReply{Reply: &abipb.FetchReply_Data{Data: bytes.Repeat([]byte("x"), n)}}
	}
	const sum = 0x364b3fb7 // CRC-32C of "abc"
	location := &abipb.FetchReply{Reply: &abipb.FetchReply_Source{Source: &abipb.Source{Location: &abipb.Location{}}}}
	replies := map[string][]*abipb.FetchReply{
		"good":             {source, data, end(3, sum)},
		"unknown reply":    {source, {}, data, end(3, sum)},
		"no answer":        {},
		"data first":       {data},
		"end first":        {end(0, 0)},
		"no end":           {source, data},
		"wrong length":     {source, data, end(4, sum)},
		"wrong checksum":   {source, data, end(3, sum+1)},
		"second source":    {source, data, source},
		"data after end":   {source, data, end(3, sum), data},
		"frame of 1 MiB":   {source, big(1 << 20), end(1<<20, crc32.Checksum(bytes.Repeat([]byte("x"), 1<<20), castagnoli))},
		"frame too large":  {source, big(1<<20 + 1)},
		"message too big":  {source, big(5 << 20)},
		"data on location": {location, data},
	}
	topic := req.GetSegment().GetTopic()
	if code, ok := strings.CutPrefix(topic, "code "); ok {
		n, _ := strconv.Atoi(code)
		return status.Error(codes.Code(n), "words")
	}
	for _, m := range replies[topic] {
		if err := st.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// vendorPlugin is a plugin of somebody who uses go-plugin itself.
type vendorPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (vendorPlugin) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	abipb.RegisterRemoteStorageManagerServer(g, vendorServer{})
	return nil
}

func (vendorPlugin) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not a client")
}

// vendorServer prints more than a pipe holds, which go-plugin's server catches.
type vendorServer struct{ rawServer }

func (v vendorServer) FetchLogSegment(req *abipb.FetchLogSegmentRequest, st grpc.ServerStreamingServer[abipb.FetchReply]) error {
	for i := range 2000 {
		fmt.Println("vendor says", i, strings.Repeat("z", 100))
	}
	return v.rawServer.FetchLogSegment(req, st)
}

// hostMain is a host that begins to read a stream, says so with the plugin's id, and waits to be killed.
// hosts are the kinds of hosts.
var hosts = map[string]func(){"victim": hostMain, "parent": orphansHost, "daemons": daemonsHost}

// orphansHost takes orphans, and ends a plugin that left one that nothing marks.
func orphansHost() {
	if err := TakeOrphans(); err != nil {
		panic(err)
	}
	p := must(Start(context.Background(), Options{Path: must(os.Executable()), Name: "bare", Env: []string{pluginEnv + "=bare-daemonizer"}}))
	daemon := forked(p)
	bystander := exec.Command("sleep", "60") // a command of this program's own, as one that gives a secret
	if err := bystander.Start(); err != nil {
		panic(err)
	}
	defer bystander.Process.Kill()
	p.Close(context.Background())
	fmt.Println(running(daemon), running(bystander.Process.Pid))
}

// daemonsHost has a plugin that left a daemon, until it is killed.
func daemonsHost() {
	p := must(Start(context.Background(), Options{Path: must(os.Executable()), Name: "daemons", Env: []string{pluginEnv + "=daemonizer"}}))
	fmt.Println(forked(p), p.dir.path)
	hang()
}

// forked waits for what a plugin says that it forked.
func forked(p *Plugin) (pid int) {
	for {
		if n, _ := fmt.Sscanf(strings.Join(p.StderrTail(), "\n"), "forked %d", &pid); n == 1 {
			return pid
		}
		runtime.Gosched()
	}
}

func hostMain() {
	p := must(Start(context.Background(), Options{Path: must(os.Executable()), Name: "victim", Env: []string{pluginEnv + "=good"}}))
	if err := p.Configure(context.Background(), nil, nil, nil); err != nil {
		panic(err)
	}
	src := must(p.FetchLogSegment(context.Background(), segment("endless", 0), abi.Range{End: abi.ToEnd}))
	if _, err := io.ReadFull(src.Stream, make([]byte, 1<<20)); err != nil {
		panic(err)
	}
	fmt.Println(p.Pid(), p.dir.path)
	hang() // the plugin is held up by the window; this side neither reads nor ends
}

// hang blocks until the process is killed. An empty select would be called a deadlock.
func hang() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	r.Read(make([]byte, 1))
	w.Close()
}

func segment(topic string, partition int32) *abi.SegmentMetadata {
	return &abi.SegmentMetadata{TopicIDPartition: abi.TopicIDPartition{Topic: topic, TopicID: abi.UUID{1}, Partition: partition}, SegmentID: abi.UUID{2}}
}

// zeros costs nothing, so that a benchmark sees the way and not the source.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
