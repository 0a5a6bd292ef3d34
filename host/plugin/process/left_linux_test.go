package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/internal/hammer"
)

// TestWhatLeftTheGroupEndsWithThePlugin: a child in a session of its own, and one that lost its parent as well, end with their plugin,
// whether that is closed or killed.
func TestWhatLeftTheGroupEndsWithThePlugin(t *testing.T) {
	for _, kind := range []string{"forker", "daemonizer"} {
		for how, end := range map[string]func(p *Plugin){
			"closed": func(p *Plugin) { closePlugin(t, p) },
			"killed": func(p *Plugin) { syscall.Kill(p.Pid(), syscall.SIGKILL); <-p.Done() },
		} {
			t.Run(kind+"/"+how, func(t *testing.T) {
				p := start(t, options(t, kind))
				pid := forked(p)
				if !running(pid) {
					t.Fatalf("%d does not run", pid)
				}
				defer syscall.Kill(pid, syscall.SIGKILL)
				end(p)
				if running(pid) {
					t.Errorf("%d still runs", pid)
				}
			})
		}
	}
}

// testHost starts this binary as a host, and gives the first line that it writes.
func testHost(t *testing.T, kind, tmp string) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), hostEnv+"="+kind, "TMPDIR="+tmp)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cmd.Process.Kill()
		t.Fatalf("the host said %q: %v", line, err)
	}
	return cmd, strings.TrimSpace(line)
}

// TestOrphanWithoutAMark: a program that takes orphans ends one that has neither the plugin's environment nor its directory, and
// leaves its own commands alone.
func TestOrphanWithoutAMark(t *testing.T) {
	cmd, line := testHost(t, "parent", shortTemp(t))
	if err := cmd.Wait(); err != nil || line != "false true" {
		t.Errorf("the orphan runs, and the host's own command does: %s; want false true (%v)", line, err)
	}
}

// TestNextHostEndsWhatAKilledOneLeft: a host that is killed can end nothing; the next one ends what its plugin left.
func TestNextHostEndsWhatAKilledOneLeft(t *testing.T) {
	cmd, line := testHost(t, "daemons", shortTemp(t))
	cmd.Process.Kill()
	cmd.Wait()
	var pid int
	var dir string
	if _, err := fmt.Sscan(line, &pid, &dir); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	if !running(pid) {
		t.Fatalf("%d ended with its host: there is nothing to see", pid)
	}
	old := time.Now().Add(-2 * sweepAge)
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	start(t, options(t, "good"))
	hammer.Eventually(t, soon, func() bool { return !running(pid) })
}
