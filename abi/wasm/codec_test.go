package wasm

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/rsmhost/rsmhost/abi"
)

// codec is one document in both codecs. decode reads with ours, proto with Google's; both give the same comparable value.
type codec struct {
	name   string
	decode func(b []byte) (any, error)
	proto  func(b []byte) (any, error)
	encode func(v any) []byte
}

type fetchLog struct {
	Seg *abi.SegmentMetadata
	R   abi.Range
}

type fetchIndex struct {
	Seg *abi.SegmentMetadata
	T   abi.IndexType
}

func codecs() []codec {
	return []codec{
		{"Info", func(b []byte) (any, error) { return DecodeInfo(b) }, viaProto(infoOf),
			func(v any) []byte { return AppendInfo(nil, v.(*abi.Info)) }},
		{"ConfigureRequest", func(b []byte) (any, error) { return DecodeConfigure(b) }, viaProto(configureOf),
			func(v any) []byte { return AppendConfigure(nil, v.(*ConfigureRequest)) }},
		{"FetchLogSegmentRequest", func(b []byte) (any, error) {
			seg, r, err := DecodeFetchLogSegment(b)
			return fetchLog{seg, r}, err
		}, viaProto(fetchLogOf), func(v any) []byte {
			return AppendFetchLogSegment(nil, v.(fetchLog).Seg, v.(fetchLog).R)
		}},
		{"FetchIndexRequest", func(b []byte) (any, error) {
			seg, t, err := DecodeFetchIndex(b)
			return fetchIndex{seg, t}, err
		}, viaProto(fetchIndexOf), func(v any) []byte {
			return AppendFetchIndex(nil, v.(fetchIndex).Seg, v.(fetchIndex).T)
		}},
		{"Source", func(b []byte) (any, error) { return DecodeSource(b) }, viaProto(sourceOf),
			func(v any) []byte { return AppendSource(nil, v.(*abi.Source)) }},
		{"Error", func(b []byte) (any, error) { return DecodeError(b) }, viaProto(errorOf),
			func(v any) []byte { return AppendError(nil, v.(*abi.Error)) }},
	}
}

// vectors are documents by the name of their codec: every field set, extremes, and the empty one.
func vectors() map[string][]any {
	seg := &abi.SegmentMetadata{
		TopicIDPartition: abi.TopicIDPartition{Topic: "orders-ü", TopicID: abi.UUID{1, 2, 15: 9}, Partition: 3},
		SegmentID:        abi.UUID{0: 0xff, 15: 0xfe}, StartOffset: 1201, EndOffset: math.MaxInt64, MaxTimestampMs: -1,
		SizeBytes: 1 << 31, BrokerID: -1, EventTimestampMs: 1700000000000,
		LeaderEpochs:   []abi.LeaderEpoch{{Epoch: 0, StartOffset: 0}, {Epoch: math.MaxInt32, StartOffset: 1250}},
		CustomMetadata: []byte("custom"), TxnIndexEmpty: true,
	}
	emptyCustom := &abi.SegmentMetadata{CustomMetadata: []byte{}}
	return map[string][]any{
		"Info": {&abi.Info{}, &abi.Info{
			Name: "localfs", Vendor: "v", Version: "1.2.3-rc.1", ABIVersions: []int32{1, 2, -1, math.MaxInt32},
			Features: []string{"probe", ""}, Grants: []abi.Grant{{Kind: "net.http", Value: "h"}, {}},
			Secrets: []abi.Secret{{Name: "key", Env: "AWS_KEY"}}, Schema: []byte(`{"type":"object"}`),
		}},
		"ConfigureRequest": {&ConfigureRequest{Values: map[string]string{}}, &ConfigureRequest{
			ABIVersion: 1, HostVersion: "0.1", Values: map[string]string{"root": "/data", "a": "", "": "b", "z": "ü"},
		}},
		"FetchLogSegmentRequest": {
			fetchLog{&abi.SegmentMetadata{}, abi.Range{}}, fetchLog{emptyCustom, abi.Range{Start: -5, End: math.MinInt64}},
			fetchLog{seg, abi.Range{Start: 1, End: abi.ToEnd}},
		},
		"FetchIndexRequest": {fetchIndex{seg, abi.TransactionIndex}, fetchIndex{&abi.SegmentMetadata{}, -1}},
		"Source":            sources(),
		"Error": {
			&abi.Error{Kind: abi.Internal},
			&abi.Error{Kind: 99, Err: abi.Text("from the future")},
			&abi.Error{Op: "open", Subject: "k", Kind: abi.Throttled, Status: 503, RequestID: "r-1", RetryAfter: 1500 * time.Millisecond,
				Err: &abi.Error{Kind: abi.Unavailable, Err: abi.Text("reset")}},
		},
	}
}

