package wasm

// heapMemory is a linear memory in Go's heap, where there are no pages to map.
type heapMemory struct {
	b   []byte
	max uint64
}

// Reallocate implements experimental.LinearMemory.
func (m *heapMemory) Reallocate(size uint64) []byte {
	if size > m.max {
		return nil
	}
	if size > uint64(cap(m.b)) {
		b := make([]byte, size, min(m.max, size+size/2))
		copy(b, m.b)
		m.b = b
	}
	m.b = m.b[:size]
	return m.b
}

// Free implements experimental.LinearMemory.
func (m *heapMemory) Free() { m.b = nil }
