package process

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/abipb"
)

// child is one process and its descendants. It is the runner that go-plugin starts.
//
// Its goroutines: supervise, which forks, waits and reaps; and a reader each for standard output and error. All end with
// the process, the readers at the latest pipeWait after it, whoever still holds the pipes.
type child struct {
	name string
	cmd  *exec.Cmd
	out  *lines

	handshake io.ReadCloser // what go-plugin reads: the first line of standard output
	lifeline  *os.File      // the end that the host holds; nil before the start
	exited    chan struct{} // closed when it is reaped and what it wrote was read

	mu struct {
		sync.Mutex
		pid    int    // 0 before the start
		doomed bool   // killed, perhaps before there was a process
		first  string // line of standard output
		wrote  bool   // there was a first
		reaped bool   // the pid may belong to somebody else
		state  *os.ProcessState
		seen   []found // descendants, when its end was begun
	}
}

// pids are processes that this package started and did not reap.
type pids struct {
	mu    sync.Mutex
	known map[int]bool
}

var started = pids{known: map[int]bool{}}

func (p *pids) forget(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, pid)
}

func (p *pids) has(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[pid]
}

// start forks the process. Until it is reaped it is among started, from before anybody can see it.
func (p *pids) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		p.known[cmd.Process.Pid] = true
	}
	return err
}

// pipeWait is how long a dead process's pipes are read. A descendant that left the group may hold them for ever.
const pipeWait = 300 * time.Millisecond

var _ runner.Runner = (*child)(nil)

// newChild makes a child that is not started. Its environment is set before the start.
func newChild(name, path, dir string, log *slog.Logger) *child {
	return &child{name: name, out: newLines(name, log), exited: make(chan struct{}),
		cmd: &exec.Cmd{Path: path, Args: []string{path}, Dir: dir, SysProcAttr: sysProcAttr()}}
}

// Start runs the process. It returns once the process exists, or does not.
func (c *child) Start(context.Context) error {
	var pipes [3]struct{ r, w *os.File } // standard output, standard error, lifeline
	for i := range pipes {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(pipes[0].r, pipes[0].w, pipes[1].r, pipes[1].w)
			return err
		}
		pipes[i].r, pipes[i].w = r, w
	}
	stdout, stderr, life := pipes[0], pipes[1], pipes[2]
	c.cmd.Stdout, c.cmd.Stderr = stdout.w, stderr.w
	c.cmd.ExtraFiles = []*os.File{life.r} // descriptor 3
	c.cmd.Env = append(c.cmd.Env, abipb.LifelineEnv+"=3")

	begun := make(chan error, 1)
	go c.supervise(begun, stdout.r, stderr.r)
	err := <-begun
	closeAll(stdout.w, stderr.w, life.r)
	if err != nil {
		closeAll(stdout.r, stderr.r, life.w)
		return err
	}
	c.lifeline = life.w
	return nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// supervise forks the process and stays with it to its end. It keeps one thread for all that time: the kernel's signal at
// the parent's death is tied to the thread that forked, and threads of the Go runtime may end before the host does.
func (c *child) supervise(begun chan<- error, stdout, stderr *os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := started.start(c.cmd); err != nil {
		begun <- err
		return
	}
	c.begun(c.cmd.Process.Pid)
	handshake, w := io.Pipe()
	c.handshake = handshake
	var readers sync.WaitGroup
	readers.Go(func() { c.readStdout(stdout, w) })
	readers.Go(func() { c.out.drain(bufio.NewReaderSize(stderr, maxLine)) })
	begun <- nil

	c.reap()
	timer := time.AfterFunc(pipeWait, func() { closeAll(stdout, stderr) })
	readers.Wait()
	timer.Stop()
	closeAll(stdout, stderr)
	close(c.exited)
}

func (c *child) begun(pid int) {
	c.out.setPid(pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.pid = pid
	if c.mu.doomed {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
}

// endGroup kills what the process left in its group, for the last time that the group's number is known to be its own.
func (c *child) endGroup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	syscall.Kill(-c.mu.pid, syscall.SIGKILL)
	c.mu.reaped = true
}

// noteDescendants takes note of what descends from the process while it lives: at its end they lose their parent.
func (c *child) noteDescendants() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.pid != 0 && !c.mu.reaped {
		c.mu.seen = append(c.mu.seen, descendants(c.mu.pid)...)
	}
}

// endDescendants ends what left the process's group.
func (c *child) endDescendants() {
	c.mu.Lock()
	seen := c.mu.seen
	c.mu.Unlock()
	endLeft(c.cmd.Dir, seen)
}

