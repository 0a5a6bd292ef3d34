package format

import (
	"reflect"
	"testing"

	"github.com/rsmhost/rsmhost/abi"
)

func TestLeaderEpochs(t *testing.T) {
	tests := []struct {
		name, text string
		want       []abi.LeaderEpoch
		kind       abi.Kind
		says       string
	}{
		{"empty file", "", nil, 0, ""},
		{"no entries", "0\n0\n", nil, 0, ""},
		{"Kafka's test", "0\n1\n0 1\n", []abi.LeaderEpoch{{Epoch: 0, StartOffset: 1}}, 0, ""},
		{"no line end", "0\n1\n0 1", []abi.LeaderEpoch{{Epoch: 0, StartOffset: 1}}, 0, ""},
		{"many", "0\n3\n0 0\n2 308\n10 652\n", []abi.LeaderEpoch{{Epoch: 0}, {Epoch: 2, StartOffset: 308}, {Epoch: 10, StartOffset: 652}}, 0, ""},
		{"any white space", "0\r\n1\r\n 3\t \t7 \r\n", []abi.LeaderEpoch{{Epoch: 3, StartOffset: 7}}, 0, ""},
		{"version 1", "1\n0\n", nil, abi.Unsupported, "version 1, only 0"},
		{"no version", "zero\n0\n", nil, abi.Corrupt, `line 1: "zero"`},
		{"white space alone", "\n", nil, abi.Corrupt, "line 1"},
		{"version alone", "0\n", nil, abi.Corrupt, "ends after the version"},
		{"no count", "0\nx\n", nil, abi.Corrupt, `line 2: "x"`},
		{"negative count", "0\n-1\n", nil, abi.Corrupt, `line 2: "-1"`},
		{"huge count", "0\n2147483647\n0 0\n", nil, abi.Corrupt, "announces 2147483647 entries, there are 1"},
		{"count too small", "0\n1\n0 0\n1 5\n", nil, abi.Corrupt, "announces 1 entries, there are 2"},
		{"cut", "0\n2\n0 0\n", nil, abi.Corrupt, "announces 2 entries, there are 1"},
		{"one field", "0\n1\n0\n", nil, abi.Corrupt, "line 3"},
		{"three fields", "0\n1\n0 0 0\n", nil, abi.Corrupt, "line 3"},
		{"no number", "0\n1\n0 x\n", nil, abi.Corrupt, "line 3"},
		{"negative offset", "0\n1\n0 -1\n", nil, abi.Corrupt, "line 3"},
		{"epoch too large", "0\n1\n2147483648 0\n", nil, abi.Corrupt, "line 3"},
		{"epoch again", "0\n2\n1 0\n1 5\n", nil, abi.Corrupt, "line 4: epoch 1 from offset 5"},
		{"offset again", "0\n2\n1 5\n2 5\n", nil, abi.Corrupt, "line 4: epoch 2 from offset 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseLeaderEpochs([]byte(tt.text))
			if tt.kind != 0 {
				wantKind(t, err, tt.kind, "leader epoch checkpoint", tt.says)
				return
			}
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Fatalf("%v, %v, want %v", got, err, tt.want)
			}
			again, err := ParseLeaderEpochs(AppendLeaderEpochs(nil, got))
			if err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("written and read: %v, %v", again, err)
			}
		})
	}
	if got := string(AppendLeaderEpochs([]byte("#"), []abi.LeaderEpoch{{Epoch: 0, StartOffset: 1}})); got != "#0\n1\n0 1\n" {
		t.Errorf("written: %q", got)
	}
}

