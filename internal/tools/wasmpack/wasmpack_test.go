package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
	"github.com/rsmhost/rsmhost/host/plugin/wasm"
	"github.com/rsmhost/rsmhost/internal/modulecache"
)

// built is the Go guest of host/plugin/wasm as the compiler leaves it. It needs the go command.
func built(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guest.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-buildmode=c-shared", "-o", path, "../../../host/plugin/wasm/testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func wasmpack(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	var b bytes.Buffer
	code = run(context.Background(), append([]string{"-cache", modulecache.Dir(t)}, args...), &b)
	return code, b.String()
}

func sections(t *testing.T, path string) []wasm.Section {
	t.Helper()
	list, err := wasm.Sections(read(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// memoryOf gives the limits of the module's memory.
func memoryOf(t *testing.T, path string) wasm.Limits {
	t.Helper()
	for _, s := range sections(t, path) {
		if s.ID == wasm.SectionMemory {
			l, _, err := wasm.ReadLimits(s.Body[1:])
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
	}
	t.Fatal("no memory")
	return wasm.Limits{}
}

func TestGoModuleIsFinished(t *testing.T) {
	path := built(t)
	if memoryOf(t, path).HasMax {
		t.Fatal("the linker declares a maximum by now: wasmpack has less to do")
	}
	if code, stderr := wasmpack(t, path); code != 0 || stderr != "" {
		t.Fatalf("%d: %s", code, stderr)
	}
	if l := memoryOf(t, path); !l.HasMax || l.Max != 1024 {
		t.Errorf("the memory is %+v, want a maximum of 64 MiB", l)
	}
	last := sections(t, path)
	info, err := abiwasm.DecodeInfo(last[len(last)-1].Body)
	if err != nil || last[len(last)-1].Name != abiwasm.ManifestSection || info.Name != "guest" || info.ABIVersions[0] != abi.Version {
		t.Errorf("the manifest is %+v (%v)", info, err)
	}
	once := read(t, path)
	if code, stderr := wasmpack(t, path); code != 0 {
		t.Fatalf("%d: %s", code, stderr)
	}
	if !bytes.Equal(once, read(t, path)) {
		t.Error("packing again changes the module")
	}
	p, err := wasm.Load(t.Context(), wasm.Options{Path: path, CacheDir: modulecache.Dir(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	if s := p.Stats(); s.Created != 0 || p.Info().Name != "guest" {
		t.Errorf("the manifest was not enough: %+v", s)
	}
	if err := p.Configure(t.Context(), nil, nil, nil); err != nil {
		t.Errorf("the packed module: %v", err)
	}
	if left, err := filepath.Glob(filepath.Dir(path) + "/.wasmpack*"); err != nil || len(left) != 0 {
		t.Errorf("%v is left over", left)
	}
}

// small is a module of one memory, without anything that a plugin needs.
func small(memory ...byte) []byte {
	return appendSection(appendCustom([]byte("\x00asm\x01\x00\x00\x00"), "name", []byte{9}), wasm.SectionMemory, memory)
}

func TestManifestFromAFile(t *testing.T) {
	dir := t.TempDir()
	in, out, manifest := dir+"/in.wasm", dir+"/out.wasm", dir+"/manifest"
	doc := abiwasm.AppendInfo(nil, &abi.Info{Name: "given"})
	module := appendCustom(small(1, 0, 3), abiwasm.ManifestSection, []byte("an old one"))
	if err := errors.Join(os.WriteFile(in, module, 0o600), os.WriteFile(manifest, doc, 0o600)); err != nil {
		t.Fatal(err)
	}
	if code, stderr := wasmpack(t, "-max", "1", "-manifest", manifest, "-o", out, in); code != 0 {
		t.Fatalf("%d: %s", code, stderr)
	}
	if want := appendCustom(small(1, 1, 3, 16), abiwasm.ManifestSection, doc); !bytes.Equal(read(t, out), want) {
		t.Errorf("got  %x\nwant %x", read(t, out), want)
	}
	if !bytes.Equal(read(t, in), module) {
		t.Error("the input was changed")
	}
}

func TestMaximumOfTheModuleIsKeptWhereItIsLower(t *testing.T) {
	for _, tt := range []struct{ memory, want []byte }{
		{[]byte{1, 0, 1}, []byte{1, 1, 1, 16}},
		{[]byte{1, 1, 1, 2}, []byte{1, 1, 1, 2}},
		{[]byte{1, 1, 1, 16}, []byte{1, 1, 1, 16}},
		{[]byte{1, 1, 1, 0x80, 1}, []byte{1, 1, 1, 16}},
	} {
		got, err := pack(small(tt.memory...), 1<<20)
		if err != nil || !bytes.Equal(got, small(tt.want...)) {
			t.Errorf("%v: %x, %v", tt.memory, got, err)
		}
	}
}

func TestWhatCannotBePackedStaysAsItIs(t *testing.T) {
	dir := t.TempDir()
	in := dir + "/in.wasm"
	for name, tt := range map[string]struct {
		module []byte
		says   string
	}{
		"no module":       {[]byte("#!/bin/sh\n"), "not a WebAssembly module"},
		"a component":     {[]byte("\x00asm\x0d\x00\x01\x00"), "component"},
		"no memory":       {[]byte("\x00asm\x01\x00\x00\x00"), "0 memory sections"},
		"two memories":    {small(2, 0, 1, 0, 1), "does not have one memory"},
		"a shared memory": {small(1, 3, 1, 2), "shared"},
		"limits cut off":  {small(1, 0), "limits"},
		"too large":       {small(1, 0, 0x81, 8), "starts with 1025 pages"},
		"no plugin":       {small(1, 0, 1), "exports no rsm_abi_1"},
	} {
		if err := os.WriteFile(in, tt.module, 0o600); err != nil {
			t.Fatal(err)
		}
		code, stderr := wasmpack(t, in)
		if code != 1 || !strings.Contains(stderr, tt.says) || !strings.HasPrefix(stderr, "wasmpack: "+in) {
			t.Errorf("%s: %d, %s", name, code, stderr)
		}
		if !bytes.Equal(read(t, in), tt.module) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left over", left)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b"}, {"-max", "0", "a"}, {"-max", "9999", "a"}, {"-nonsense"}} {
		if code, stderr := wasmpack(t, args...); code != 2 || !strings.Contains(stderr, "usage: wasmpack") {
			t.Errorf("%v: %d, %s", args, code, stderr)
		}
	}
	if code, stderr := wasmpack(t, "/nonexistent.wasm"); code != 1 || !strings.Contains(stderr, "no such file") {
		t.Errorf("%d, %s", code, stderr)
	}
}
