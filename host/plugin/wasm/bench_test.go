package wasm

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

func BenchmarkLocation(b *testing.B) {
	doc := abiwasm.AppendSource(nil, &abi.Source{OriginalSize: 1 << 30, Location: &abi.Location{Scope: abi.ScopeObject, Parts: []abi.Part{
		{File: &abi.FilePart{Root: "root", Path: "orders-3/00000000000000001201-adh9f8BMS4anaUnD8KWfWg.log", Length: -1}}}}})
	small := plugin(doc, map[string][]byte{abiwasm.FetchLogSegment: hostCall("reply", 0, int64(len(doc)))})
	for name, p := range map[string]*Plugin{"go": ready(b, Options{}, nil), "small": assembled(b, small, Options{})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			seg := segment("location")
			for b.Loop() {
				if _, err := p.FetchLogSegment(b.Context(), seg, abi.Range{Start: 0, End: abi.ToEnd}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				seg := segment("location")
				for pb.Next() {
					if _, err := p.FetchLogSegment(context.Background(), seg, abi.Range{Start: 0, End: abi.ToEnd}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkStream1MiB(b *testing.B) {
	p := ready(b, Options{}, nil)
	buf := make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		src, err := p.FetchLogSegment(b.Context(), segment("stream"), abi.Range{Start: 0, End: 1<<20 - 1})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(src.Stream, buf); err != nil {
			b.Fatal(err)
		}
		if n, err := src.Stream.Read(buf); n != 0 || err != io.EOF {
			b.Fatal(n, err)
		}
		src.Close()
	}
}

func BenchmarkInstantiate(b *testing.B) {
	for name, p := range map[string]*Plugin{"go": loadGuest(b, Options{}), "small": assembled(b, plugin(nil, nil), Options{})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				i, err := p.instantiate(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				i.close(b.Context(), p.log)
			}
		})
	}
}

// BenchmarkStart is from nothing to the answer of the first call.
func BenchmarkStart(b *testing.B) {
	for name, path := range map[string]string{"go": goGuest(b), "small": store(b, plugin(locationDoc(), map[string][]byte{
		abiwasm.FetchLogSegment: hostCall("reply", 0, int64(len(locationDoc())))}).bytes())} {
		start := func(b *testing.B, dir string) {
			p, err := Load(b.Context(), Options{Path: path, CacheDir: dir})
			if err != nil {
				b.Fatal(err)
			}
			if err := p.Configure(b.Context(), nil, nil, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := ask(b.Context(), p, "location"); err != nil {
				b.Fatal(err)
			}
			p.Close(b.Context())
		}
		b.Run(name+"/cold", func(b *testing.B) {
			for b.Loop() {
				start(b, "")
			}
		})
		b.Run(name+"/warm", func(b *testing.B) {
			dir := filepath.Join(shared, "cache")
			start(b, dir)
			for b.Loop() {
				start(b, dir)
			}
		})
	}
}
