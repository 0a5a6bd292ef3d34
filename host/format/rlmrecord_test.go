package format

import (
	"reflect"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

// What the vectors of section 5.7 are about.
var (
	testTopicID   = abi.UUID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	testSegmentID = abi.UUID{0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20}
	testPartition = abi.TopicIDPartition{Topic: "foo", TopicID: testTopicID, Partition: 3}
	testEpochs    = []abi.LeaderEpoch{{Epoch: 0, StartOffset: 100}, {Epoch: 2, StartOffset: 150}}
)

const (
	hexPartition = "04666f6f0102030405060708090a0b0c0d0e0f100000000300"
	hexSegmentID = "1112131415161718191a1b1c1d1e1f20"
	hexBody      = "000000000000006400000000000000c7000000070000018bcfe5687b0000018bcfe569c8" + hexEpochs + "00100000"
	hexEpochs    = "03 00000000 0000000000000064 00 00000002 0000000000000096 00"
)

func testSegment(custom []byte, state SegmentState, txnIndexEmpty bool) *SegmentEvent {
	return &SegmentEvent{
		SegmentMetadata: abi.SegmentMetadata{
			TopicIDPartition: testPartition, SegmentID: testSegmentID, StartOffset: 100, EndOffset: 199,
			MaxTimestampMs: T + 123, SizeBytes: 1048576, BrokerID: 7, EventTimestampMs: T + 456,
			LeaderEpochs: testEpochs, CustomMetadata: custom, TxnIndexEmpty: txnIndexEmpty,
		},
		State: state,
	}
}

var rlmVectors = []struct {
	name string
	hex  string
	want any
}{
	{"segment", "01000004666f6f0102030405060708090a0b0c0d0e0f1000000003001112131415161718191a1b1c1d1e1f2000000000000000006400000000000000c7000000070000018bcfe5687b0000018bcfe569c803000000000000000000000064000000000200000000000000960000100000000000",
		testSegment(nil, CopySegmentStarted, false)},
	{"segment without transaction index", "010000" + hexPartition + hexSegmentID + "00" + hexBody + "000001000101",
		testSegment(nil, CopySegmentStarted, true)},
	{"segment with empty custom metadata", "010000" + hexPartition + hexSegmentID + "00" + hexBody + "010300",
		testSegment([]byte{}, DeleteSegmentFinished, false)},
	{"segment with custom metadata", "010000" + hexPartition + hexSegmentID + "00" + hexBody + "0309080100",
		testSegment([]byte{9, 8}, CopySegmentFinished, false)},
	{"update", "01010004666f6f0102030405060708090a0b0c0d0e0f1000000003001112131415161718191a1b1c1d1e1f2000000000070000018bcfe56b15040102030100",
		&SegmentUpdateEvent{TopicIDPartition: testPartition, SegmentID: testSegmentID, BrokerID: 7, EventTimestampMs: T + 789,
			CustomMetadata: []byte{1, 2, 3}, State: CopySegmentFinished}},
	{"update without custom metadata", "01010004666f6f0102030405060708090a0b0c0d0e0f1000000003001112131415161718191a1b1c1d1e1f2000000000070000018bcfe56b15000200",
		&SegmentUpdateEvent{TopicIDPartition: testPartition, SegmentID: testSegmentID, BrokerID: 7, EventTimestampMs: T + 789, State: DeleteSegmentStarted}},
	{"partition delete", "01020004666f6f0102030405060708090a0b0c0d0e0f100000000300000000070000018bcfe56be70000",
		&PartitionDeleteEvent{TopicIDPartition: testPartition, BrokerID: 7, EventTimestampMs: T + 999, State: DeletePartitionMarked}},
	{"snapshot", "0103001112131415161718191a1b1c1d1e1f20000000000000006400000000000000c7000000070000018bcfe5687b0000018bcfe569c803000000000000000000000064000000000200000000000000960000100000000001000101",
		&SegmentSnapshotEvent{SegmentID: testSegmentID, StartOffset: 100, EndOffset: 199, BrokerID: 7, MaxTimestampMs: T + 123,
			EventTimestampMs: T + 456, LeaderEpochs: testEpochs, SizeBytes: 1048576, State: CopySegmentStarted, TxnIndexEmpty: true}},
}

func TestRemoteLogMetadataVectors(t *testing.T) {
	for _, v := range rlmVectors {
		t.Run(v.name, func(t *testing.T) {
			b := unhex(t, v.hex)
			got, err := ParseRemoteLogMetadata(b)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, v.want) {
				t.Errorf("parsed\n got %+v\nwant %+v", got, v.want)
			}
			again, err := AppendRemoteLogMetadata([]byte("x"), v.want)
			if err != nil || string(again) != "x"+string(b) {
				t.Errorf("encoded\n got %x, %v\nwant %x", again, err, b)
			}
			clear(b)
			if !reflect.DeepEqual(got, v.want) {
				t.Error("the event shares memory with the bytes it came from")
			}
			for n := range b {
				if _, err := ParseRemoteLogMetadata(unhex(t, v.hex)[:n]); err == nil {
					t.Errorf("cut to %d of %d bytes: no error", n, len(b))
				}
			}
			_, err = ParseRemoteLogMetadata(append(unhex(t, v.hex), 0))
			wantKind(t, err, abi.Corrupt, "1 bytes left after the message")
		})
	}
}

