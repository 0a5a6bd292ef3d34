//go:build wasip1

package sdk

import (
	"unsafe"

	"github.com/rsmhost/rsmhost/abi/wasm"
)

// The host's functions that the SDK uses, as wasm.HostFuncs has them. The clock, random bytes and what is printed reach
// the host by WASI, which Go's own runtime imports.

//go:wasmimport rsm_host_1 request
//go:noescape
func hostRequest(ptr unsafe.Pointer, size uint32) uint64

//go:wasmimport rsm_host_1 reply
//go:noescape
func hostReply(ptr unsafe.Pointer, size uint32) uint64

//go:wasmimport rsm_host_1 fail
//go:noescape
func hostFail(kind int32, ptr unsafe.Pointer, size uint32) uint64

//go:wasmimport rsm_host_1 remaining_ms
func hostRemaining() int64

//go:wasmimport rsm_host_1 file_size
//go:noescape
func hostFileSize(root unsafe.Pointer, rootLen uint32, path unsafe.Pointer, pathLen uint32, size unsafe.Pointer) uint64

//go:wasmimport rsm_host_1 file_read
//go:noescape
func hostFileRead(root unsafe.Pointer, rootLen uint32, path unsafe.Pointer, pathLen uint32, off int64,
	ptr unsafe.Pointer, size uint32) uint64

//go:wasmimport rsm_host_1 out_write
//go:noescape
func hostOutWrite(ptr unsafe.Pointer, size uint32) uint64

//go:wasmimport rsm_host_1 out_end
func hostOutEnd(bytes int64, crc uint32) uint64

//go:wasmimport rsm_host_1 crc32c
//go:noescape
func hostCRC32C(crc uint32, ptr unsafe.Pointer, size uint32) uint64

// mainMain is the program's main. A wasip1 reactor runs the package initializers and no main (golang.org/issue/65199);
// the plugin is handed to Main there, so the SDK calls it. The runtime reaches it the same way.
//
//go:linkname mainMain main.main
func mainMain()

func bytesPtr(b []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(b)), uint32(len(b))
}

func stringPtr(s string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))
}

// pullRequest gives the request of the call at hand, which is n bytes long. It is good until the next call.
func pullRequest(n int32) []byte {
	if int(n) > cap(scratch.request) {
		scratch.request = make([]byte, n)
	}
	b := scratch.request[:n]
	if n > 0 {
		ptr, size := bytesPtr(b)
		if r := wasm.Result(hostRequest(ptr, size)); r.Kind() != 0 || r.Value() != size {
			panic("the host announced a request of another size")
		}
	}
	return b
}

// pushReply hands a document to the host, and gives what the export returns for it.
func pushReply(op string, doc []byte) uint64 {
	if len(doc) > 0 {
		if r := wasm.Result(hostReply(bytesPtr(doc))); r.Kind() != 0 {
			return pushFail(op, "", tooLong(len(doc), r.Kind()))
		}
	}
	return uint64(wasm.OK(uint32(len(doc)), 0))
}

// scratch holds buffers for the call at hand. There is one call at a time in an instance.
var scratch struct {
	request []byte
	doc     []byte
	piece   []byte // of a stream
}