func sources() []any {
	long := bytes.Repeat([]byte{7}, 70_000) // a length of three bytes
	return []any{
		&abi.Source{}, &abi.Source{OriginalSize: -1, ETag: `"e"`}, &abi.Source{Location: &abi.Location{}},
		&abi.Source{Location: &abi.Location{Encoding: abi.Encoding{Chunked: &abi.Chunked{}}, Parts: []abi.Part{{Inline: []byte{}}}}},
		&abi.Source{OriginalSize: 1 << 40, Location: &abi.Location{
			Parts: []abi.Part{
				{File: &abi.FilePart{Root: "root", Path: "a/b", Offset: 1, Length: -1}},
				{HTTP: &abi.HTTPPart{Method: "GET", URL: "https://h/p?q", Headers: []abi.Header{{Name: "a", Value: "b"}, {}},
					Fixed: true, Offset: 5, Length: 6}},
				{Inline: []byte{}}, {Inline: long}, {File: &abi.FilePart{}}, {HTTP: &abi.HTTPPart{}},
			},
			Scope: abi.ScopeObject, ExpiresAt: time.UnixMilli(1700000000123).UTC(),
			OnStatus: []abi.StatusKind{{Status: 404, Kind: abi.Corrupt}, {}},
			Encoding: abi.Encoding{Chunked: &abi.Chunked{OriginalChunkSize: 4 << 20, OriginalSize: 9, Packing: abi.PackAivenV1,
				Sizes: long, Compression: abi.CompressionZstd,
				AES256GCM: &abi.AES256GCM{Key: []byte("k"), KeyID: "id", KeyAlgorithm: "RSA", AAD: []byte("aad")}}},
		}},
	}
}

func TestWhatWeEncodeProtobufReadsTheSame(t *testing.T) {
	all := vectors()
	for _, c := range codecs() {
		for i, v := range all[c.name] {
			b := c.encode(v)
			for by, decode := range map[string]func([]byte) (any, error){"wasm": c.decode, "protobuf": c.proto} {
				got, err := decode(b)
				if err != nil {
					t.Errorf("%s %d by %s: %v", c.name, i, by, err)
				} else if diff := cmp.Diff(v, got); diff != "" {
					t.Errorf("%s %d by %s (-want +got):\n%s", c.name, i, by, diff)
				}
			}
		}
	}
}

