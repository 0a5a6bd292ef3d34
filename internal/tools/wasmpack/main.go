// Wasmpack finishes a plugin module after its compiler: it declares the maximum of the memory, which Go's linker leaves
// open, and puts what the module says about itself into the section rsm.manifest, so that a host can read it without
// running anything.
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o rsm-x.wasm ./rsm-x
//	wasmpack rsm-x.wasm
//
// Packing a module again changes nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
	"github.com/rsmhost/rsmhost/host/plugin/wasm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stderr)
	stop()
	os.Exit(code)
}

const usage = `usage: wasmpack [-max MIB] [-manifest FILE] [-cache DIR] [-o FILE] MODULE.wasm

  -max MIB        the most memory that an instance may have (default 64); a lower maximum in the module stays
  -manifest FILE  take the manifest, an Info document, from FILE instead of asking the module
  -cache DIR      keep the compiled module in DIR, so that packing it again need not compile it
  -o FILE         write to FILE instead of over the module
`

// run is main without the process: it gives the exit status.
func run(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("wasmpack", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { io.WriteString(stderr, usage) }
	mib := flags.Uint64("max", wasm.DefaultMemoryCap>>20, "")
	manifest := flags.String("manifest", "", "")
	cache := flags.String("cache", "", "")
	out := flags.String("o", "", "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if flags.NArg() != 1 || *mib == 0 || *mib > 4096 {
		flags.Usage()
		return 2
	}
	in := flags.Arg(0)
	if *out == "" {
		*out = in
	}
	if err := packFile(ctx, in, *out, *manifest, *cache, *mib<<20); err != nil {
		fmt.Fprintf(stderr, "wasmpack: %s: %v\n", in, err)
		return 1
	}
	return 0
}

// packFile packs the module in into the file out, which may be the same: it is replaced as a whole or not at all.
func packFile(ctx context.Context, in, out, manifest, cache string, maxBytes uint64) error {
	module, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	if module, err = pack(module, maxBytes); err != nil {
		return err
	}
	doc, err := describe(ctx, module, manifest, filepath.Dir(out), cache, maxBytes)
	if err != nil {
		return err
	}
	return replace(out, appendManifest(module, doc))
}

// describe gives the Info document: from a file, or by asking the module, which must be loadable for that.
func describe(ctx context.Context, module []byte, file, dir, cache string, maxBytes uint64) ([]byte, error) {
	if file != "" {
		doc, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if _, err := abiwasm.DecodeInfo(doc); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return doc, nil
	}
	tmp, err := os.CreateTemp(dir, ".wasmpack-*.wasm")
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(module); err != nil {
		tmp.Close()
		return nil, err
	}
	if err := tmp.Close(); err != nil {
		return nil, err
	}
	p, err := wasm.Load(ctx, wasm.Options{Path: tmp.Name(), MemoryCap: int64(maxBytes), Instances: 1, CacheDir: cache})
	if err != nil {
		return nil, err
	}
	info := p.Info()
	if err := p.Close(ctx); err != nil {
		return nil, err
	}
	return abiwasm.AppendInfo(nil, &info), nil
}

// replace publishes a file: no reader ever sees a part of it.
func replace(path string, b []byte) (err error) {
	mode := os.FileMode(0o644)
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".wasmpack-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err != nil {
		return err
	}
	if err = f.Chmod(mode); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
