package wasm

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/rsmhost/rsmhost/abi"
)

// compile makes p's runtime and compiles the module into it, or reads back what it compiled before. Trouble with the cache
// never fails a load.
func (p *Plugin) compile(ctx context.Context, module []byte, o Options) error {
	cache := p.cacheOf(o)
	if cache == nil {
		return p.compileIn(ctx, module, o.MemoryCap, "")
	}
	entry := cache.entry(module, o.MemoryCap)
	if cache.good(entry) {
		err := p.compileIn(ctx, module, o.MemoryCap, entry)
		if err == nil || ctx.Err() != nil {
			return err
		}
		os.RemoveAll(entry) // it was good by its sums, and wazero does not take it: from now on it is a miss
	}
	cache.trim(time.Now())
	tmp, err := os.MkdirTemp(cache.dir, "tmp-")
	if err != nil {
		p.uncached(err)
		return p.compileIn(ctx, module, o.MemoryCap, "")
	}
	defer os.RemoveAll(tmp)
	if err := p.compileIn(ctx, module, o.MemoryCap, tmp); err != nil {
		if ctx.Err() != nil {
			return err
		}
		p.uncached(err) // a full disk looks the same as a bad module: only without the cache one can tell
		return p.compileIn(ctx, module, o.MemoryCap, "")
	}
	if err := cache.publish(tmp, entry); err != nil {
		p.uncached(err)
	}
	return nil
}

// cacheOf opens the cache, nil where there is none.
func (p *Plugin) cacheOf(o Options) *compileCache {
	if o.CacheDir == "" {
		return nil
	}
	version, err := wazeroVersion()
	if err == nil {
		var cache *compileCache
		if cache, err = openCache(o.CacheDir, version); err == nil {
			return cache
		}
	}
	p.uncached(err)
	return nil
}

func (p *Plugin) uncached(err error) {
	p.log.LogAttrs(context.Background(), slog.LevelWarn, "the compiled module is not kept; the next start compiles it again", slog.Any("err", err))
}

// compileIn compiles with wazero's cache in dir, or with none. Nothing is left over after an error.
func (p *Plugin) compileIn(ctx context.Context, module []byte, memoryCap int64, dir string) error {
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2).
		WithCloseOnContextDone(true). // deadlines hold in loops; costs 0.4 to 2 us a call
		WithMemoryLimitPages(uint32(memoryCap / pageSize)).
		WithDebugInfoEnabled(false) // DWARF: a trap names functions without it
	var cache wazero.CompilationCache
	if dir != "" {
		var err error
		if cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return err
		}
		config = config.WithCompilationCache(cache)
	}
	rt := wazero.NewRuntimeWithConfig(ctx, config)
	workers := min(runtime.GOMAXPROCS(0), 4)
	compiled, err := rt.CompileModule(experimental.WithCompilationWorkers(ctx, workers), module)
	if err == nil {
		err = ctx.Err() // compiling takes a second and does not look
	}
	if err != nil {
		rt.Close(ctx)
		if cache != nil {
			cache.Close(ctx)
		}
		return abi.E("compile", "", compileKind(ctx), err)
	}
	p.runtime, p.compiled, p.cache = rt, compiled, cache
	return nil
}

// compileKind tells a module that the compiler refuses from a caller who gave up.
func compileKind(ctx context.Context) abi.Kind {
	if ctx.Err() != nil {
		return interruption(context.Cause(ctx))
	}
	return abi.Invalid
}
