package wasm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
)

// This file is the WASI that a module gets: a shim of our own, and not wazero's.
//
//   - wazero's has a file system, and what is not linked cannot be mounted by mistake. Here paths are ENOSYS and
//     descriptors beyond 2 are EBADF, and that is all the code there is.
//   - wazero's defaults are a clock that stands in 2022, random bytes that are the same in every instance, and a sleep
//     that returns at once (measured); configured to be real, its sleep still outlasts the deadline of the call, because it
//     gets no context. Here they are real, and the sleep ends with the call.
//   - standard output and error are lines of the plugin's log, and standard input is at its end.
//
// Only what a module imports is linked.

const wasiModule = "wasi_snapshot_preview1"

// The errno values of WASI that are used here.
const (
	wasiOK    = 0
	wasiBadf  = 8
	wasiFault = 21
	wasiInval = 28
	wasiNosys = 52
)

// wasiFunc is one function: its signature in the letters of abiwasm.Func, and what it does, which gives the errno.
type wasiFunc struct {
	name, params, results string
	run                   hostFunc
}

var wasiFuncs = []wasiFunc{
	{"args_get", "ii", "i", wasiConst(wasiOK)},
	{"args_sizes_get", "ii", "i", wasiNone},
	{"clock_res_get", "ii", "i", wasiClockRes},
	{"clock_time_get", "iIi", "i", wasiClockTime},
	{"environ_get", "ii", "i", wasiConst(wasiOK)},
	{"environ_sizes_get", "ii", "i", wasiNone},
	{"fd_advise", "iIIi", "i", wasiConst(wasiBadf)},
	{"fd_allocate", "iII", "i", wasiConst(wasiBadf)},
	{"fd_close", "i", "i", wasiConst(wasiBadf)},
	{"fd_datasync", "i", "i", wasiConst(wasiBadf)},
	{"fd_fdstat_get", "ii", "i", wasiFdstat},
	{"fd_fdstat_set_flags", "ii", "i", wasiConst(wasiBadf)},
	{"fd_fdstat_set_rights", "iII", "i", wasiConst(wasiBadf)},
	{"fd_filestat_get", "ii", "i", wasiConst(wasiBadf)},
	{"fd_filestat_set_size", "iI", "i", wasiConst(wasiBadf)},
	{"fd_filestat_set_times", "iIIi", "i", wasiConst(wasiBadf)},
	{"fd_pread", "iiiIi", "i", wasiConst(wasiBadf)},
	{"fd_prestat_dir_name", "iii", "i", wasiConst(wasiBadf)},
	{"fd_prestat_get", "ii", "i", wasiConst(wasiBadf)},
	{"fd_pwrite", "iiiIi", "i", wasiConst(wasiBadf)},
	{"fd_read", "iiii", "i", wasiRead},
	{"fd_readdir", "iiiIi", "i", wasiConst(wasiBadf)},
	{"fd_renumber", "ii", "i", wasiConst(wasiBadf)},
	{"fd_seek", "iIii", "i", wasiConst(wasiBadf)},
	{"fd_sync", "i", "i", wasiConst(wasiBadf)},
	{"fd_tell", "ii", "i", wasiConst(wasiBadf)},
	{"fd_write", "iiii", "i", wasiWrite},
	{"path_create_directory", "iii", "i", wasiConst(wasiNosys)},
	{"path_filestat_get", "iiiii", "i", wasiConst(wasiNosys)},
	{"path_filestat_set_times", "iiiiIIi", "i", wasiConst(wasiNosys)},
	{"path_link", "iiiiiii", "i", wasiConst(wasiNosys)},
	{"path_open", "iiiiiIIii", "i", wasiConst(wasiNosys)},
	{"path_readlink", "iiiiii", "i", wasiConst(wasiNosys)},
	{"path_remove_directory", "iii", "i", wasiConst(wasiNosys)},
	{"path_rename", "iiiiii", "i", wasiConst(wasiNosys)},
	{"path_symlink", "iiiii", "i", wasiConst(wasiNosys)},
	{"path_unlink_file", "iii", "i", wasiConst(wasiNosys)},
	{"poll_oneoff", "iiii", "i", wasiPoll},
	{"proc_exit", "i", "", wasiExit},
	{"proc_raise", "i", "i", wasiConst(wasiNosys)},
	{"random_get", "ii", "i", wasiRandom},
	{"sched_yield", "", "i", wasiYield},
	{"sock_accept", "iii", "i", wasiConst(wasiNosys)},
	{"sock_recv", "iiiiii", "i", wasiConst(wasiNosys)},
	{"sock_send", "iiiii", "i", wasiConst(wasiNosys)},
	{"sock_shutdown", "ii", "i", wasiConst(wasiNosys)},
}

func wasiConst(errno uint64) hostFunc {
	return func(context.Context, *call, api.Memory, []uint64) uint64 { return errno }
}

// wasiNone says that there are no arguments, and no environment.
func wasiNone(_ context.Context, _ *call, mem api.Memory, args []uint64) uint64 {
	return written(mem.WriteUint32Le(uint32(args[0]), 0) && mem.WriteUint32Le(uint32(args[1]), 0))
}

func written(ok bool) uint64 {
	if !ok {
		return wasiFault
	}
	return wasiOK
}

// The clocks of WASI.
const (
	wasiRealtime  = 0
	wasiMonotonic = 1
)

