package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/sdk"
)

// badPlugins are plugins that do not do what they should, by the names of their files.
var badPlugins = map[string]func(){
	"rsm-exits": func() {
		fmt.Fprintln(os.Stderr, "cannot find libfoo.so")
		os.Exit(3)
	},
	"rsm-silent": func() {
		fmt.Fprintln(os.Stderr, "still loading")
		hang()
	},
	"rsm-prints": func() {
		fmt.Println("hello, I am your plugin")
		hang()
	},
	"rsm-abi7": func() { sdk.Main(badPlugin(abi.Info{Name: "abi7", ABIVersions: []int32{7, 8}})) },
	"rsm-grants": func() {
		sdk.Main(badPlugin(abi.Info{Name: "grants", Grants: []abi.Grant{{Kind: "net.http", Value: "*"}}}))
	},
	"rsm-env": func() {
		sdk.Main(badPlugin(abi.Info{Name: "env", Grants: []abi.Grant{{Kind: "env", Value: "RSM_COLOUR"}}}))
	},
	"rsm-bad": func() { sdk.Main(badPlugin(abi.Info{Name: "bad"})) },
}

// hang blocks until the process is killed. An empty select would be called a deadlock.
func hang() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	r.Read(make([]byte, 1))
	w.Close()
}

func badPlugin(info abi.Info) sdk.Plugin {
	info.Version = "0.0.0"
	info.Schema = []byte(`{"properties": {"root": {"type": "string", "x-grant": "fs.read"}, "does": {"type": "string"}, "path": {"type": "string"}}}`)
	return sdk.Plugin{Info: info, New: func(_ context.Context, c *sdk.Config) (abi.RemoteStorageManager, error) {
		return badRSM{c.Value("does"), c.Value("path")}, nil
	}}
}

// badRSM does in a fetch what its setting says.
type badRSM struct{ does, path string }

func (b badRSM) FetchLogSegment(ctx context.Context, seg *abi.SegmentMetadata, _ abi.Range) (*abi.Source, error) {
	switch b.does {
	case "die":
		fmt.Fprintln(os.Stderr, "out of cheese")
		os.Exit(7)
	case "hang":
		hang()
	case "stall":
		return &abi.Source{OriginalSize: seg.SizeBytes, Stream: stalled{ctx.Done()}}, nil
	case "throttle":
		return nil, &abi.Error{Op: "GET", Subject: "bucket/key", Kind: abi.Throttled, Status: 503, RequestID: "r-1", Err: abi.Text("slow down")}
	case "short":
		return &abi.Source{OriginalSize: seg.SizeBytes, Location: &abi.Location{Parts: []abi.Part{{Inline: []byte("abc")}}}}, nil
	}
	return &abi.Source{OriginalSize: seg.SizeBytes, Location: &abi.Location{
		Parts: []abi.Part{{File: &abi.FilePart{Root: "root", Path: b.path, Length: seg.SizeBytes}}}}}, nil
}

func (b badRSM) FetchIndex(_ context.Context, seg *abi.SegmentMetadata, t abi.IndexType) (*abi.Source, error) {
	return nil, abi.Errorf("fetch_index", seg.Key(), abi.NotFound, "no %v index", t)
}

// stalled gives nothing until its call is over.
type stalled struct{ over <-chan struct{} }

func (s stalled) Read([]byte) (int, error) { <-s.over; return 0, io.ErrUnexpectedEOF }
func (stalled) Close() error               { return nil }
