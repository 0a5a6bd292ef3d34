package abipb

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// countingPool counts the buffers that are out, and spoils those that come back, so that a use after Free shows.
type countingPool struct{ out int }

func (p *countingPool) Get(n int) *[]byte { p.out++; b := make([]byte, n); return &b }
func (p *countingPool) Put(b *[]byte) {
	p.out--
	for i := range *b {
		(*b)[i] = 0xdb
	}
}

// split copies a message into buffers of size bytes each. They are large enough for mem to count references.
func (p *countingPool) split(msg []byte, size int) mem.BufferSlice {
	var s mem.BufferSlice
	for len(msg) > 0 {
		n := min(size, len(msg))
		b := p.Get(max(size, 2048))
		*b = (*b)[:copy(*b, msg[:n])]
		s = append(s, mem.NewBuffer(b, p))
		msg = msg[n:]
	}
	return s
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func TestFrameLeavesDataInItsBuffers(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 2047, 4096, 100_000} {
		for _, split := range []int{1, 2, 3, 2048, 16384} {
			want := pattern(size)
			msg, err := proto.Marshal(&FetchReply{Reply: &FetchReply_Data{want}})
			if err != nil {
				t.Fatal(err)
			}
			if split < 16 && size > 4096 {
				continue
			}
			pool := &countingPool{}
			in := pool.split(msg, split)
			var f Frame
			if err := (Codec{}).Unmarshal(in, &f); err != nil {
				t.Fatal(err)
			}
			in.Free() // as gRPC does
			if f.Reply != nil || f.Len() != size {
				t.Fatalf("size %d in %d: reply %v, %d bytes", size, split, f.Reply, f.Len())
			}
			var got []byte
			p := make([]byte, 1000)
			for f.Len() > 0 {
				got = append(got, p[:f.Read(p)]...)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("size %d in %d: the bytes differ", size, split)
			}
			if f.Free(); pool.out != 0 {
				t.Errorf("size %d in %d: %d buffers were not given back", size, split, pool.out)
			}
		}
	}
}

func TestFrameFreedUnread(t *testing.T) {
	msg, _ := proto.Marshal(&FetchReply{Reply: &FetchReply_Data{pattern(10_000)}})
	pool := &countingPool{}
	in := pool.split(msg, 2048)
	var f Frame
	if err := (Codec{}).Unmarshal(in, &f); err != nil {
		t.Fatal(err)
	}
	in.Free()
	f.Read(make([]byte, 3000))
	if err := (Codec{}).Unmarshal(in, &f); err == nil {
		t.Error("a second message was taken before the first was read")
	}
	f.Free()
	if pool.out != 0 || f.Len() != 0 {
		t.Errorf("%d buffers were not given back, %d bytes are left", pool.out, f.Len())
	}
}

// TestFrameOfOtherMessages shows that a Frame decodes what generated code does, also with fields that are unknown here.
func TestFrameOfOtherMessages(t *testing.T) {
	grease := protowire.AppendTag(nil, 77, protowire.VarintType)
	grease = protowire.AppendVarint(grease, 5)
	data, _ := proto.Marshal(&FetchReply{Reply: &FetchReply_Data{pattern(3000)}})
	for name, msg := range map[string][]byte{"after": append(bytes.Clone(data), grease...), "before": append(bytes.Clone(grease), data...)} {
		var f Frame
		if err := (Codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(msg)}, &f); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 3000)
		if f.Reply != nil || f.Len() != 3000 || f.Read(got) != 3000 || !bytes.Equal(got, pattern(3000)) {
			t.Errorf("an unknown field %s data: reply %v, %d bytes", name, f.Reply, f.Len())
		}
	}
	for _, want := range []*FetchReply{
		{}, {Reply: &FetchReply_End{&End{BytesSent: 5, Crc32C: 6}}}, {Reply: &FetchReply_Source{&Source{OriginalSize: -1}}},
	} {
		out, err := (Codec{}).Marshal(&Frame{Reply: want})
		if err != nil {
			t.Fatal(err)
		}
		var f Frame
		if err := (Codec{}).Unmarshal(out, &f); err != nil || !proto.Equal(f.Reply, want) {
			t.Errorf("got %v, %v, want %v", f.Reply, err, want)
		}
	}
	var f Frame
	for _, msg := range []string{"\x0a", "\x0a\x05ab", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\xff"} {
		if err := (Codec{}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(msg)}, &f); err == nil {
			t.Errorf("%q was decoded", msg)
		}
	}
}

// TestDataFrameIsPlainProtobuf shows that an ordinary stub reads what DataFrame sends.
func TestDataFrameIsPlainProtobuf(t *testing.T) {
	pool := &countingPool{}
	want := pattern(5000)
	out, err := (Codec{}).Marshal(DataFrame(pool.split(want, 5000)[0]))
	if err != nil {
		t.Fatal(err)
	}
	var got FetchReply
	if err := (Codec{}).Unmarshal(out, &got); err != nil || !bytes.Equal(got.GetData(), want) {
		t.Errorf("%d bytes, %v", len(got.GetData()), err)
	}
	if out.Free(); pool.out != 0 {
		t.Errorf("%d buffers were not given back", pool.out)
	}
}

func FuzzFrame(f *testing.F) {
	for _, m := range []*FetchReply{{Reply: &FetchReply_Data{pattern(40)}}, {Reply: &FetchReply_End{&End{BytesSent: 1}}}} {
		b, _ := proto.Marshal(m)
		f.Add(b, 3)
	}
	f.Fuzz(func(t *testing.T, msg []byte, split int) {
		var want FetchReply
		wantErr := proto.Unmarshal(msg, &want)
		var got Frame
		pool := &countingPool{}
		in := pool.split(msg, 1+(split&0xff))
		err := (Codec{}).Unmarshal(in, &got)
		in.Free()
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if got.Reply == nil {
			p := make([]byte, got.Len())
			got.Read(p)
			if !bytes.Equal(p, want.GetData()) {
				t.Fatalf("data %x, want %x", p, want.GetData())
			}
		}
		if got.Free(); pool.out != 0 {
			t.Fatalf("%d buffers were not given back", pool.out)
		}
	})
}