func wasiClockRes(_ context.Context, _ *call, mem api.Memory, args []uint64) uint64 {
	if id := uint32(args[0]); id != wasiRealtime && id != wasiMonotonic {
		return wasiInval
	}
	return written(mem.WriteUint64Le(uint32(args[1]), 1))
}

func wasiClockTime(_ context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	ns, ok := wasiNow(c, uint32(args[0]))
	if !ok {
		return wasiInval
	}
	return written(mem.WriteUint64Le(uint32(args[2]), uint64(ns)))
}

func wasiNow(c *call, id uint32) (ns int64, ok bool) {
	switch id {
	case wasiRealtime:
		return c.now(abiwasm.WallClock)
	case wasiMonotonic:
		return c.now(abiwasm.MonotonicClock)
	}
	return 0, false
}

func wasiRandom(_ context.Context, _ *call, mem api.Memory, args []uint64) uint64 {
	b, ok := mem.Read(uint32(args[0]), uint32(args[1]))
	if !ok {
		return wasiFault
	}
	rand.Read(b) // never fails: it ends the process instead
	return wasiOK
}

func wasiYield(context.Context, *call, api.Memory, []uint64) uint64 {
	runtime.Gosched()
	return wasiOK
}

// wasiExit ends the guest's call where it stands. The instance is closed when the call has unwound, not here.
func wasiExit(_ context.Context, _ *call, _ api.Memory, args []uint64) uint64 {
	panic(sys.NewExitError(uint32(args[0])))
}

// wasiFdstat knows three character devices.
func wasiFdstat(_ context.Context, _ *call, mem api.Memory, args []uint64) uint64 {
	if int32(args[0]) < 0 || int32(args[0]) > 2 {
		return wasiBadf
	}
	const characterDevice = 2
	stat := [24]byte{characterDevice}
	return written(mem.Write(uint32(args[1]), stat[:]))
}

// wasiRead is at the end of standard input.
func wasiRead(_ context.Context, _ *call, mem api.Memory, args []uint64) uint64 {
	if int32(args[0]) != 0 {
		return wasiBadf
	}
	return written(mem.WriteUint32Le(uint32(args[3]), 0))
}

// maxVectors bounds one fd_write, as IOV_MAX does elsewhere.
const maxVectors = 1024

func wasiWrite(ctx context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	if fd := int32(args[0]); fd != 1 && fd != 2 {
		return wasiBadf
	}
	n := uint32(args[2])
	if n > maxVectors {
		return wasiInval
	}
	vectors, ok := mem.Read(uint32(args[1]), n*8)
	if !ok {
		return wasiFault
	}
	var total uint32
	for ; len(vectors) > 0; vectors = vectors[8:] {
		b, ok := mem.Read(binary.LittleEndian.Uint32(vectors), binary.LittleEndian.Uint32(vectors[4:]))
		if !ok {
			return wasiFault
		}
		c.inst.log.write(ctx, b)
		total += uint32(len(b))
	}
	return written(mem.WriteUint32Le(uint32(args[3]), total))
}

// The layout of poll_oneoff's subscriptions and events, and the kinds of both.
const (
	subscriptionSize = 48
	eventSize        = 32
	eventClock       = 0
)

// wasiPoll sleeps until the earliest clock among the subscriptions, or until the call is over. Descriptors are never
// ready, they are bad: their events come at once.
func wasiPoll(ctx context.Context, c *call, mem api.Memory, args []uint64) uint64 {
	n := uint32(args[2])
	if n == 0 || n > maxVectors {
		return wasiInval
	}
	in, ok := mem.Read(uint32(args[0]), n*subscriptionSize)
	if !ok {
		return wasiFault
	}
	out, ok := mem.Read(uint32(args[1]), n*eventSize)
	if !ok {
		return wasiFault
	}
	in = append([]byte(nil), in...) // a module may let the two overlap
	wait, bad := time.Duration(-1), false
	for i := range n {
		s := in[i*subscriptionSize:][:subscriptionSize]
		if s[8] != eventClock {
			bad = true
			continue
		}
		if d, ok := wasiTimeout(c, s[16:]); !ok {
			return wasiInval
		} else if wait < 0 || d < wait {
			wait = d
		}
	}
	if !bad {
		sleep(ctx, wait)
	}
	events := uint32(0)
	for i := range n {
		s := in[i*subscriptionSize:][:subscriptionSize]
		if isClock := s[8] == eventClock; isClock != bad {
			writeEvent(out[events*eventSize:][:eventSize], s, isClock)
			events++
		}
	}
	return written(mem.WriteUint32Le(uint32(args[3]), events))
}

// wasiTimeout gives how long a subscription to a clock waits from now.
func wasiTimeout(c *call, s []byte) (time.Duration, bool) {
	const absolute = 1
	now, ok := wasiNow(c, binary.LittleEndian.Uint32(s))
	timeout := binary.LittleEndian.Uint64(s[8:])
	if !ok || timeout > 1<<62 {
		return time.Duration(1) << 62, ok
	}
	d := int64(timeout)
	if binary.LittleEndian.Uint16(s[24:])&absolute != 0 {
		d = max(0, d-now)
	}
	return time.Duration(d), true
}

func writeEvent(e, subscription []byte, isClock bool) {
	clear(e)
	copy(e, subscription[:8])
	if !isClock {
		e[8] = wasiBadf
	}
	e[10] = subscription[8]
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done(): // the guest is stopped at its next loop
	}
}
