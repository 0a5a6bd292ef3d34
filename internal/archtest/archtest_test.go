package archtest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/rsmhost/rsmhost"
	root   = "../.."
)

// imports is the design's section 2, "who may import whom", for everything but tests.
const imports = `
	std < abi < abi/abipb, abi/wasm < abi/sdk < plugins/{localfs,s3,gcs} < plugins/*/rsm-*
	abi < abi/packing    abi < plugins/layout/... < plugins/{localfs,s3,gcs}, cmd/...    abi/packing < plugins/layout/aiven/write
	plugins/layout/... < plugins/layout/aiven/write
	abi < host/format < host/epoch < host/locality    abi < host/trace, host/budget, host/grant
	host/locality, host/trace, host/budget, host/grant, abi/packing < host/transfer, host/locallog < host/rlmm, host/indexcache
	abi/sdk, host/trace, host/budget, host/grant < host/plugin/{process,wasm,store} < host/plugin
	host/rlmm, host/indexcache, host/plugin < host/reader < host < host/server, host/bucket, host/replay < host/config < cmd/..., examples/..., internal/e2e
	abi < host/coordinator < host/server    host/format < host/offsetstopic < host
	abi, abi/packing < abi/conformance < cmd/...    abi/sdk < cmd/..., examples/...    host/plugin/wasm < internal/tools/...

	abi < host/access < host/server    abi < host/server/fetchsession < host/server
	std < internal/archtest, internal/hammer, internal/golden, internal/modulecache, internal/gobuild, internal/randomops, internal/damage, internal/certificates    host/format < internal/kafkabytes < internal/memrsm
	std < internal/planted < host/rlmm, host/reader
	abi < host/finding < host/trace, host/budget, host/grant
	abi < host/ownfile < host/grant, host/access, host/coordinator, host/locallog
	std < host/tally < host/trace, host/budget, host/grant    std < host/admin < cmd/...    host/server < host/metrics < cmd/..., internal/e2e
`

// testHelpers are for tests alone, and for each other.
var testHelpers = []string{"internal/hammer", "internal/golden", "internal/kafkabytes", "internal/memrsm", "internal/modulecache", "internal/gobuild", "internal/certificates"}

// testImports is what the tests of a package may import beyond what it may itself, and the helpers.
var testImports = map[string][]string{
	"internal/e2e":            {"*"}, // the only tests that see host and plugins together
	"internal/randomops":      {"*"}, // likewise
	"internal/damage":         {"*"}, // likewise
	"plugins/localfs":         {"abi/conformance"},
	"plugins/s3":              {"abi/conformance"},
	"plugins/gcs":             {"abi/conformance"},
	"plugins/layout/aiven":    {"plugins/layout/aiven/write"},
	"cmd/rsmhost":             {"plugins/localfs"}, // which the test binary plays
	"abi/wasm":                {"abi/abipb"},       // the hand-written codec against the generated one
	"host/plugin/process":     {"host/plugin/wasm"},
	"internal/tools/wasmpack": {"abi/wasm"},
}

