package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// soon is how long the tests wait for what must come.
const soon = 20 * time.Second

// TestHostKilledInARead kills a host with SIGKILL while it waits for bytes from its plugin, and one that has its plugin
// idle because nobody takes what it writes. A second later no plugin is there.
func TestHostKilledInARead(t *testing.T) {
	dir := filepath.Join(fixtures, "txn")
	common := []string{"-t", "payments", "-p", "0", "--metadata", "dir:" + filepath.Join(dir, "rlmm"), "--log-dir", filepath.Join(dir, "local")}
	pidfile := filepath.Join(t.TempDir(), "pid")
	for _, c := range []struct {
		name   string
		args   []string
		plugin func(host int) int // the plugin's process id, 0 as long as it is not in the state that is wanted
		wrote  bool               // the host writes records, more than a pipe holds
	}{
		{"stalled in a stream", append([]string{"fetch", "--plugin", asPlugin(t, stalls), "--plugin-config", "pidfile=" + pidfile}, common...),
			func(int) int { return pidIn(pidfile) }, false},
		{"idle", append([]string{"cat", "--plugin", artifacts(t).process, "--plugin-config", "root=" + filepath.Join(dir, "remote"), "-o", "json"}, common...),
			childOf, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := exec.Command(artifacts(t).host, c.args...)
			host.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir(), "TMPDIR="+shortTemp(t))
			var stderr bytes.Buffer
			host.Stderr = &stderr
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			defer host.Wait()
			defer host.Process.Kill()
			if c.wrote { // from now on nobody reads
				if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
					t.Fatalf("no record: %v: %s", err, stderr.String())
				}
			}
			var pid int
			hammer.Eventually(t, soon, func() bool { pid = c.plugin(host.Process.Pid); return pid != 0 })
			if !lives(pid) {
				t.Fatalf("there is no process %d: %s", pid, stderr.String())
			}
			if err := host.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			hammer.Eventually(t, time.Second, func() bool { return !lives(pid) })
		})
	}
}

// shortTemp is a directory whose path leaves room for a socket's. What the killed host leaves goes with it.
func shortTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func pidIn(file string) int {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(string(b))
	return pid
}

// childOf finds a process whose parent is the given one.
func childOf(parent int) int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if pid, state := stat(path); state.parent == parent && state.state != "Z" {
			return pid
		}
	}
	return 0
}

// lives reports a process that is not a zombie.
func lives(pid int) bool {
	got, state := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return got == pid && state.state != "Z" && state.state != "X"
}

type procState struct {
	state  string
	parent int
}

// stat reads a line of proc(5): "pid (name) state ppid ...". The pid is 0 where there is none.
func stat(path string) (pid int, s procState) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, s
	}
	name := strings.LastIndexByte(string(b), ')')
	if name < 0 {
		return 0, s
	}
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		return 0, s
	}
	if _, err := fmt.Sscan(string(b[name+1:]), &s.state, &s.parent); err != nil {
		return 0, s
	}
	return pid, s
}
