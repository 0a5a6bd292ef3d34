package format

import (
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

func TestControlRecord(t *testing.T) {
	tests := []struct {
		key  string
		want ControlType
		bad  string
	}{
		{"0000 0000", ControlAbort, ""},
		{"0000 0001", ControlCommit, ""},
		{"0000 0005", 5, ""},             // KRaft's; consumers pass over it
		{"0001 0001", ControlCommit, ""}, // a later version begins as this one
		{"0000 0001 ff", ControlCommit, ""},
		{"0000 ffff", -1, ""},
		{"ffff 0000", 0, "version -1"},
		{"0000 00", 0, "type needs 2 bytes"},
		{"", 0, "version needs 2 bytes"},
	}
	for _, tt := range tests {
		got, err := ControlRecord(unhex(t, tt.key))
		if tt.bad != "" {
			wantKind(t, err, abi.Corrupt, tt.bad)
		} else if err != nil || got != tt.want {
			t.Errorf("%s: %v, %v, want %v", tt.key, got, err, tt.want)
		}
	}
}

// TestControlBatch reads the spec's abort marker all the way.
func TestControlBatch(t *testing.T) {
	b := unhex(t, hexAbort)
	h, err := ParseBatchHeader(b)
	if err != nil || !h.IsControl() || !h.IsTransactional() {
		t.Fatalf("%+v, %v", h, err)
	}
	recs, err := Records(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	if typ, err := ControlRecord(recs[0].Key); err != nil || typ != ControlAbort {
		t.Errorf("%v, %v", typ, err)
	}
}

// TestControlOf: a marker tells its type, one that compaction emptied has none, and one that is compressed is not inflated.
func TestControlOf(t *testing.T) {
	h := plainHeader(20)
	h.Attributes = attrTransactional | attrControl
	abort := newBatch(t, h, []Record{{Offset: 20, Key: []byte{0, 0, 0, 0}, Value: []byte{0, 0}}})
	if typ, ok, err := ControlOf(abort); typ != ControlAbort || !ok || err != nil {
		t.Error(typ, ok, err)
	}
	if _, ok, err := ControlOf(newBatch(t, h, nil)); ok || err != nil {
		t.Error("emptied:", ok, err)
	}
	for _, p := range packings[1:] {
		_, ok, err := ControlOf(recompress(t, abort, p))
		if wantKind(t, err, abi.Corrupt, "compressed with "+p.codec.String(), "20-20"); ok {
			t.Error(p.name, "has a type")
		}
	}
	if _, _, err := ControlOf(abort[:30]); err == nil {
		t.Error("a header that is cut: no error")
	}
}