// Both orders of fields are legal; that ours is protobuf's makes a dump of one readable beside the other.
func TestWhatProtobufEncodesIsByteForByteOurs(t *testing.T) {
	all := vectors()
	for _, c := range codecs() {
		for i, v := range all[c.name] {
			ours := c.encode(v)
			m := messageOf(c.name)
			if err := proto.Unmarshal(ours, m); err != nil {
				t.Fatal(err)
			}
			theirs, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(ours, theirs) {
				t.Errorf("%s %d:\nours   %x\ntheirs %x", c.name, i, ours, theirs)
			}
		}
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	grease := []byte{0x80, 0x7d, 0x05} // 2000: a varint
	grease = append(grease, 0x82, 0x7d, 2, 'h', 'i')
	grease = append(grease, 0x81, 0x7d, 1, 2, 3, 4, 5, 6, 7, 8)
	grease = append(grease, 0x85, 0x7d, 1, 2, 3, 4)
	grease = append(grease, 0x83, 0x7d, 0x08, 1, 0x13, 0x14, 0x84, 0x7d) // a group with a field and a group in it
	grease = append(grease, 0x0d, 1, 2, 3, 4)                            // field 1 as a fixed32, which it is in no document
	all := vectors()
	for _, c := range codecs() {
		for i, v := range all[c.name] {
			b := append(bytes.Clone(grease), c.encode(v)...)
			got, err := c.decode(append(b, grease...))
			if err != nil {
				t.Errorf("%s %d: %v", c.name, i, err)
			} else if diff := cmp.Diff(v, got); diff != "" {
				t.Errorf("%s %d (-want +got):\n%s", c.name, i, diff)
			}
		}
	}
}

// A cut document may still be a whole one (fields at its end are gone); it must never read past its end or give both a
// value and an error.
func TestEveryCutIsRefusedOrWhole(t *testing.T) {
	all := vectors()
	for _, c := range codecs() {
		for _, v := range all[c.name] {
			b := c.encode(v)
			for n := range min(len(b), 400) {
				_, ours := c.decode(b[:n:n])
				_, theirs := c.proto(b[:n:n])
				if (ours == nil) != (theirs == nil) {
					t.Fatalf("%s cut at %d: ours %v, protobuf's %v", c.name, n, ours, theirs)
				}
				if ours != nil && !errors.Is(ours, abi.Invalid) && !errors.Is(ours, abi.Unsupported) {
					t.Fatalf("%s cut at %d: %v is not INVALID", c.name, n, ours)
				}
			}
		}
	}
}

func TestAbsurdDocumentsAreRefused(t *testing.T) {
	list := bytes.Repeat([]byte{0x0a, 2, 0x1a, 0}, 1<<16+1) // parts of a location
	deep := AppendError(nil, &abi.Error{Kind: abi.Internal})
	for range 200 {
		b, at := open(nil, 8)
		deep = closeAt(append(b, deep...), at)
	}
	for name, tt := range map[string]struct {
		codec string
		b     []byte
	}{
		"a length past the end":    {"Source", []byte{0x12, 0x05, 'a'}},
		"a length past any memory": {"Source", []byte{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
		"a number of 11 bytes":     {"Source", []byte{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0}},
		"a number over 64 bits":    {"Source", []byte{0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}},
		"field 0":                  {"Source", []byte{0x00, 0x00}},
		"a group without an end":   {"Source", []byte{0x83, 0x7d, 0x08, 1}},
		"an end without a group":   {"Source", []byte{0x84, 0x7d}},
		"text that is no UTF-8":    {"Source", []byte{0x12, 1, 0xff}},
		"65537 parts":              {"Source", append(appendVarint([]byte{0x1a}, uint64(len(list))), list...)},
		"200 causes":               {"Error", deep},
		"an id of 3 bytes":         {"FetchIndexRequest", []byte{0x0a, 5, 0x12, 3, 1, 2, 3}},
		"no segment":               {"FetchIndexRequest", []byte{0x10, 1}},
	} {
		for _, c := range codecs() {
			if c.name != tt.codec {
				continue
			}
			if _, err := c.decode(tt.b); !errors.Is(err, abi.Invalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestPartOfAnUnknownKindIsUnsupported(t *testing.T) {
	if _, err := DecodeSource([]byte{0x1a, 4, 0x0a, 2, 0x20, 1}); !errors.Is(err, abi.Unsupported) {
		t.Error(err)
	}
}

func TestTextThatIsNoUTF8StillCrosses(t *testing.T) {
	b := AppendError(nil, abi.E("open", "a\xffb", abi.NotFound, errors.New("\xfe")))
	e, err := DecodeError(b)
	if err != nil || e.Subject != "a\uFFFDb" || e.Err != abi.Text("\uFFFD") {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestErrorWithEndlessCausesIsCut(t *testing.T) {
	e := &abi.Error{Kind: abi.Internal, Err: abi.Text("root")}
	for range maxNested - 1 {
		e = &abi.Error{Kind: abi.Corrupt, Err: e}
	}
	if got, err := DecodeError(AppendError(nil, e)); err != nil || !cmp.Equal(got, e) {
		t.Errorf("%v, %v", got, err)
	}
	for range 3 * maxNested {
		e = &abi.Error{Kind: abi.Corrupt, Err: e}
	}
	got, err := DecodeError(AppendError(nil, e))
	if err != nil || got.Kind != abi.Corrupt {
		t.Errorf("%v, %v", got, err)
	}
}

func TestDecodedBytesDoNotAliasTheDocument(t *testing.T) {
	b := AppendSource(nil, &abi.Source{Location: &abi.Location{Parts: []abi.Part{{Inline: []byte("keep")}}}})
	s, err := DecodeSource(b)
	if err != nil {
		t.Fatal(err)
	}
	clear(b)
	if got := string(s.Location.Parts[0].Inline); got != "keep" {
		t.Errorf("%q", got)
	}
}

func FuzzDecodersAgreeWithProtobuf(f *testing.F) {
	all := vectors()
	for i, c := range codecs() {
		for _, v := range all[c.name] {
			if b := c.encode(v); len(b) < 1000 {
				f.Add(i, b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, i int, b []byte) {
		list := codecs()
		c := list[uint(i)%uint(len(list))]
		ours, err := c.decode(b)
		theirs, perr := c.proto(b)
		switch {
		case err != nil && perr == nil && !stricter(err):
			t.Fatalf("%s %x: ours %v, protobuf takes it as %+v", c.name, b, err, theirs)
		case err == nil && perr != nil:
			t.Fatalf("%s %x: protobuf %v, we take it as %+v", c.name, b, perr, ours)
		case err == nil:
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Fatalf("%s %x (-protobuf +ours):\n%s", c.name, b, diff)
			}
		}
	})
}

// stricter reports the documents that only we refuse.
func stricter(err error) bool {
	return strings.Contains(err.Error(), "nested too deeply") || strings.Contains(err.Error(), "a list that is too long")
}

func BenchmarkSource(b *testing.B) {
	s := &abi.Source{OriginalSize: 1 << 30, Location: &abi.Location{Scope: abi.ScopeObject, Parts: []abi.Part{
		{File: &abi.FilePart{Root: "root", Path: "orders-3/00000000000000001201-adh9f8BMS4anaUnD8KWfWg.log", Length: -1}}}}}
	doc := AppendSource(nil, s)
	b.Run("append", func(b *testing.B) {
		buf := make([]byte, 0, len(doc))
		for b.Loop() {
			buf = AppendSource(buf[:0], s)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeSource(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
}
