package format

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// contents are what codecs find easy and hard.
func contents() map[string][]byte {
	noise := make([]byte, 200_000)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise)
	return map[string][]byte{
		"one byte": {7},
		"text":     bytes.Repeat([]byte("the quick brown fox "), 10_000),
		"zeros":    make([]byte, 1_000_000),
		"noise":    noise,
	}
}

func TestDecompress(t *testing.T) {
	for _, p := range packings {
		for name, data := range contents() {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				packed := p.pack(t, data)
				got, err := Decompress(p.codec, 2, packed, 0)
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
				if got, err = Decompress(p.codec, 2, packed, int64(len(data))); err != nil || len(got) != len(data) {
					t.Errorf("limit of the very size: %d bytes, %v", len(got), err)
				}
				if len(data) == 1 {
					return
				}
				_, err = Decompress(p.codec, 2, packed, int64(len(data)-1))
				wantKind(t, err, abi.Exhausted, "limit of")
			})
		}
	}
}

// TestDecompressCut: no cut is taken for the end, nor does it leave a decompressor unfit for the next.
func TestDecompressCut(t *testing.T) {
	data := contents()["text"][:1000]
	for _, p := range packings[1:] {
		packed := p.pack(t, data)
		whole := 0
		for n := range packed {
			got, err := Decompress(p.codec, 2, packed[:n], 0)
			if err == nil {
				whole++ // xerial has no end mark: a cut between blocks cannot be seen here, but by the count of records
				if p.name != "snappy/xerial" || len(got) >= len(data) {
					t.Errorf("%s: cut to %d of %d: %d bytes, no error", p.name, n, len(packed), len(got))
				}
				continue
			}
			wantKind(t, err, abi.Corrupt)
		}
		if got, err := Decompress(p.codec, 2, packed, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: after the cut ones: %v", p.name, err)
		}
		if p.name == "snappy/xerial" && whole != 10 { // behind the header, and between 10 blocks
			t.Errorf("%d cuts went unseen", whole)
		}
	}
}

// TestLZ4BrokenHeader: the mistake in magic 0 is forgiven there and nowhere else (KAFKA-3160).
func TestLZ4BrokenHeader(t *testing.T) {
	data := []byte("some data, some data, some data")
	broken := breakLZ4Header(packLZ4(t, data))
	before := bytes.Clone(broken)
	got, err := Decompress(CodecLZ4, 0, broken, 0)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%q, %v", got, err)
	}
	if !bytes.Equal(broken, before) {
		t.Error("the caller's bytes were changed")
	}
	for magic := int8(1); magic <= 2; magic++ {
		_, err = Decompress(CodecLZ4, magic, broken, 0)
		wantKind(t, err, abi.Corrupt, "lz4", "checksum")
	}
	for _, good := range [][]byte{packLZ4(t, data), packLZ4Rich(t, data)} {
		if got, err = Decompress(CodecLZ4, 0, good, 0); err != nil || !bytes.Equal(got, data) {
			t.Errorf("a right checksum in magic 0: %q, %v", got, err)
		}
		for n := range 16 {
			_, err = Decompress(CodecLZ4, 0, good[:n], 0)
			wantKind(t, err, abi.Corrupt)
		}
	}
}

// TestXXH32 holds against the algorithm's published values.
func TestXXH32(t *testing.T) {
	for s, want := range map[string]uint32{"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "abcd": 0xa3643705} {
		if got := xxh32([]byte(s)); got != want {
			t.Errorf("%q: %08x, want %08x", s, got, want)
		}
	}
}

func TestXerialJoined(t *testing.T) {
	joined := append(packXerial(t, []byte("one, ")), packXerial(t, []byte("two"))...)
	got, err := Decompress(CodecSnappy, 2, joined, 0)
	if err != nil || string(got) != "one, two" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err = Decompress(CodecSnappy, 2, joined[:16], 0); err != nil || len(got) != 0 {
		t.Errorf("header alone: %q, %v", got, err)
	}
}

func TestDecompressDamaged(t *testing.T) {
	xerial := packXerial(t, []byte("text"))
	tests := []struct {
		name  string
		codec Codec
		src   []byte
		kind  abi.Kind
		want  string
	}{
		{"codec 5", 5, []byte{1}, abi.Unsupported, "codec(5)"},
		{"codec -1", -1, []byte{1}, abi.Unsupported, "codec(-1)"},
		{"xerial header cut", CodecSnappy, xerial[:10], abi.Corrupt, "framing header is cut"},
		{"xerial length cut", CodecSnappy, xerial[:18], abi.Corrupt, "length of a block is cut"},
		{"xerial block cut", CodecSnappy, xerial[:21], abi.Corrupt, "a block of 6 bytes has 1 left"},
		{"snappy claims 4 GiB", CodecSnappy, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, abi.Corrupt, "claims to hold 4294967295"},
		{"snappy without length", CodecSnappy, []byte{0xff}, abi.Corrupt, "snappy"},
		{"zstd claims 1 TiB", CodecZstd, unhex(t, "28b52ffd e0 00 00 00 00 00 01 00 00 010000"), abi.Exhausted, "zstd"},
		{"zstd wants a dictionary", CodecZstd, unhex(t, "28b52ffd 21 07 00 010000"), abi.Corrupt, "zstd"},
		{"gzip of nothing", CodecGzip, nil, abi.Corrupt, "cut"},
		{"zstd of nothing", CodecZstd, nil, abi.Corrupt, "cut"},
		{"lz4 of nothing", CodecLZ4, nil, abi.Corrupt, "cut"},
		{"snappy of nothing", CodecSnappy, nil, abi.Corrupt, "cut"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decompress(tt.codec, 2, tt.src, 0)
			wantKind(t, err, tt.kind, tt.want)
		})
	}
}

// TestDecompressBomb: a little that becomes a lot stops at the limit.
func TestDecompressBomb(t *testing.T) {
	zeros := make([]byte, 32<<20)
	for _, p := range packings[1:] {
		_, err := Decompress(p.codec, 2, p.pack(t, zeros), 1<<20)
		wantKind(t, err, abi.Exhausted, "more than the limit of 1048576 bytes", p.codec.String())
	}
}

// TestDecompressConcurrently: the pooled decompressors do not mix up their callers.
func TestDecompressConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 4 * len(packings) {
		p := packings[i%len(packings)]
		data := bytes.Repeat([]byte{byte(i)}, 10_000+i)
		packed := p.pack(t, data)
		wg.Go(func() {
			for range 20 {
				if got, err := Decompress(p.codec, 2, packed, 0); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes, %v", p.name, len(got), err)
				}
			}
		})
	}
	wg.Wait()
}
