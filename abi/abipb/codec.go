package abipb

import (
	"encoding/binary"
	"errors"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"
)

// Frame is a FetchReply whose data stays in the reference-counted buffers that it arrived in, or leaves from. The wire is
// plain protobuf: the other side may be an ordinary stub. Generated code moves every byte twice and makes a byte of
// garbage of each; a Frame moves none, and whoever reads from it moves each once.
//
// A Frame is used by one goroutine at a time, and may be used again for the next message.
type Frame struct {
	Reply *FetchReply // nil: the frame is data

	data mem.BufferSlice
	at   int // the first of data that was not finished; those before it were given back
	skip int // bytes at the front of data[at] that are no data, or were read
	left int // bytes of data that were not read
}

// DataFrame makes a frame of data. Sending it takes over buf.
func DataFrame(buf mem.Buffer) *Frame {
	return &Frame{data: mem.BufferSlice{buf}, left: buf.Len()}
}

// Len is the number of bytes of data that were not read.
func (f *Frame) Len() int { return f.left }

// Read moves data to p, and gives back the buffers that it finished.
func (f *Frame) Read(p []byte) int {
	n := 0
	for n < len(p) && f.left > 0 {
		b := f.data[f.at].ReadOnlyData()[f.skip:]
		m := copy(p[n:], b)
		n, f.left = n+m, f.left-m
		if m < len(b) {
			f.skip += m
			break
		}
		f.data[f.at].Free()
		f.at, f.skip = f.at+1, 0
	}
	return n
}

// Free gives back all buffers. The frame is empty then.
func (f *Frame) Free() {
	f.data[f.at:].Free()
	*f = Frame{data: f.data[:0]} // what is kept is the room for the next message's buffers
}

// dataTag begins a FetchReply whose only field is data: field 1, length-delimited.
const dataTag = 1<<3 | 2

var errTwice = errors.New("abipb: the frame holds buffers of an earlier message")

// decode takes over a message. Data alone in it stays where it is; anything else is decoded as usual.
func (f *Frame) decode(msg mem.BufferSlice) error {
	if f.left > 0 {
		return errTwice
	}
	f.Free()
	var head [1 + binary.MaxVarintLen64]byte
	n := msg.CopyTo(head[:])
	if n > 0 && head[0] == dataTag {
		size, w := binary.Uvarint(head[1:n])
		if w > 0 && size == uint64(msg.Len()-1-w) {
			f.take(msg, 1+w, int(size))
			return nil
		}
	}
	buf := msg.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	f.Reply = new(FetchReply)
	if err := protobuf.Unmarshal(buf.ReadOnlyData(), f.Reply); err != nil {
		return err
	}
	if d, ok := f.Reply.Reply.(*FetchReply_Data); ok { // data beside fields that are unknown here
		f.Reply = nil
		f.take(mem.BufferSlice{mem.SliceBuffer(d.Data)}, 0, len(d.Data))
	}
	return nil
}

// take references the buffers of msg without its first skip bytes.
func (f *Frame) take(msg mem.BufferSlice, skip, size int) {
	if size == 0 {
		return
	}
	for _, b := range msg {
		if skip >= b.Len() { // no data in it, and Read counts on some
			skip -= b.Len()
			continue
		}
		b.Ref()
		f.data = append(f.data, b)
		if len(f.data) == 1 {
			f.skip, skip = skip, 0
		}
	}
	f.left = size
}

func (f *Frame) encode() (mem.BufferSlice, error) {
	if f.Reply != nil {
		b, err := protobuf.Marshal(f.Reply)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	head := binary.AppendUvarint([]byte{dataTag}, uint64(f.left))
	return append(mem.BufferSlice{mem.SliceBuffer(head)}, f.data...), nil
}

// Codec is protobuf for gRPC that leaves a Frame's data in place. Force it on a connection or a server; it is never
// registered, so that nothing else in the process meets it.
type Codec struct{}

var _ encoding.CodecV2 = Codec{}

// Marshal encodes a *Frame or any message. A frame of data hands over its buffers.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*Frame); ok {
		return f.encode()
	}
	return encoding.GetCodecV2(proto.Name).Marshal(v)
}

// Unmarshal decodes into a *Frame or any message.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*Frame); ok {
		return f.decode(data)
	}
	return encoding.GetCodecV2(proto.Name).Unmarshal(data, v)
}

// Name is protobuf's: the wire is the same.
func (Codec) Name() string { return proto.Name }