// TestRemoteLogMetadataTolerates: what a newer Kafka may add, and the order of what to Kafka is a map.
func TestRemoteLogMetadataTolerates(t *testing.T) {
	b := unhex(t, "010000 04666f6f0102030405060708090a0b0c0d0e0f1000000003 01 05 02 ffff"+hexSegmentID+"01 00 00"+
		"000000000000006400000000000000c7000000070000018bcfe5687b0000018bcfe569c8"+
		"03 00000002 0000000000000096 00 00000000 0000000000000064 01 07 01 ff"+"00100000 00 00 03 00 01 01 09 00 0a 03 010203")
	got, err := ParseRemoteLogMetadata(b)
	if err != nil || !reflect.DeepEqual(got, testSegment(nil, CopySegmentStarted, true)) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRemoteLogMetadataDamaged(t *testing.T) {
	head, update := "010000"+hexPartition+hexSegmentID+"00", "010100"+hexPartition+hexSegmentID+"00"
	offsets, rest := "000000000000006400000000000000c7", "000000070000018bcfe5687b0000018bcfe569c8"
	tests := []struct {
		name, hex string
		kind      abi.Kind
		want      string
	}{
		{"empty", "", abi.Corrupt, "frame version is cut"},
		{"frame 2", "02 00 00", abi.Unsupported, "frame has version 2"},
		{"frame 0", "00", abi.Unsupported, "frame has version 0"},
		{"api key 4", "01 04 00", abi.Unsupported, "api key 4, version 0"},
		{"version 1", "01 00 01", abi.Unsupported, "api key 0, version 1"},
		{"api key cut", "01", abi.Corrupt, "api key is cut"},
		{"api key huge", "01 ff ff ff ff ff ff ff ff ff 01", abi.Corrupt, "too large"},
		{"topic null", "010000 00", abi.Corrupt, "topic is null"},
		{"topic huge", "010000 ffffffff0f 66", abi.Corrupt, "topic has length 4294967294, 1 bytes are left"},
		{"partition negative", "010000 04666f6f 0102030405060708090a0b0c0d0e0f10 ffffffff 00", abi.Corrupt, "partition -1"},
		{"start negative", head + "ffffffffffffffff00000000000000c7" + rest + hexEpochs + "00100000000000", abi.Corrupt, "offsets -1-199"},
		{"end before start", head + "00000000000000c80000000000000064" + rest + hexEpochs + "00100000000000", abi.Corrupt, "offsets 200-100"},
		{"no epochs", head + offsets + rest + "01" + "00100000000000", abi.Corrupt, "0 leader epochs"},
		{"epochs null", head + offsets + rest + "00" + "00100000000000", abi.Corrupt, "-1 leader epochs"},
		{"epochs huge", head + offsets + rest + "ffffffff0f" + "00100000000000", abi.Corrupt, "4294967294 leader epochs in 7 bytes"},
		{"epoch twice", head + offsets + rest + "03 00000002 0000000000000064 00 00000002 0000000000000096 00" + "00100000000000", abi.Corrupt, "leader epoch 2 stands twice"},
		{"size negative", head + offsets + rest + hexEpochs + "80000000000000", abi.Corrupt, "size -2147483648"},
		{"custom metadata huge", head + offsets + rest + hexEpochs + "00100000 ffffffff0f 00", abi.Corrupt, "custom metadata has length 4294967294"},
		{"state 4", head + offsets + rest + hexEpochs + "00100000 00 04 00", abi.Corrupt, "segment state 4 is not known"},
		{"flag of 2 bytes", head + offsets + rest + hexEpochs + "00100000 00 00 01 00 02 0101", abi.Corrupt, "a flag of 2 bytes"},
		{"tags huge", head + offsets + rest + hexEpochs + "00100000 00 00 ffffffff0f 05 00", abi.Corrupt, "tag is cut"},
		{"tag past the end", head + offsets + rest + hexEpochs + "00100000 00 00 01 05 09 00", abi.Corrupt, "tagged field needs 9 bytes, 1 are left"},
		{"update's state -1", update + "000000070000018bcfe56b15 00 ff 00", abi.Corrupt, "segment state -1"},
		{"delete's state 3", "010200" + hexPartition + "000000070000018bcfe56be7 03 00", abi.Corrupt, "partition delete state 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseRemoteLogMetadata(unhex(t, tt.hex))
			wantKind(t, err, tt.kind, "remote log metadata record", tt.want)
		})
	}
}

