package format

import (
	"bytes"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// allVectors is a log of all magics.
func allVectors(t testing.TB) []byte {
	var log []byte
	for _, v := range batchVectors {
		log = append(log, unhex(t, v.hex)...)
	}
	return log
}

func TestWalk(t *testing.T) {
	log := allVectors(t)
	w := Walk(log)
	pos := int64(0)
	for _, v := range batchVectors {
		if !w.Next() {
			t.Fatalf("%s: the walk ended: %v", v.name, w.Err())
		}
		if *w.Header() != v.header || !bytes.Equal(w.Bytes(), unhex(t, v.hex)) || w.Pos() != pos {
			t.Errorf("%s: got %+v at %d, want %+v at %d", v.name, *w.Header(), w.Pos(), v.header, pos)
		}
		pos += v.header.Size()
	}
	for range 2 { // asking again changes nothing
		if w.Next() || w.Err() != nil || len(w.Rest()) != 0 || w.Pos() != int64(len(log)) {
			t.Errorf("after the last: error %v, %d bytes rest, position %d", w.Err(), len(w.Rest()), w.Pos())
		}
	}
}

// TestWalkCut: wherever the log is cut, the whole batches come and the cut one is the rest.
func TestWalkCut(t *testing.T) {
	log := allVectors(t)
	for n := range len(log) + 1 {
		whole, batches := int64(0), 0
		for _, v := range batchVectors {
			if whole+v.header.Size() > int64(n) {
				break
			}
			whole += v.header.Size()
			batches++
		}
		w, got := Walk(log[:n]), 0
		for w.Next() {
			got++
		}
		if w.Err() != nil || got != batches || w.Pos() != whole || int64(len(w.Rest())) != int64(n)-whole {
			t.Errorf("cut at %d: %d batches, position %d, rest %d, error %v", n, got, w.Pos(), len(w.Rest()), w.Err())
		}
	}
}

func TestWalkDamaged(t *testing.T) {
	log := allVectors(t)
	second := int(batchVectors[0].header.Size())
	log[second+16] = 9
	w := Walk(log)
	if !w.Next() || w.Next() {
		t.Fatal("want one batch")
	}
	wantKind(t, w.Err(), abi.Corrupt, "offset 102", "magic 9")
	if w.Pos() != int64(second) || len(w.Rest()) != len(log)-second {
		t.Errorf("position %d, rest %d", w.Pos(), len(w.Rest()))
	}
	if w.Next() {
		t.Error("it went on after the damage")
	}
}

// TestWalkBytesAreBounded: appending to a batch must not reach into the next one.
func TestWalkBytesAreBounded(t *testing.T) {
	log := allVectors(t)
	w := Walk(log)
	w.Next()
	_ = append(w.Bytes(), 0xff)
	if !w.Next() || *w.Header() != batchVectors[1].header {
		t.Error("the second batch was changed through the first")
	}
}

func TestWalkEmpty(t *testing.T) {
	w := Walk(nil)
	if w.Next() || w.Err() != nil || len(w.Rest()) != 0 {
		t.Errorf("error %v, rest %d", w.Err(), len(w.Rest()))
	}
}

// benchLog is about 16 MiB of batches of about 16 KiB.
func benchLog(b *testing.B) []byte {
	batch := newBatch(b, plainHeader(0), someRecords(0, 160))
	return bytes.Repeat(batch, (16<<20)/len(batch))
}

func BenchmarkWalk(b *testing.B) {
	log := benchLog(b)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		w := Walk(log)
		for w.Next() {
		}
		if w.Err() != nil || len(w.Rest()) > 0 {
			b.Fatal(w.Err())
		}
	}
}

func BenchmarkWalkCRC(b *testing.B) {
	log := benchLog(b)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		w := Walk(log)
		for w.Next() {
			if err := VerifyBatch(w.Header(), w.Bytes()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkRecords(b *testing.B) {
	plain := newBatch(b, plainHeader(0), someRecords(0, 160))
	for _, p := range packings {
		batch := recompress(b, plain, p)
		b.Run(p.name, func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Records(batch, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestWalkAllocatesNothing(t *testing.T) {
	log := allVectors(t)
	n := testing.AllocsPerRun(100, func() {
		w := Walk(log)
		for w.Next() {
			if err := VerifyBatch(w.Header(), w.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
