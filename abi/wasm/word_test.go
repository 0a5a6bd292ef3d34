package wasm

import (
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

func TestResultWordIsLaidOutAsDocumented(t *testing.T) {
	for _, tt := range []struct {
		got  Result
		want uint64
	}{
		{OK(42, 0), 0x0000_0000_0000_002a},
		{OK(512, EOF), 0x0000_0001_0000_0200},
		{OK(7, Truncated), 0x0000_0002_0000_0007},
		{OK(0, More), 0x0000_0004_0000_0000},
		{OK(0xffff_ffff, 0xffff), 0x0000_ffff_ffff_ffff},
		{Fail(abi.NotFound, 0), 0x0001_0000_0000_0000},
		{Fail(abi.Exhausted, 4096), 0x0009_0000_0000_1000},
		{Fail(abi.Internal, 0), 0x000e_0000_0000_0000},
	} {
		if uint64(tt.got) != tt.want {
			t.Errorf("got %#016x, want %#016x", uint64(tt.got), tt.want)
		}
	}
}

func TestResultWordZeroIsSuccessAndNoFlag(t *testing.T) {
	if r := Result(0); !r.Valid() || r.Kind() != 0 || r.Flags() != 0 || r.Value() != 0 {
		t.Errorf("the zero word reads %v %v %v", r.Kind(), r.Flags(), r.Value())
	}
}

func TestResultWordBit63IsNeverSet(t *testing.T) {
	for _, kind := range []abi.Kind{-1, 0, 1, 14, 0x7fff, 0x8000, 1 << 30} {
		r := Fail(kind, 0xffff_ffff)
		if !r.Valid() || r.Kind() == 0 {
			t.Errorf("kind %d: %#x", kind, uint64(r))
		}
	}
	if Result(1 << 63).Valid() {
		t.Error("bit 63 passes as valid")
	}
}

func TestResultWordComesApartAsItWentTogether(t *testing.T) {
	if r := OK(9, EOF|More); r.Value() != 9 || r.Flags() != EOF|More || r.Kind() != 0 {
		t.Errorf("%#x", uint64(r))
	}
	if r := Fail(abi.Corrupt, 3); r.Value() != 3 || r.Kind() != abi.Corrupt || r.Flags() != 0 {
		t.Errorf("%#x", uint64(r))
	}
}