// modules is which third-party modules each room may use.
var modules = map[string][]string{
	"abi/abipb":                {"google.golang.org/protobuf", "google.golang.org/grpc", "google.golang.org/genproto/googleapis/rpc"},
	"abi/sdk":                  {"google.golang.org/protobuf", "google.golang.org/grpc", "golang.org/x/sys"},
	"abi/packing":              {"github.com/klauspost/compress"},
	"host/format":              {"github.com/klauspost/compress", "github.com/pierrec/lz4/v4"}, // codecs
	"host/transfer":            {"github.com/hashicorp/golang-lru/v2", "github.com/klauspost/compress", "golang.org/x/sync"},
	"host/indexcache":          {"github.com/hashicorp/golang-lru/v2", "golang.org/x/sync"},
	"host/reader":              {"github.com/hashicorp/golang-lru/v2", "golang.org/x/sync"},
	"host/rlmm":                {"go.etcd.io/bbolt"},
	"host/plugin":              {"github.com/santhosh-tekuri/jsonschema/v6", "golang.org/x/text", "github.com/goccy/go-yaml"},
	"host/plugin/process":      {"github.com/hashicorp/go-plugin", "github.com/hashicorp/go-hclog", "google.golang.org/grpc", "google.golang.org/protobuf", "golang.org/x/sys"},
	"host/plugin/wasm":         {"github.com/tetratelabs/wazero", "golang.org/x/sys"},
	"host/access":              {"github.com/xdg-go/scram", "github.com/xdg-go/stringprep"},
	"host/server":              {"github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kmsg", "golang.org/x/sync", "golang.org/x/sys"},
	"host/server/fetchsession": {"github.com/twmb/franz-go/pkg/kmsg"},
	"host/offsetstopic":        {"github.com/twmb/franz-go/pkg/kmsg"},
	"host/coordinator":         {"github.com/twmb/franz-go/pkg/kfake", "github.com/twmb/franz-go/pkg/kmsg"},
	"host/replay":              {"github.com/twmb/franz-go/pkg/kmsg", "github.com/twmb/franz-go/pkg/sasl", "github.com/twmb/franz-go/pkg/kerr"}, // its client
	"host/metrics":             {"github.com/prometheus/client_golang"},
	"host/config":              {"github.com/goccy/go-yaml"},
	"plugins/s3":               {"github.com/aws/aws-sdk-go-v2"},
	"plugins/gcs":              {"cloud.google.com/go"},
	"cmd/rsmhost":              {"github.com/urfave/cli/v2", "golang.org/x/term"},
	"internal/tools/wasmpack":  {"github.com/tetratelabs/wazero"},
	"examples/consume":         {"github.com/twmb/franz-go"},
}

// testModules is what any test may use beyond the modules of its room.
var testModules = []string{"go.uber.org/goleak", "github.com/google/go-cmp", "github.com/rogpeppe/go-internal",
	"google.golang.org/protobuf", "google.golang.org/grpc", "github.com/twmb/franz-go"}

var badNames = regexp.MustCompile(`^(util|utils|common|helper|helpers|misc|shared)$`)

func load(t *testing.T) []*File {
	t.Helper()
	files, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d files: this is not the module", len(files))
	}
	return files
}

