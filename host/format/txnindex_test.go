package format

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

func txnIndex(entries ...AbortedTxn) TxnIndex {
	x := TxnIndex{}
	for _, e := range entries {
		x = append(x, 0, 0)
		for _, v := range []int64{e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStableOffset} {
			x = binary.BigEndian.AppendUint64(x, uint64(v))
		}
	}
	return x
}

// collectTest asks for the entries from first to last (exclusive) of the index.
type collectTest struct {
	from, upper int64
	first, last int
	complete    bool
}

func checkCollect(t *testing.T, x TxnIndex, all []AbortedTxn, tests []collectTest) {
	t.Helper()
	before := AbortedTxn{ProducerID: -1}
	for _, tt := range tests {
		got, complete := x.Collect([]AbortedTxn{before}, tt.from, tt.upper)
		want := append([]AbortedTxn{before}, all[tt.first:tt.last]...)
		if !slices.Equal(got, want) || complete != tt.complete {
			t.Errorf("[%d, %d): %v, %v, want %v, %v", tt.from, tt.upper, got, complete, want, tt.complete)
		}
	}
}

// TestTxnIndexVector is the vector of section 6.6.
func TestTxnIndexVector(t *testing.T) {
	all := []AbortedTxn{{4000, 102, 103, 104}, {4001, 105, 109, 107}}
	x := TxnIndex(unhex(t, "00000000000000000fa000000000000000660000000000000067000000000000006800000000000000000fa10000000000000069000000000000006d000000000000006b"))
	if string(x) != string(txnIndex(all...)) {
		t.Error("the test writes another form")
	}
	wantKind(t, x.Check(103), 0)
	if x.Len() != 2 || x.Entry(0) != all[0] || x.Entry(1) != all[1] {
		t.Errorf("%d entries: %v %v", x.Len(), x.Entry(0), x.Entry(1))
	}
	checkCollect(t, x, all, []collectTest{
		{100, 102, 0, 0, true}, {100, 103, 0, 1, true}, {100, 104, 0, 1, true},
		{104, 110, 1, 2, false}, {104, 107, 1, 2, true}, {110, 200, 0, 0, false},
	})
}

// TestTxnIndexKafka is Kafka's TransactionIndexTest (section 10.8).
func TestTxnIndexKafka(t *testing.T) {
	all := []AbortedTxn{{0, 0, 10, 11}, {1, 5, 15, 13}, {2, 18, 35, 25}, {3, 32, 50, 40}}
	x := txnIndex(all...)
	checkCollect(t, x, all, []collectTest{
		{0, 100, 0, 4, false}, {0, 32, 0, 3, true}, {0, 35, 0, 4, true}, {10, 35, 0, 4, true}, {11, 35, 1, 4, true}, {20, 41, 2, 4, false},
	})
	wantKind(t, x.Check(0), 0)
	wantKind(t, x.Check(10), 0)
	wantKind(t, x.Check(100), abi.Corrupt, "transaction index", "entry 0 ends at offset 10, below the segment's first, 100")
	one := AbortedTxn{983493, 137, 299, 200}
	if got := txnIndex(one).Entry(0); got != one {
		t.Errorf("%v, want %v", got, one)
	}
}

func TestTxnIndexBefore(t *testing.T) {
	x := txnIndex(AbortedTxn{0, 0, 10, 11}, AbortedTxn{1, 5, 15, 13})
	for offset, want := range map[int64]int{0: 0, 10: 0, 11: 1, 15: 1, 16: 2, 99: 2} {
		if got := x.Before(offset); got.Len() != want || !strings.HasPrefix(string(x), string(got)) {
			t.Errorf("before %d: %d entries, want %d", offset, got.Len(), want)
		}
	}
}

func TestTxnIndexCheck(t *testing.T) {
	x := txnIndex(AbortedTxn{1, 1, 2, 3}, AbortedTxn{1, 4, 5, 6})
	wantKind(t, x[:40].Check(0), abi.Corrupt, "its length, 40, is not a multiple of 34")
	x[35] = 1
	wantKind(t, x.Check(0), abi.Corrupt, "entry 1 has version 1")
	wantKind(t, TxnIndex(nil).Check(5), 0)
	if got, complete := TxnIndex(nil).Collect(nil, 0, 10); len(got) != 0 || complete {
		t.Errorf("%v, %v", got, complete)
	}
}
