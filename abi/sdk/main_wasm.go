//go:build wasip1

package sdk

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/wasm"
)

// instance is the state of this instance of the module. The host makes one call at a time.
var instance struct {
	started bool // main was called
	plugin  *Plugin
	rsm     abi.RemoteStorageManager // after configure
}

// Main registers p and returns: a module has no life of its own, the host calls its exports. A panic in the plugin ends
// the instance; the host writes its text to the log, answers the call with INTERNAL, and starts another instance.
func Main(p Plugin) {
	if len(p.Info.ABIVersions) == 0 {
		p.Info.ABIVersions = []int32{abi.Version}
	}
	instance.plugin = &p
}

// plugin gives what the program's main handed to Main.
func plugin() *Plugin {
	if !instance.started {
		instance.started = true
		mainMain()
	}
	if instance.plugin == nil {
		panic("the program's main did not call sdk.Main")
	}
	return instance.plugin
}

//go:wasmexport rsm_abi_1
func exportMarker() {}

//go:wasmexport rsm_describe
func exportDescribe(int32) uint64 {
	scratch.doc = wasm.AppendInfo(scratch.doc[:0], &plugin().Info)
	return pushReply("describe", scratch.doc)
}

//go:wasmexport rsm_configure
func exportConfigure(n int32) uint64 {
	if err := configure(plugin(), pullRequest(n)); err != nil {
		return pushFail("configure", "", err)
	}
	return uint64(wasm.OK(0, 0))
}

func configure(p *Plugin, request []byte) error {
	if instance.rsm != nil {
		return abi.Errorf("configure", "", abi.Phase, "the instance is configured; that happens once")
	}
	req, err := wasm.DecodeConfigure(request)
	if err != nil {
		return err
	}
	if !slices.Contains(p.Info.ABIVersions, req.ABIVersion) {
		return abi.Errorf("configure", "abi_version", abi.Unsupported, "the host chose version %d of the contract, this plugin speaks %v",
			req.ABIVersion, p.Info.ABIVersions)
	}
	ctx, cancel := callContext()
	defer cancel()
	rsm, err := p.New(ctx, &Config{values: req.Values, roots: rootsOf(req.Values)})
	if err != nil {
		return err
	}
	instance.rsm = rsm
	return nil
}

//go:wasmexport rsm_fetch_log_segment
func exportFetchLogSegment(n int32) uint64 {
	const op = "fetch_log_segment"
	seg, r, err := wasm.DecodeFetchLogSegment(pullRequest(n))
	if err != nil {
		return pushFail(op, "", err)
	}
	return fetch(op, seg, func(ctx context.Context) (*abi.Source, error) {
		return instance.rsm.FetchLogSegment(ctx, seg, r)
	})
}

//go:wasmexport rsm_fetch_index
func exportFetchIndex(n int32) uint64 {
	const op = "fetch_index"
	seg, t, err := wasm.DecodeFetchIndex(pullRequest(n))
	if err != nil {
		return pushFail(op, "", err)
	}
	return fetch(op, seg, func(ctx context.Context) (*abi.Source, error) {
		return instance.rsm.FetchIndex(ctx, seg, t)
	})
}

//go:wasmexport rsm_probe
func exportProbe(int32) uint64 {
	if err := probe(); err != nil {
		return pushFail("probe", "", err)
	}
	return uint64(wasm.OK(0, 0))
}

func probe() error {
	if instance.rsm == nil {
		return notConfigured("probe")
	}
	prober, ok := instance.rsm.(abi.Prober)
	if !ok {
		return abi.Errorf("probe", "", abi.Unsupported, "the plugin has no self-test")
	}
	ctx, cancel := callContext()
	defer cancel()
	return prober.Probe(ctx)
}

func notConfigured(op string) error {
	return abi.Errorf(op, "", abi.Phase, "the plugin is not configured")
}

// callContext carries the deadline of the call at hand, where it has one.
func callContext() (context.Context, context.CancelFunc) {
	ms := hostRemaining()
	if ms < 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
}

// fetch runs one of the fetches and answers with its Source, and with the bytes where it is a stream.
func fetch(op string, seg *abi.SegmentMetadata, run func(context.Context) (*abi.Source, error)) uint64 {
	if instance.rsm == nil {
		return pushFail(op, "", notConfigured(op))
	}
	ctx, cancel := callContext()
	defer cancel()
	src, err := run(ctx)
	if err != nil {
		return pushFail(op, seg.Key(), err)
	}
	if src == nil || (src.Location == nil) == (src.Stream == nil) {
		return pushFail(op, seg.Key(), abi.Errorf(op, seg.Key(), abi.Internal, "the plugin's answer is not either a location or a stream"))
	}
	defer src.Close()
	scratch.doc = wasm.AppendSource(scratch.doc[:0], src)
	result := pushReply(op, scratch.doc)
	if src.Stream == nil || wasm.Result(result).Kind() != 0 {
		return result
	}
	if err := send(src.Stream); err != nil {
		return pushFail(op, seg.Key(), err)
	}
	return result
}

// send moves r to the host in large pieces: what a piece costs beside its bytes is then nothing.
func send(r io.Reader) error {
	if scratch.piece == nil {
		scratch.piece = make([]byte, wasm.OutPiece)
	}
	var sent int64
	var sum uint32
	for {
		n, err := readPiece(r, scratch.piece)
		if n > 0 {
			ptr, size := bytesPtr(scratch.piece[:n])
			sent, sum = sent+int64(n), wasm.Result(hostCRC32C(sum, ptr, size)).Value()
			if r := wasm.Result(hostOutWrite(ptr, size)); r.Kind() != 0 {
				return abi.Errorf("write", "", r.Kind(), "the host takes no more of the stream")
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if r := wasm.Result(hostOutEnd(sent, sum)); r.Kind() != 0 {
		return abi.Errorf("write", "", r.Kind(), "the host does not agree that the stream is whole")
	}
	return nil
}

// readPiece fills p as far as r goes. Unlike io.ReadFull it leaves r's errors as they are: an io.ErrUnexpectedEOF of a
// reader is a truncation, not an end.
func readPiece(r io.Reader, p []byte) (n int, err error) {
	for empty := 0; n < len(p) && err == nil; empty++ {
		var m int
		m, err = r.Read(p[n:])
		if n += m; m > 0 {
			empty = 0
		} else if empty == 100 && err == nil {
			err = io.ErrNoProgress
		}
	}
	if err == io.ErrUnexpectedEOF {
		err = abi.E("read", "", abi.Corrupt, err)
	}
	return n, err
}

func tooLong(n int, kind abi.Kind) error {
	return abi.Errorf("reply", "", kind, "the host does not take a reply of %d bytes; %d is the most", n, wasm.MaxReply)
}

// pushFail tells the host why the call fails, and gives what the export returns for it.
func pushFail(op, subject string, err error) uint64 {
	e := abi.AsError(op, subject, err)
	result := wasm.Fail(e.Kind, 0)
	ptr, size := bytesPtr(wasm.AppendError(nil, e))
	hostFail(int32(result.Kind()), ptr, size)
	return uint64(result)
}