// wait reaps the process.
func (c *child) wait() {
	c.cmd.Wait() // its error is in the state
	started.forget(c.cmd.Process.Pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.state = c.cmd.ProcessState
}

// readStdout hands the first line to go-plugin, as the handshake, and everything after it to the log. What does not end
// within maxLine bytes is no handshake, and is not waited for.
func (c *child) readStdout(r io.Reader, handshake *io.PipeWriter) {
	br := bufio.NewReaderSize(r, maxLine)
	first, err := br.ReadSlice('\n')
	line, full := strings.TrimRight(string(first), "\r\n"), errors.Is(err, bufio.ErrBufferFull)
	if err == nil || line != "" {
		c.mu.Lock()
		c.mu.first, c.mu.wrote = line, true
		c.mu.Unlock()
		io.WriteString(handshake, line+"\n") // go-plugin reads to the end, also when it has given up
	}
	handshake.Close()
	if err == nil || full {
		c.out.drain(br)
	}
}

// firstLine is what stood where the handshake belongs, and whether there was a line at all.
func (c *child) firstLine() (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.first, c.mu.wrote
}

// signal sends to the whole group, while the process was not reaped.
func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.pid != 0 && !c.mu.reaped {
		syscall.Kill(-c.mu.pid, sig)
	}
}

// kill ends the group by force, also one that is only about to start.
func (c *child) kill() {
	c.mu.Lock()
	c.mu.doomed = true
	c.mu.Unlock()
	c.noteDescendants()
	c.signal(syscall.SIGKILL)
}

// pid is the process's id, 0 before the start.
func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.pid
}

// dropLifeline lets the SDK in the plugin see the host's end.
func (c *child) dropLifeline() { closeAll(c.lifeline) }

// await reports whether the process ends within limit, and before ctx does.
func (c *child) await(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// exitText says how the process ended: "exit status 3", "signal: killed".
func (c *child) exitText() string {
	c.await(context.Background(), pipeWait)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.state == nil {
		return "still running"
	}
	return c.mu.state.String()
}

// Wait returns when the process has ended.
func (c *child) Wait(context.Context) error {
	<-c.exited
	return nil
}

// Kill ends the process by force. go-plugin calls it when a start fails.
func (c *child) Kill(context.Context) error {
	c.kill()
	c.await(context.Background(), killWait)
	return nil
}

// Stdout is the handshake line alone: go-plugin would stop reading at the first long line, and the plugin would block.
func (c *child) Stdout() io.ReadCloser { return c.handshake }

// Stderr is empty to go-plugin: it is read here.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Diagnose has nothing to add: explainStart looks at the child itself.
func (c *child) Diagnose(context.Context) string { return "" }

// Name is the executable.
func (c *child) Name() string { return c.name }

// ID is the process's id, or "" before the start.
func (c *child) ID() string {
	if pid := c.pid(); pid != 0 {
		return strconv.Itoa(pid)
	}
	return ""
}

// PluginToHost checks the address in a handshake: a socket of this machine.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	switch network {
	case "unix":
		if !filepath.IsAbs(address) {
			return "", "", errors.New("its socket is not an absolute path")
		}
		return network, address, nil
	case "tcp":
		if ap, err := netip.ParseAddrPort(address); err != nil || !ap.Addr().IsLoopback() {
			return "", "", errors.New("it must listen on a unix socket, or on an address of the loopback interface")
		}
		return network, address, nil
	}
	return "", "", errors.New("it listens neither on unix nor on tcp")
}

// HostToPlugin is for services of the host that a plugin may call; there are none.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// explainExec says why the process could not be made.
func (p *Plugin) explainExec(err error) error {
	var errno syscall.Errno
	errors.As(err, &errno)
	switch errno {
	case syscall.ENOEXEC:
		return abi.Errorf("start plugin", p.name, abi.Invalid, "%s is not a program for this machine (%w)", p.path, err)
	case syscall.ENOENT: // the file is there: it was looked at
		return abi.Errorf("start plugin", p.name, abi.NotFound, "the interpreter or loader that %s names is missing (%w)", p.path, err)
	case syscall.EACCES:
		return abi.Errorf("start plugin", p.name, abi.Denied, "%s may not be executed here: a mount with noexec, or a directory on its way (%w)", p.path, err)
	}
	return abi.Errorf("start plugin", p.name, abi.Unavailable, "%w", err)
}
