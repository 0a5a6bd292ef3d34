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