func mustParse(t *testing.T, text string) *Rules {
	t.Helper()
	r, err := ParseRules(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ours gives the package below the module that a path names.
func ours(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

func TestImports(t *testing.T) {
	r := mustParse(t, imports)
	for _, f := range load(t) {
		if _, ok := r.Name(f.Pkg); !ok {
			t.Errorf("%s: package %s is in no rule", f.Path, f.Pkg)
			continue
		}
		for _, path := range f.Imports() {
			if to, ok := ours(path); ok && !allowed(r, f, to) {
				t.Errorf("%s: %s must not import %s", f.Path, f.Pkg, to)
			}
		}
	}
}

func allowed(r *Rules, f *File, to string) bool {
	if r.Allowed(f.Pkg, to) {
		return true
	}
	extra := testImports[f.Pkg]
	return f.Test && (to == f.Pkg || slices.Contains(testHelpers, to) || slices.Contains(extra, to) || slices.Contains(extra, "*"))
}

// TestModules: each room names its third-party modules. abi has none, and neither have epoch and locality.
func TestModules(t *testing.T) {
	used := map[string]bool{}
	for _, f := range load(t) {
		for _, path := range f.Imports() {
			if _, own := ours(path); own || standard(path) {
				continue
			}
			if !anyPrefix(modules[f.Pkg], path) && !(f.Test && anyPrefix(testModules, path)) {
				t.Errorf("%s: room %s does not name the module of %s", f.Path, f.Pkg, path)
			}
			used[f.Pkg] = true
		}
	}
	for _, pure := range []string{"abi", "abi/wasm", "host/epoch", "host/locality"} {
		if len(modules[pure]) > 0 {
			t.Errorf("%s names third-party modules", pure)
		}
	}
	if len(used) == 0 {
		t.Error("no file imports a third-party module: nothing was looked at")
	}
}

// standard reports a package of the standard library: its first element has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func anyPrefix(mods []string, path string) bool {
	return slices.ContainsFunc(mods, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

// TestPure: what tests and fuzzers drive directly does no I/O and starts no goroutine.
func TestPure(t *testing.T) {
	pure := []string{"host/locality", "host/epoch", "host/format", "plugins/layout"}
	banned := []string{"os", "net", "net/http", "sync/atomic", "context", "io/ioutil", "os/exec", "syscall"}
	for _, f := range load(t) {
		if f.Test || !slices.ContainsFunc(pure, func(p string) bool { return f.Pkg == p || strings.HasPrefix(f.Pkg, p+"/") }) {
			continue
		}
		for _, path := range f.Imports() {
			if slices.Contains(banned, path) {
				t.Errorf("%s: a room without I/O imports %s", f.Path, path)
			}
		}
		if f.Goroutines() > 0 {
			t.Errorf("%s: a pure room starts a goroutine", f.Path)
		}
	}
}

func TestFiles(t *testing.T) {
	documented, packages := map[string]bool{}, map[string]bool{}
	for _, f := range load(t) {
		name := strings.TrimSuffix(f.Syntax.Name.Name, "_test")
		if badNames.MatchString(name) {
			t.Errorf("%s: a package named %s says nothing", f.Path, name)
		}
		if blank := f.Blank(); len(blank) > 0 {
			t.Errorf("%s: blank import of %v", f.Path, blank)
		}
		if f.HasInit() && !f.Generated() {
			t.Errorf("%s: an init function", f.Path)
		}
		if f.Test {
			if f.Calls("time", "Sleep") && !slices.Contains(f.Imports(), "testing/synctest") { // its clock is fake
				t.Errorf("%s: a test that sleeps; wait for an event, use testing/synctest, or internal/hammer", f.Path)
			}
			continue
		}
		packages[f.Pkg] = true
		documented[f.Pkg] = documented[f.Pkg] || f.Syntax.Doc != nil && len(strings.TrimSpace(f.Syntax.Doc.Text())) > 0
		if f.Generated() {
			continue
		}
		for _, name := range f.Undocumented() {
			t.Errorf("%s: %s has no comment", f.Path, name)
		}
	}
	for p := range packages {
		if !documented[p] {
			t.Errorf("package %s has no package comment", p)
		}
	}
}

// TestNoPaths: no file names a path of the machine it was written on.
func TestNoPaths(t *testing.T) {
	for _, f := range load(t) {
		b, err := os.ReadFile(root + "/" + f.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"/" + "work/", "/" + "root/", "/" + "home/"} {
			if strings.Contains(string(b), p) {
				t.Errorf("%s: names %s", f.Path, p)
			}
		}
	}
}

// TestEveryModuleHasItsLicenceListed: what go.mod requires stands in LICENSES-DEPENDENCIES.md.
func TestEveryModuleHasItsLicenceListed(t *testing.T) {
	mod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(root + "/LICENSES-DEPENDENCIES.md")
	if err != nil {
		t.Fatal(err)
	}
	required := 0
	for _, line := range strings.Split(string(mod), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasPrefix(f[1], "v") || !strings.Contains(f[0], ".") {
			continue
		}
		required++
		if !strings.Contains(string(list), "| "+f[0]+" |") {
			t.Errorf("%s has no line in LICENSES-DEPENDENCIES.md", f[0])
		}
	}
	if required == 0 {
		t.Error("go.mod requires nothing: nothing was looked at")
	}
}

// TestPinnedWazeroIsTheOneRequired: test binaries find compiled modules again under this version.
func TestPinnedWazeroIsTheOneRequired(t *testing.T) {
	mod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(root + "/host/plugin/wasm/cache.go")
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`pinnedWazero = "(v[^"]+)"`).FindSubmatch(code)
	if pinned == nil || !strings.Contains(string(mod), "github.com/tetratelabs/wazero "+string(pinned[1])+"\n") {
		t.Errorf("cache.go pins %s, which go.mod does not require", pinned)
	}
}
