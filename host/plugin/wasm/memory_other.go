//go:build !unix

package wasm

import "github.com/tetratelabs/wazero/experimental"

// memory is the linear memory of one instance.
type memory struct {
	heapMemory
}

// Allocate implements experimental.MemoryAllocator for one instance.
func (m *memory) Allocate(_, max uint64) experimental.LinearMemory {
	m.max = max
	return m
}
