package wasm

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
	"github.com/rsmhost/rsmhost/internal/hammer"
)

// assembled loads and configures a module of a few instructions.
func assembled(t testing.TB, a *asm, o Options) *Plugin {
	t.Helper()
	o.Path = store(t, a.bytes())
	if o.Name == "" {
		o.Name = "mine"
	}
	return ready(t, o, nil)
}

// word gives instructions that return a result word.
func word(r abiwasm.Result) []byte { return i64(int64(r)) }

func locationDoc() []byte {
	return abiwasm.AppendSource(nil, &abi.Source{OriginalSize: 3, Location: &abi.Location{Parts: []abi.Part{{Inline: []byte("abc")}}}})
}

// TestLies is what a module may tell that is not so. Each costs the instance.
func TestLies(t *testing.T) {
	doc := locationDoc()
	n := int64(len(doc))
	replyDoc := cat(hostCall("reply", 0, n), drop)
	for name, tt := range map[string]struct {
		body []byte
		kind abi.Kind
		says string
	}{
		"a word that is none":           {word(1 << 63), abi.Internal, "which is no result"},
		"a reply that was not made":     {word(abiwasm.OK(5, 0)), abi.Internal, "a reply of 5 bytes and made one of 0"},
		"a shorter reply":               {cat(replyDoc, word(abiwasm.OK(1, 0))), abi.Internal, "a reply of 1 bytes and made one of"},
		"another kind than it told":     {cat(hostCall("fail", 1, 0, 0), drop, word(abiwasm.Fail(abi.Corrupt, 0))), abi.Internal, "failed with NOT_FOUND and returned CORRUPT"},
		"success after failure":         {cat(hostCall("fail", 1, 0, 0), drop, word(0)), abi.Internal, "failed with NOT_FOUND and returned NONE"},
		"a reply that is no Source":     {cat(hostCall("reply", n, 1), drop, word(abiwasm.OK(1, 0))), abi.Internal, "no Source"},
		"neither location nor stream":   {word(0), abi.Corrupt, "truncated"},
		"a stream after a location":     {cat(replyDoc, hostCall("out_write", 0, 1), drop, word(abiwasm.OK(uint32(n), 0))), abi.Internal, "a stream after a location"},
		"a stream after what is no doc": {cat(hostCall("reply", n, 1), drop, hostCall("out_end", 0, 0), drop, word(abiwasm.OK(1, 0))), abi.Internal, "no Source"},
	} {
		p := assembled(t, plugin(cat(doc, []byte{0xff}), map[string][]byte{abiwasm.FetchIndex: tt.body}), Options{})
		_, err := p.FetchIndex(t.Context(), segment("x"), abi.OffsetIndex)
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "fetch_index mine") {
			t.Errorf("%s: got %v, want %v with %q", name, err, tt.kind, tt.says)
		}
		hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
		if s := p.Stats(); s.Replaced != 1 || s.Instances != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestStreamsThatLie(t *testing.T) {
	sum := func(n int) int64 { return int64(int32(crcOf(make([]byte, n)))) }
	ten := cat(hostCall("out_write", 0, 10), drop)
	for name, tt := range map[string]struct {
		body []byte
		read int
		kind abi.Kind // 0: io.EOF
		says string
	}{
		"no end":         {cat(ten, word(0)), 10, abi.Corrupt, "truncated"},
		"another length": {cat(ten, hostCall("out_end", 11, sum(10)), drop, word(0)), 10, abi.Corrupt, "says that it were 11"},
		"another sum":    {cat(ten, hostCall("out_end", 10, 5), drop, word(0)), 10, abi.Corrupt, "00000005"},
		"more after it":  {cat(ten, hostCall("out_end", 10, sum(10)), drop, ten, word(0)), 10, 0, ""},
		"two ends":       {cat(hostCall("out_end", 0, 0), drop, hostCall("out_end", 0, 0), drop, word(0)), 0, 0, ""},
		"a reply in it":  {cat(ten, hostCall("reply", 0, 3), drop, word(abiwasm.OK(3, 0))), 10, abi.Internal, "a reply of 3 bytes and made one of 0"},
	} {
		p := assembled(t, plugin(make([]byte, 20), map[string][]byte{abiwasm.FetchIndex: tt.body}), Options{})
		src, err := p.FetchIndex(t.Context(), segment("x"), abi.OffsetIndex)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(src.Stream)
		src.Close()
		if len(got) != tt.read || tt.kind == 0 && err != nil || tt.kind != 0 && (!errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
		if s := p.Stats(); s.Replaced != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestOnlyFetchesMayStream(t *testing.T) {
	p := assembled(t, plugin(nil, map[string][]byte{abiwasm.Probe: cat(hostCall("out_write", 0, 1), drop, word(0))}), Options{})
	if err := p.Probe(t.Context()); !errors.Is(err, abi.Internal) || !strings.Contains(err.Error(), "a stream, which probe has none of") {
		t.Error(err)
	}
}

func TestFailureWithoutReasonKeepsItsKind(t *testing.T) {
	p := assembled(t, plugin(nil, map[string][]byte{
		abiwasm.Probe:      word(abiwasm.Fail(abi.Throttled, 0)),
		abiwasm.FetchIndex: cat(hostCall("fail", 10, 0, 0), drop, word(abiwasm.Fail(abi.Corrupt, 0))),
	}), Options{})
	if err := p.Probe(t.Context()); !errors.Is(err, abi.Throttled) {
		t.Error(err)
	}
	if _, err := p.FetchIndex(t.Context(), segment("x"), abi.OffsetIndex); !errors.Is(err, abi.Corrupt) {
		t.Error(err)
	}
	if s := p.Stats(); s.Replaced != 0 || s.Created != 1 {
		t.Errorf("%+v", s)
	}
}

// TestHostFunctionsCheckTheirArguments hands each host function what it must refuse. The probe returns the function's own
// result, so its kind is the probe's error.
func TestHostFunctionsCheckTheirArguments(t *testing.T) {
	const page = 64 << 10
	over := [][2]int64{{page, 1}, {page - 1, 2}, {-1, 1}, {-1, -1}, {0, -1}, {1, -1}, {0, page + 1}}
	for _, f := range []struct {
		name string
		args func(ptr, n int64) []int64
		kind abi.Kind
	}{
		{"reply", func(p, n int64) []int64 { return []int64{p, n} }, abi.Invalid},
		{"fail", func(p, n int64) []int64 { return []int64{1, p, n} }, abi.Invalid},
		{"log", func(p, n int64) []int64 { return []int64{1, p, n} }, abi.Invalid},
		{"random", func(p, n int64) []int64 { return []int64{p, n} }, abi.Invalid},
		{"crc32c", func(p, n int64) []int64 { return []int64{0, p, n} }, abi.Invalid},
		{"out_write", func(p, n int64) []int64 { return []int64{p, n} }, abi.Invalid},
		{"file_size", func(p, n int64) []int64 { return []int64{p, n, 0, 1, 0} }, abi.Invalid},
		{"file_size", func(p, n int64) []int64 { return []int64{0, 1, p, n, 0} }, abi.Invalid},
		{"file_read", func(p, n int64) []int64 { return []int64{p, n, 0, 1, 0, 0, 1} }, abi.Invalid},
		{"file_read", func(p, n int64) []int64 { return []int64{0, 1, p, n, 0, 0, 1} }, abi.Invalid},
		{"file_read", func(p, n int64) []int64 { return []int64{0, 1, 0, 1, 0, p, n} }, abi.Invalid},
	} {
		for _, o := range over {
			a := plugin(nil, map[string][]byte{abiwasm.Probe: hostCall(f.name, f.args(o[0], o[1])...)})
			p := assembled(t, a, Options{})
			if err := p.Probe(t.Context()); !errors.Is(err, f.kind) {
				t.Errorf("%s with %v: %v", f.name, f.args(o[0], o[1]), err)
			}
		}
	}
	for _, tt := range []struct {
		call []byte
		kind abi.Kind
	}{
		{hostCall("request", 0, 5), abi.Exhausted},       // fetch_index asks with more than that
		{hostCall("request", page-5, page), abi.Invalid}, // and this is out of memory
		{hostCall("request", -1, math.MaxInt32), abi.Invalid},
		{hostCall("fail", 0, 0, 0), abi.Invalid}, // no kind
		{hostCall("fail", -5, 0, 0), abi.Invalid},
		{hostCall("fail", 1, 0, 1), abi.Invalid}, // no document
		{hostCall("file_read", 0, 1, 0, 1, -1, 0, 1), abi.Invalid},
		{hostCall("file_read", 0, 1, 0, 1, 0, 0, 1), abi.Denied}, // nothing is granted
		{hostCall("file_size", 0, 1, 0, 1, 0), abi.Denied},
	} {
		a := plugin([]byte{0xff, 0xff}, map[string][]byte{abiwasm.FetchIndex: tt.call})
		if _, err := assembled(t, a, Options{}).FetchIndex(t.Context(), segment("x"), 1); !errors.Is(err, tt.kind) {
			t.Errorf("%x: got %v, want %v", tt.call, err, tt.kind)
		}
	}
}

func TestReplyComesInPiecesUpToItsLimit(t *testing.T) {
	const piece = 60 << 10
	pieces := abiwasm.MaxReply / piece
	var body []byte
	for range pieces {
		body = cat(body, hostCall("reply", 0, piece), drop)
	}
	full := hostCall("reply", 0, piece) // one too many: EXHAUSTED
	p := assembled(t, plugin(nil, map[string][]byte{abiwasm.FetchIndex: cat(body, full)}), Options{})
	if _, err := p.FetchIndex(t.Context(), segment("x"), 1); !errors.Is(err, abi.Exhausted) {
		t.Error(err)
	}
	doc := locationDoc()
	half := int64(len(doc) / 2)
	p = assembled(t, plugin(doc, map[string][]byte{abiwasm.FetchIndex: cat(hostCall("reply", 0, half), drop,
		hostCall("reply", half, int64(len(doc))-half))}), Options{})
	if src, err := p.FetchIndex(t.Context(), segment("x"), 1); err != nil || string(src.Location.Parts[0].Inline) != "abc" {
		t.Errorf("%+v, %v", src, err)
	}
}

// TestPlainNumbers brings what now, random and remaining_ms give into the reply: a Source with eight bytes inline.
func TestPlainNumbers(t *testing.T) {
	doc := abiwasm.AppendSource(nil, &abi.Source{Location: &abi.Location{Parts: []abi.Part{{Inline: make([]byte, 8)}}}})
	at := int64(len(doc) - 8)
	ask := func(ctx context.Context, call []byte) int64 {
		a := plugin(doc, map[string][]byte{abiwasm.FetchIndex: cat(call, hostCall("reply", 0, int64(len(doc))))})
		src, err := assembled(t, a, Options{}).FetchIndex(ctx, segment("x"), 1)
		if err != nil {
			t.Fatal(err)
		}
		return int64(binary.LittleEndian.Uint64(src.Location.Parts[0].Inline))
	}
	save := func(call []byte) []byte { return cat(i32(at), call, []byte{0x37, 3, 0}) } // i64.store
	before := time.Now().UnixNano()
	if now := ask(t.Context(), save(hostCall("now", abiwasm.WallClock))); now < before || now > time.Now().UnixNano() {
		t.Errorf("the wall clock says %d", now)
	}
	if ns := ask(t.Context(), save(hostCall("now", abiwasm.MonotonicClock))); ns <= 0 || ns > int64(time.Hour) {
		t.Errorf("the monotonic clock says %d", ns)
	}
	if ns := ask(t.Context(), save(hostCall("now", 99))); ns != -1 {
		t.Errorf("an unknown clock says %d", ns)
	}
	random := cat(hostCall("random", at, 8), drop)
	if a, b := ask(t.Context(), random), ask(t.Context(), random); a == b {
		t.Errorf("random bytes repeat: %x", a)
	}
	if ms := ask(context.Background(), save(hostCall("remaining_ms"))); ms != -1 {
		t.Errorf("without a deadline %d ms remain", ms)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if ms := ask(ctx, save(hostCall("remaining_ms"))); ms < 1000 || ms > 60_000 {
		t.Errorf("of a minute %d ms remain", ms)
	}
}

func TestLogLinesHaveLevelsAndALimit(t *testing.T) {
	log, out := logTo()
	data := append([]byte("hello"), make([]byte, 20_000)...)
	for i := 5; i < len(data); i++ {
		data[i] = 'x'
	}
	p := assembled(t, plugin(data, map[string][]byte{abiwasm.Probe: cat(
		hostCall("log", abiwasm.LogDebug, 0, 5), drop, hostCall("log", abiwasm.LogWarn, 0, 5), drop,
		hostCall("log", abiwasm.LogError, 5, 15_000), drop, hostCall("log", 99, 0, 5), drop, unreachable)}), Options{Log: log})
	err := p.Probe(t.Context())
	if !errors.Is(err, abi.Internal) || !strings.Contains(err.Error(), "unreachable") || !strings.Contains(err.Error(), "xxx") || len(err.Error()) > 1200 {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"level=DEBUG msg=hello", "level=WARN msg=hello", "level=INFO msg=hello", "level=ERROR msg=xxx", "cut=true"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if strings.Contains(out.String(), strings.Repeat("x", abiwasm.MaxLogLine+1)) {
		t.Error("a line is over the limit")
	}
}

// A function that calls itself without end: wazero doubles its stack until a ceiling, and leaves the module open.
func TestStackOverflowCostsTheInstance(t *testing.T) {
	imports, _ := hostImports()
	a := plugin(nil, nil)
	self := len(imports) + 4 // rsm_fetch_index
	a.funcs[4].body = cat(i32(1), invoke(self))
	p := assembled(t, a, Options{})
	if _, err := p.FetchIndex(t.Context(), segment("x"), 1); !errors.Is(err, abi.Internal) || !strings.Contains(err.Error(), "stack overflow") {
		t.Errorf("%v", err)
	}
	if s := p.Stats(); s.Instances != 0 || s.Replaced != 1 || s.Traps != 1 {
		hammer.Eventually(t, long, func() bool { return p.Stats().Instances == 0 })
	}
}

func TestMemoryGrowsToItsCapAndNoFurther(t *testing.T) {
	grow := func(pages int64, want int64) []byte { // traps when memory.grow answers otherwise
		return cat(i32(pages), []byte{0x40, 0}, i32(want), []byte{0x47, 0x04, 0x40}, unreachable, []byte{0x0b})
	}
	for name, limits := range map[string][]byte{"no maximum": {1, 0, 1}, "a maximum": {1, 1, 1, 16}} {
		a := plugin(nil, map[string][]byte{abiwasm.Probe: cat(grow(10, 1), grow(6, -1), grow(5, 11), grow(1, -1), word(0))})
		a.memory = limits
		p := assembled(t, a, Options{MemoryCap: 1 << 20})
		if err := p.Probe(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s := p.Stats(); s.Replaced != 1 {
			t.Errorf("%s: full to the brim, and kept: %+v", name, s)
		}
	}
	full := plugin(nil, nil) // a memory that is as large as it may be from the start has not grown
	full.memory = []byte{1, 1, 16, 16}
	p := assembled(t, full, Options{MemoryCap: 1 << 20})
	if err := p.Probe(t.Context()); err != nil || p.Stats().Replaced != 0 {
		t.Errorf("%v, %+v", err, p.Stats())
	}
}

// TestWASIWithExtremeArguments calls every function of the shim with arguments that point nowhere, and with ones that point
// somewhere. Only the exit may end the call.
func TestWASIWithExtremeArguments(t *testing.T) {
	for _, value := range []int64{-1, 0, 1, 2, 64<<10 - 4, math.MaxInt32, math.MinInt32} {
		a := plugin(nil, nil)
		ours := len(a.imports)
		var body []byte
		for _, f := range wasiFuncs {
			a.imports = append(a.imports, asmImport{module: wasiModule, name: f.name, sig: f.params + ">" + f.results})
			if f.name == "proc_exit" || f.name == "poll_oneoff" && value == 1 { // the latter sleeps, on what happens to lie there
				continue
			}
			for _, p := range f.params {
				if p == 'I' {
					body = append(body, i64(value)...)
				} else {
					body = append(body, i32(value)...)
				}
			}
			body = cat(body, invoke(len(a.imports)-1), drop)
		}
		for i := range a.exports {
			if a.exports[i].kind == kindFunc {
				a.exports[i].index += len(a.imports) - ours
			}
		}
		a.funcs[5].body = cat(body, word(0))
		p := assembled(t, a, Options{})
		if err := p.Probe(t.Context()); err != nil {
			t.Errorf("with %d: %v", value, err)
		}
	}
}

func TestInitializeThatFailsIsAnErrorOfLoad(t *testing.T) {
	imports, _ := hostImports()
	for name, tt := range map[string]struct {
		body []byte
		kind abi.Kind
	}{"traps": {unreachable, abi.Internal}, "never ends": {forever, abi.Deadline}, "good": {nil, 0}} {
		a := plugin(nil, nil)
		a.exports = append(a.exports, asmExport{abiwasm.Initialize, kindFunc, len(imports) + len(a.funcs)})
		a.funcs = append(a.funcs, asmFunc{">", tt.body})
		ctx, cancel := context.WithCancel(t.Context())
		if tt.kind == abi.Deadline {
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		}
		p, err := Load(ctx, Options{Path: store(t, a.bytes())})
		cancel()
		if tt.kind != 0 && !errors.Is(err, tt.kind) || tt.kind == 0 && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p != nil {
			p.Close(t.Context())
		}
	}
}

func TestManifestSectionIsReadWithoutRunningAnything(t *testing.T) {
	a := plugin(nil, map[string][]byte{abiwasm.Describe: unreachable})
	doc := abiwasm.AppendInfo(nil, &abi.Info{Name: "packed", Secrets: []abi.Secret{{Name: "key"}}})
	a.after = sec(SectionCustom, cat(sized([]byte(abiwasm.ManifestSection)), doc))
	p := loadGuest(t, Options{Path: store(t, a.bytes())})
	if p.Info().Name != "packed" || p.Stats().Created != 0 {
		t.Errorf("%+v, %+v", p.Info(), p.Stats())
	}
	if err := p.Configure(t.Context(), nil, nil, nil); !errors.Is(err, abi.Unsupported) || !strings.Contains(err.Error(), "secrets") {
		t.Errorf("a module that needs secrets: %v", err)
	}
	a = plugin(nil, map[string][]byte{abiwasm.Describe: unreachable})
	if _, err := Load(t.Context(), Options{Path: store(t, a.bytes())}); !errors.Is(err, abi.Internal) {
		t.Errorf("a module that cannot describe itself: %v", err)
	}
}

func TestModuleThatTheCompilerRefusesIsInvalid(t *testing.T) {
	a := plugin(nil, map[string][]byte{abiwasm.Probe: drop}) // nothing to drop
	for _, dir := range []string{"", t.TempDir()} {
		if _, err := Load(t.Context(), Options{Path: store(t, a.bytes()), CacheDir: dir}); !errors.Is(err, abi.Invalid) {
			t.Errorf("%v", err)
		}
	}
}

func TestPluginWithoutSelfTest(t *testing.T) {
	a := plugin(nil, nil)
	a.exports = a.exports[:len(a.exports)-1]
	if err := assembled(t, a, Options{}).Probe(t.Context()); !errors.Is(err, abi.Unsupported) {
		t.Error(err)
	}
}

// Instances come and go by the hundred without leaving anything behind.
func TestManyTrapsLeaveNothing(t *testing.T) {
	p := assembled(t, plugin(nil, map[string][]byte{abiwasm.Probe: unreachable}), Options{})
	for range 300 {
		if err := p.Probe(t.Context()); !errors.Is(err, abi.Internal) {
			t.Fatal(err)
		}
	}
	hammer.Eventually(t, long, func() bool { return p.Stats().Running == 0 })
	if s := p.Stats(); s.Instances != 0 || s.Traps != 300 || s.Replaced != 300 || s.Created != 300 {
		t.Errorf("%+v", s)
	}
}

func TestCallWhoseContextIsDoneBeforehand(t *testing.T) {
	p := assembled(t, plugin(nil, nil), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if err := p.Probe(ctx); err != nil && !errors.Is(err, abi.Cancelled) {
			t.Error(err)
		}
	}
	if err := p.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

func crcOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