func TestOffsetCheckpoint(t *testing.T) {
	got, err := ParseOffsetCheckpoint([]byte("0\n3\n__remote_log_metadata 2 10\nwe.ird_topic-name.v1-0 0 307\nempty 1 0\n"))
	want := map[CheckpointKey]int64{{"__remote_log_metadata", 2}: 10, {"we.ird_topic-name.v1-0", 0}: 307, {"empty", 1}: 0}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err = ParseOffsetCheckpoint(nil); err != nil || got == nil || len(got) != 0 {
		t.Errorf("empty file: %v, %v", got, err)
	}
	for text, says := range map[string]string{
		"0\n2\na 0 1\na 0 2\n":   "line 4: a-0 is in it twice",
		"0\n1\na 0\n":            "line 3 has 2 fields",
		"0\n1\na 0 1 2\n":        "line 3 has 4 fields",
		"0\n1\n\n":               "line 3 has 0 fields",
		"0\n1\na -1 0\n":         "line 3",
		"0\n1\na 2147483648 0\n": "line 3",
		"0\n1\na 0 -5\n":         "line 3",
		"0\n1\na 0 1.5\n":        "line 3",
		"0\n2\na 0 1\n":          "announces 2 entries, there are 1",
	} {
		_, err := ParseOffsetCheckpoint([]byte(text))
		wantKind(t, err, abi.Corrupt, "offset checkpoint", says)
	}
	_, err = ParseOffsetCheckpoint([]byte("2\n0\n"))
	wantKind(t, err, abi.Unsupported, "version 2")
}

func TestPartitionMetadata(t *testing.T) {
	for _, text := range []string{
		"version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA",
		"version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA\n",
		"version: 0\r\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA\r\nlater: more\r\n",
	} {
		if id, err := ParsePartitionMetadata([]byte(text)); err != nil || id != testTopicID {
			t.Errorf("%q: %v, %v", text, id, err)
		}
	}
	for text, says := range map[string]string{
		"":                                 "line 1",
		"version: 0":                       "ends after the version",
		"topic_id: AQIDBAUGBwgJCgsMDQ4PEA": "line 1",
		"version: x\n":                     `"x" is no version`,
		"version: 0\nid: x":                "line 2 is",
		"version: 0\ntopic_id: x":          "no topic id",
		"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA":                                                                   "no topic id",
		"version: 0\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEAAQIDBAUGBwgJCgsMDQ4PEAAQIDBAUGBwgJCgsMDQ4PEAAQIDBAUGBwgJCgsMDQ4PEA": "...",
	} {
		_, err := ParsePartitionMetadata([]byte(text))
		wantKind(t, err, abi.Corrupt, "partition.metadata", says)
	}
	_, err := ParsePartitionMetadata([]byte("version: 1\ntopic_id: AQIDBAUGBwgJCgsMDQ4PEA"))
	wantKind(t, err, abi.Unsupported, "version 1")
}

func TestMetaProperties(t *testing.T) {
	tests := []struct {
		text string
		want MetaProperties
	}{
		{"#\n#Sun Nov 29 16:46:59 UTC 2026\nnode.id=1\ndirectory.id=tin7I7FPzb_XX3HDNOS8Xw\nversion=1\ncluster.id=xs6aZpDBRLaeq_VTdMuzuw\n",
			MetaProperties{1, "xs6aZpDBRLaeq_VTdMuzuw", "tin7I7FPzb_XX3HDNOS8Xw"}},
		{"version=0\nbroker.id=7\nnode.id=9\ncluster.id=old\n", MetaProperties{7, "old", ""}},
		{"version=1", MetaProperties{-1, "", ""}},
		{"! note\r\n version : 1 \r\ncluster.id=a\\:b\\=c\\\\\r\ncluster\\.x\r\n\r\n", MetaProperties{-1, "a:b=c\\", ""}},
		{"version=1\nnode.id=0\ncluster.id=ends with\\", MetaProperties{0, "ends with\\", ""}},
	}
	for _, tt := range tests {
		if got, err := ParseMetaProperties([]byte(tt.text)); err != nil || got != tt.want {
			t.Errorf("%q: %+v, %v, want %+v", tt.text, got, err, tt.want)
		}
	}
	_, err := ParseMetaProperties([]byte("version=2\nnode.id=1"))
	wantKind(t, err, abi.Unsupported, `version "2"`)
	_, err = ParseMetaProperties([]byte("node.id=1"))
	wantKind(t, err, abi.Corrupt, "no version")
	_, err = ParseMetaProperties([]byte("version=1\nnode.id=-1"))
	wantKind(t, err, abi.Corrupt, `node.id is "-1"`)
}
