package main

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
	"github.com/rsmhost/rsmhost/host/format"
	"github.com/rsmhost/rsmhost/internal/kafkabytes"
	"github.com/rsmhost/rsmhost/plugins/localfs"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestMain lets this test binary be rsmhost and its plugins, by the name under which it is started.
func TestMain(m *testing.M) {
	commands := map[string]func(){
		"rsmhost":     main,
		"rsm-localfs": func() { sdk.Main(localfs.Plugin()) },
	}
	for name, main := range badPlugins {
		commands[name] = main
	}
	testscript.Main(m, commands)
}

// TestScripts runs the sessions in testdata. `go test ./cmd/rsmhost -update` rewrites what they compare with.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Condition: func(cond string) (bool, error) {
			if cond != "race" {
				return false, fmt.Errorf("no condition %q", cond)
			}
			return underRace, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    cmdExits,
			"normal":   cmdNormal,
			"copy":     cmdCopy,
			"damage":   cmdDamage,
			"hex":      cmdHex,
			"metadata": cmdMetadata,
			"module":   cmdModule,
			"noremain": cmdNoRemain,
		},
	})
}

// setup gives a session the recorded brokers as kafka/NAME, a configuration NAME.yaml for each, the log directory lostcluster, and directories that are
// its own.
func setup(env *testscript.Env) error {
	data, err := filepath.Abs(filepath.Join("..", "..", "testdata", "kafka"))
	if err != nil {
		return err
	}
	if err := os.Symlink(data, filepath.Join(env.WorkDir, "kafka")); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(filepath.Dir(data), "lostcluster"), filepath.Join(env.WorkDir, "lostcluster")); err != nil {
		return err
	}
	brokers, err := os.ReadDir(data)
	if err != nil {
		return err
	}
	for _, b := range brokers {
		conf := fmt.Sprintf("metadata: dir:kafka/%[1]s/rlmm\nlog-dir: kafka/%[1]s/local\nplugin: localfs\nplugin-config: {root: kafka/%[1]s/remote}\n", b.Name())
		if err := os.WriteFile(filepath.Join(env.WorkDir, b.Name()+".yaml"), []byte(conf), 0o600); err != nil {
			return err
		}
	}
	tmp, err := os.MkdirTemp("/tmp", "s") // where sockets have short names
	if err != nil {
		return err
	}
	env.Defer(func() { os.RemoveAll(tmp) })
	env.Setenv("TMPDIR", tmp)
	env.Values[tbKey{}] = env.T()
	for variable, dir := range map[string]string{"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_DATA_HOME": "data"} {
		env.Setenv(variable, filepath.Join(env.WorkDir, dir))
	}
	return nil
}

// cmdExits runs a command that must end with a status. Its output can be looked at as that of exec.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || fmt.Sprint(exit.ExitCode()) != args[0] {
		ts.Fatalf("%v, want exit status %s", err, args[0])
	}
}

// What differs from run to run.
var (
	requestIDs = regexp.MustCompile(`request [0-9a-f]{8}\b`)
	requestKey = regexp.MustCompile(`"requestId": "[0-9a-f]{8}"`)
	spanTimes  = regexp.MustCompile(`"(startUs|durationUs)": \d+`)
	deathTimes = regexp.MustCompile(`lived=\S+ in=\S+`)
	logTimes   = regexp.MustCompile(`\btime=[^"\s]\S*`)
	xmlTimes   = regexp.MustCompile(`\btime="[\d.]+"`)
	stepTime   = regexp.MustCompile(`^(  .*\S)(\s+)(\d+\.\d\d ms)(?: +▇+)?$`)
	goVersion  = regexp.MustCompile(`go1[.\d]+\S* \w+/\w+`)
)

// cmdNormal copies what a command wrote, "stdout" or "stderr", or a file, to a file, without what differs from run to run.
func cmdNormal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: normal stdout|stderr|FILE NEW")
	}
	text := ts.ReadFile(args[0])
	for _, path := range []string{ts.Getenv("WORK"), pluginDir(ts)} {
		text = strings.ReplaceAll(text, path+"/", "")
		text = strings.ReplaceAll(text, path, ".")
	}
	text = requestIDs.ReplaceAllString(text, "request 01234567")
	text = requestKey.ReplaceAllString(text, `"requestId": "01234567"`)
	text = spanTimes.ReplaceAllString(text, `"$1": 0`)
	text = logTimes.ReplaceAllString(text, "time=T")
	text = deathTimes.ReplaceAllString(text, "lived=T in=T")
	text = xmlTimes.ReplaceAllString(text, `time="0"`)
	text = goVersion.ReplaceAllString(text, "go1 os/arch")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = normalStep(line)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(strings.Join(lines, "\n")), 0o600))
}

// normalStep takes the time and its bar out of a line of a trace, and keeps the columns.
func normalStep(line string) string {
	m := stepTime.FindStringSubmatch(line)
	if m == nil {
		return line
	}
	const zero = "0.00 ms"
	gap := utf8.RuneCountInString(m[2]) + min(len(m[3]), 8) - len(zero)
	return m[1] + strings.Repeat(" ", gap) + zero
}