func TestAppendRemoteLogMetadataRefuses(t *testing.T) {
	big := testSegment(nil, 0, false)
	big.SizeBytes = 1 << 31
	_, err := AppendRemoteLogMetadata(nil, big)
	wantKind(t, err, abi.Invalid, "size 2147483648")
	_, err = AppendRemoteLogMetadata(nil, *big)
	wantKind(t, err, abi.Invalid, "format.SegmentEvent is not one")
	_, err = AppendRemoteLogMetadata(nil, nil)
	wantKind(t, err, abi.Invalid)
}

func TestMurmur2(t *testing.T) {
	for s, want := range map[string]int32{"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "\x00\x00\x00\x01": -173113808} {
		if got := int32(murmur2([]byte(s))); got != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

// TestMetadataPartition is the table of section 5.8.
func TestMetadataPartition(t *testing.T) {
	tests := []struct {
		id   string
		n    int32
		want []int32 // of user partitions 0, 1, ...
	}{
		{"AQIDBAUGBwgJCgsMDQ4PEA", 50, []int32{13, 41, 44, 37, 10, 5}},
		{"AQIDBAUGBwgJCgsMDQ4PEA", 5, []int32{3, 1, 4, 2, 0, 0}},
		{"LWgrMmVrT0a__7a4SasuPA", 50, []int32{1, 18, 30}},
		{"Bp9TDduJRGa9Q5rlvCJOxg", 10, []int32{7, 7, 2, 4}},
		{"Bp9TDduJRGa9Q5rlvCJOxg", 50, []int32{47, 37, 12, 24}},
	}
	for _, tt := range tests {
		id, err := abi.ParseUUID(tt.id)
		if err != nil {
			t.Fatal(err)
		}
		for p, want := range tt.want {
			if got := MetadataPartition(id, int32(p), tt.n); got != want {
				t.Errorf("%s-%d of %d: %d, want %d", tt.id, p, tt.n, got, want)
			}
		}
	}
	for p := range int32(3) {
		if h := partitionHash(testTopicID, p); h != -1886363921+p {
			t.Errorf("hash of partition %d: %d", p, h)
		}
	}
}
