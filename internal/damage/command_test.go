package damage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rsmhost/rsmhost/internal/gobuild"
)

// commandsDir is where the commands are; "" before they are built.
var commandsDir string

var buildCommands = sync.OnceValue(func() (err error) {
	if commandsDir, err = os.MkdirTemp("", "damage"); err != nil {
		return err
	}
	_, err1 := gobuild.Command(commandsDir, "cmd/rsmhost")
	_, err2 := gobuild.Process(commandsDir)
	return errors.Join(err1, err2)
})

func removeCommands(code int) {
	if commandsDir != "" {
		os.RemoveAll(commandsDir)
	}
	os.Exit(code)
}

// commandMemory is what a command may take in memory, in KiB: memory.max, twice for what waits to be collected, and the program
// itself.
const commandMemory = 4*memoryMax>>10 + 64<<10

// lookByCommand runs the program itself on undamaged and on damaged data: the same is on stdout, or the status is not 0 and stderr
// names something.
func lookByCommand(_ testing.TB, ctx context.Context, d *scene) (v verdict) {
	if err := buildCommands(); err != nil {
		v.wrongf("%v", err)
		return v
	}
	for _, args := range d.commandLines() {
		want := d.run(ctx, d.from.dir, args)
		if want.status != 0 {
			continue // such as a partition that was deleted
		}
		got := d.run(ctx, d.dir, args)
		d.compareRun(&v, strings.Join(args, " "), want, got)
	}
	return v
}

// commandLines are what is run: a few of all.
func (d *scene) commandLines() [][]string {
	k := d.truth.partitions[d.rand.IntN(len(d.truth.partitions))]
	p := []string{"-t", k.topic, "-p", fmt.Sprint(k.number)}
	iso := isolations[d.rand.IntN(2)].String()
	form := []string{"table", "json", "raw"}[d.rand.IntN(3)]
	from := fmt.Sprint(k.start() + d.rand.Int64N(1+max(k.end[0]-k.start(), 0)))
	with := func(name string, more ...string) []string { return append(append([]string{name}, p...), more...) }
	all := [][]string{
		with("cat", "--isolation", iso, "-o", form),
		with("cat", "--isolation", iso, "--from", from),
		with("fetch", "--isolation", iso, "--offset", from, "-o", "raw"),
		with("offsets", "--isolation", iso),
		with("segments"),
		with("offsets", "--epochs"),
		{"topics"},
	}
	d.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:3]
}

// ran is how a command ended.
type ran struct {
	stdout, stderr string
	status         int
	memory         int64 // KiB at most
}

func (d *scene) run(ctx context.Context, dir string, args []string) ran {
	cache, err := os.MkdirTemp("", "damage") // of its own: cached indexes hide what is damaged
	if err != nil {
		return ran{stderr: err.Error(), status: -1}
	}
	defer os.RemoveAll(cache)
	args = append(args[:1:1], append(d.flags(dir, cache), args[1:]...)...)
	cmd := exec.CommandContext(ctx, filepath.Join(commandsDir, "rsmhost"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	out := ran{stdout: stdout.String(), stderr: stderr.String(), status: cmd.ProcessState.ExitCode()}
	if out.status < 0 {
		out.stderr += runErr.Error()
	}
	if use, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		out.memory = int64(use.Maxrss)
	}
	return out
}

func (d *scene) flags(dir, cache string) []string {
	f := []string{"--cache-dir", filepath.Join(cache, "cache"), "--state-dir", filepath.Join(cache, "state"), "--memory.max", fmt.Sprint(memoryMax)}
	if d.truth.setup != remoteTier {
		f = append(f, "--log-dir", filepath.Join(dir, localPart))
	}
	if d.truth.setup != localTier {
		f = append(f, "--metadata", "dir:"+filepath.Join(dir, metadataPart), "--plugin", filepath.Join(commandsDir, "rsm-localfs"),
			"--plugin-config", "root="+filepath.Join(dir, remotePart))
	}
	return f
}

func (d *scene) compareRun(v *verdict, line string, want, got ran) {
	v.told = append(v.told, fmt.Sprintf("rsmhost %s: status %d: %s", line, got.status, got.stderr))
	if got.status < 0 || got.status > 2 || strings.Contains(got.stderr, "goroutine ") {
		v.brokef("rsmhost %s: it ended with %d: %.4000s", line, got.status, got.stderr)
		return
	}
	if got.memory > commandMemory {
		v.brokef("rsmhost %s: %d KiB of memory, and %d are allowed", line, got.memory, commandMemory)
	}
	shorter := strings.HasPrefix(line, "fetch ") && got.stdout != "" && strings.HasPrefix(want.stdout, got.stdout) // the next fetch tells why
	if got.status == 0 && got.stdout != want.stdout && !shorter {
		v.wrongf("rsmhost %s: status 0, and another answer than of undamaged data: %s", line, firstLineThatDiffers(want.stdout, got.stdout))
	}
	if got.status != 0 && !d.names(got.stderr) {
		v.wrongf("rsmhost %s: status %d, and stderr names neither file, partition nor offset: %s", line, got.status, got.stderr)
	}
}

func firstLineThatDiffers(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %.200q, %.200q is right", i, b[i], a[i])
		}
	}
	return fmt.Sprintf("%d lines, %d are right", len(b), len(a))
}