// pluginDir is where the test binary lies under the plugins' names.
func pluginDir(ts *testscript.TestScript) string {
	dir, _, _ := strings.Cut(os.Getenv("PATH"), string(filepath.ListSeparator))
	if _, err := os.Stat(filepath.Join(dir, "rsm-localfs")); err != nil {
		ts.Fatalf("no plugins in %s: %v", dir, err)
	}
	return dir
}

// cmdCopy copies a directory, so that what is in it can be damaged.
func cmdCopy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: copy DIR NEW")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// cmdDamage changes a file that a pattern names: flips the bits of a byte, cuts it off, writes bytes over its own, removes
// it, or makes it a link.
func cmdDamage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: damage PATTERN flip POS|cut SIZE|set POS HEX|append HEX|remove|link TARGET")
	}
	found, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(found) != 1 {
		ts.Fatalf("%s names %d files", args[0], len(found))
	}
	path, how := found[0], args[1:]
	b, err := os.ReadFile(path)
	ts.Check(err)
	number := func() int {
		n, err := strconv.Atoi(how[1])
		ts.Check(err)
		return n
	}
	switch how[0] {
	case "flip":
		b[number()] ^= 0xff
	case "cut":
		b = b[:number()]
	case "set":
		copy(b[number():], unhex(ts, how[2:]))
	case "append":
		b = append(b, unhex(ts, how[1:])...)
	case "remove":
		ts.Check(os.Remove(path))
		return
	case "link":
		ts.Check(os.Remove(path))
		ts.Check(os.Symlink(ts.MkAbs(how[1]), path))
		return
	default:
		ts.Fatalf("damage: %s", how[0])
	}
	ts.Check(os.WriteFile(path, b, 0o600))
}

// cmdHex writes a file.
func cmdHex(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: hex FILE HEX...")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), unhex(ts, args[1:]), 0o600))
}

func unhex(ts *testscript.TestScript, words []string) []byte {
	b, err := hex.DecodeString(strings.Join(words, ""))
	ts.Check(err)
	return b
}

// cmdMetadata writes a metadata topic in a state that no recorded broker has.
func cmdMetadata(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || oddMetadata[args[1]] == nil {
		ts.Fatalf("usage: metadata DIR KIND")
	}
	t := ts.Value(tbKey{}).(testing.TB)
	id := abi.TopicIDPartition{Topic: "orders", TopicID: kafkabytes.ID(1)}
	kafkabytes.WriteMetadata(t, ts.MkAbs(args[0]), oddMetadata[args[1]](t, id)...)
}

type tbKey struct{}

var oddMetadata = map[string]func(t testing.TB, id abi.TopicIDPartition) []any{
	"unknown-record": func(t testing.TB, id abi.TopicIDPartition) []any {
		return append(kafkabytes.Finished(segments(t, id)[:1]...), append([]any{[]byte{99, 0, 1, 2, 3}}, kafkabytes.Finished(segments(t, id)[1:]...)...)...)
	},
	"illegal-transition": func(t testing.TB, id abi.TopicIDPartition) []any {
		s := segments(t, id)
		return append(kafkabytes.Finished(s[:1]...), kafkabytes.Started(s[1]), kafkabytes.Update(s[1], format.DeleteSegmentFinished, 2000))
	},
	"no-segments": func(t testing.TB, id abi.TopicIDPartition) []any {
		return []any{kafkabytes.Started(segments(t, id)[0])}
	},
	"gap": func(t testing.TB, id abi.TopicIDPartition) []any {
		s := segments(t, id)
		return kafkabytes.Finished(s[0], s[2])
	},
	"path": func(t testing.TB, id abi.TopicIDPartition) []any {
		id.Topic = "../../orders"
		return kafkabytes.Finished(segments(t, id)...)
	},
}

// segments are three of ten offsets each.
func segments(t testing.TB, id abi.TopicIDPartition) []*kafkabytes.Segment {
	var out []*kafkabytes.Segment
	for i := range int64(3) {
		out = append(out, kafkabytes.NewSegment(t, id, byte(10+i), kafkabytes.Batch{Base: 10 * i, Last: 10*i + 9}))
	}
	return out
}

// cmdNoRemain fails where a plugin left a process or a file: both have their place below TMPDIR.
func cmdNoRemain(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: noremain")
	}
	tmp := ts.Getenv("TMPDIR")
	ts.Check(filepath.WalkDir(tmp, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != tmp {
			err = fmt.Errorf("%s is left", path)
		}
		return err
	}))
	cwds, err := filepath.Glob("/proc/[0-9]*/cwd") // none where there is no /proc
	ts.Check(err)
	if i := slices.IndexFunc(cwds, func(cwd string) bool {
		dir, err := os.Readlink(cwd)
		return err == nil && strings.HasPrefix(dir, tmp+"/")
	}); i >= 0 {
		ts.Fatalf("the process of %s is left", cwds[i])
	}
}
