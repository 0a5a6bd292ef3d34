package abipb

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rsmhost/rsmhost/abi"
)

// wire sends m through its bytes.
func wire[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// checkFull fails where a field of v is zero: then a round trip would not show that it is lost.
func checkFull(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("%s is zero in the vector", path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		checkFull(t, v.Elem(), path)
	case reflect.Slice:
		for i := range v.Len() {
			if v.Index(i).Kind() == reflect.Struct {
				checkFull(t, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
			}
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[abi.Part]() {
			return
		}
		for i := range v.NumField() {
			checkFull(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	}
}

func TestInfoRoundTrip(t *testing.T) {
	want := abi.Info{Name: "localfs", Vendor: "v", Version: "1.2.3", ABIVersions: []int32{1, 2}, Features: []string{"probe"},
		Grants: []abi.Grant{{Kind: "env", Value: "HOME"}}, Secrets: []abi.Secret{{Name: "key", Env: "KEY"}}, Schema: []byte("{}")}
	checkFull(t, reflect.ValueOf(want), "Info")
	if got := wire(t, FromInfo(want)).ToABI(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSettingsRoundTrip(t *testing.T) {
	want := map[string]string{"root": "/data", "mode": ""}
	msg := wire(t, &ConfigureRequest{Values: FromSettings(want)})
	if got := ToSettings(msg.Values); !reflect.DeepEqual(got, want) || msg.Values[0].Key != "mode" {
		t.Errorf("got %v from %v, want %v in the order of names", got, msg.Values, want)
	}
}

func fullSegment() *abi.SegmentMetadata {
	return &abi.SegmentMetadata{
		TopicIDPartition: abi.TopicIDPartition{Topic: "orders", TopicID: abi.UUID{1, 15: 2}, Partition: 3},
		SegmentID:        abi.UUID{4, 15: 5}, StartOffset: 6, EndOffset: 7, MaxTimestampMs: -1, SizeBytes: 1 << 40, BrokerID: 8,
		EventTimestampMs: 9, LeaderEpochs: []abi.LeaderEpoch{{Epoch: 1, StartOffset: 2}, {Epoch: 3, StartOffset: 4}},
		CustomMetadata: []byte{0, 255}, TxnIndexEmpty: true,
	}
}

func TestSegmentRoundTrip(t *testing.T) {
	full := fullSegment()
	checkFull(t, reflect.ValueOf(full), "SegmentMetadata")
	emptyCustom := fullSegment()
	emptyCustom.CustomMetadata = []byte{}
	noCustom := fullSegment()
	noCustom.CustomMetadata = nil
	for _, want := range []*abi.SegmentMetadata{full, emptyCustom, noCustom, {}} {
		if got, err := wire(t, FromSegment(want)).ToABI(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	bad := FromSegment(full)
	bad.TopicId = bad.TopicId[:15]
	for _, m := range []*SegmentMetadata{nil, {}, bad} {
		if got, err := m.ToABI(); !errors.Is(err, abi.Invalid) {
			t.Errorf("%v: %v, %v, want INVALID", m, got, err)
		}
	}
}

func TestSourceRoundTrip(t *testing.T) {
	full := &abi.Source{OriginalSize: 10, ETag: "e", Location: &abi.Location{
		Parts: []abi.Part{
			{HTTP: &abi.HTTPPart{Method: "GET", URL: "http://x/y?z", Headers: []abi.Header{{Name: "a", Value: "b"}}, Fixed: true, Offset: 1, Length: 2}},
			{File: &abi.FilePart{Root: "root", Path: "a/b", Offset: 3, Length: -1}},
			{Inline: []byte("inline")},
		},
		Scope: abi.ScopeObject, ExpiresAt: time.UnixMilli(1_700_000_000_123).UTC(),
		Encoding: abi.Encoding{Chunked: &abi.Chunked{OriginalChunkSize: 4, OriginalSize: 5, Packing: abi.PackAivenV1, Sizes: []byte{6},
			Compression: abi.CompressionZstd,
			AES256GCM:   &abi.AES256GCM{Key: []byte{7}, KeyID: "k", KeyAlgorithm: "RSA", AAD: []byte{8}}}},
		OnStatus: []abi.StatusKind{{Status: 404, Kind: abi.Corrupt}},
	}}
	checkFull(t, reflect.ValueOf(full.Location), "Location")
	plain := &abi.Source{OriginalSize: -1, Location: &abi.Location{Parts: []abi.Part{{File: &abi.FilePart{Length: 1}}}}}
	for _, want := range []*abi.Source{full, plain, {OriginalSize: 3}} {
		if got, err := wire(t, FromSource(want)).ToABI(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	unknown := &Source{Location: &Location{Parts: []*Part{{}}}}
	if got, err := unknown.ToABI(); !errors.Is(err, abi.Unsupported) {
		t.Errorf("a part of no known kind: %+v, %v, want UNSUPPORTED", got, err)
	}
}

func fullError() *abi.Error {
	inner := &abi.Error{Op: "GET", Subject: "bucket/key", Kind: abi.Throttled, Status: 503, RequestID: "r-1",
		RetryAfter: 1500 * time.Millisecond, Err: abi.Text("slow down")}
	return &abi.Error{Op: "fetch_index", Subject: "orders-3", Kind: abi.Unavailable, Status: 500, RequestID: "r-2", RetryAfter: time.Second, Err: inner}
}

// overStatus sends err as a gRPC call would.
func overStatus(t *testing.T, err error) (*abi.Error, bool) {
	t.Helper()
	st, ok := status.FromError(ToStatus(err))
	if !ok {
		t.Fatalf("%v is no status", err)
	}
	return FromStatus("op", "subject", status.FromProto(wire(t, st.Proto())).Err())
}

func TestErrorComesBackEqual(t *testing.T) {
	full := fullError()
	checkFull(t, reflect.ValueOf(full.Err.(*abi.Error)), "Error")
	for _, want := range []*abi.Error{full, {Kind: abi.NotFound}, {Kind: abi.Kind(99), Err: abi.Text("from a newer plugin")}} {
		got, bare := overStatus(t, want)
		if !reflect.DeepEqual(got, want) || bare {
			t.Errorf("got %#v, bare %v, want %#v", got, bare, want)
		}
	}
	for k := abi.NotFound; k <= abi.Internal; k++ {
		if got, _ := overStatus(t, &abi.Error{Kind: k}); got.Kind != k {
			t.Errorf("%v came back as %v", k, got.Kind)
		}
	}
}

func TestErrorOfNoKind(t *testing.T) {
	got, _ := overStatus(t, fmt.Errorf("reading: %w", io.ErrUnexpectedEOF))
	if want := (&abi.Error{Kind: abi.Internal, Err: abi.Text("reading: unexpected EOF")}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	if ToStatus(nil) != nil {
		t.Error("nil became an error")
	}
	if e, bare := FromStatus("op", "subject", nil); e != nil || bare {
		t.Errorf("nil became %v", e)
	}
	if e := (&Error{Text: "no kind"}).ToABI(); e.Kind != abi.Internal {
		t.Errorf("a message without a kind is %v, want INTERNAL", e.Kind)
	}
}

func TestErrorBounds(t *testing.T) {
	var deep error = abi.Text("root")
	for range 100 {
		deep = &abi.Error{Kind: abi.Internal, Err: deep}
	}
	got, _ := overStatus(t, deep)
	causes := 0
	for e := got; e != nil; causes++ {
		e, _ = e.Err.(*abi.Error)
	}
	if causes != maxCauses {
		t.Errorf("%d causes crossed, want %d", causes, maxCauses)
	}
	if got, _ := overStatus(t, abi.E("\xff", "a\xffb", abi.Invalid, abi.Text("\xff"))); got.Subject != "a\uFFFDb" {
		t.Errorf("words that are not UTF-8 came back as %q", got.Subject)
	}
	long := abi.E("op", "", abi.Invalid, abi.Text(strings.Repeat("é", 5000)))
	if st, _ := status.FromError(ToStatus(long)); len(st.Message()) > maxStatusText+2 {
		t.Errorf("the status's message has %d bytes", len(st.Message()))
	}
	if got, _ := overStatus(t, long); !reflect.DeepEqual(got, long) {
		t.Error("a long error did not come back equal")
	}
}

// TestPlainCodes is the table of ABI.md, section 4, for a plugin that knows none of our details.
func TestPlainCodes(t *testing.T) {
	table := map[codes.Code]abi.Kind{
		codes.Canceled: abi.Cancelled, codes.Unknown: abi.Internal, codes.InvalidArgument: abi.Invalid,
		codes.DeadlineExceeded: abi.Deadline, codes.NotFound: abi.NotFound, codes.AlreadyExists: abi.Internal,
		codes.PermissionDenied: abi.Denied, codes.ResourceExhausted: abi.Throttled, codes.FailedPrecondition: abi.Precondition,
		codes.Aborted: abi.Precondition, codes.OutOfRange: abi.Invalid, codes.Unimplemented: abi.Unsupported,
		codes.Internal: abi.Internal, codes.Unavailable: abi.Unavailable, codes.DataLoss: abi.Corrupt,
		codes.Unauthenticated: abi.Auth, codes.Code(77): abi.Internal,
	}
	for code, kind := range table {
		got, bare := FromStatus("fetch", "orders-3", status.Error(code, "words"))
		want := &abi.Error{Op: "fetch", Subject: "orders-3", Kind: kind, Err: abi.Text("words")}
		if !reflect.DeepEqual(got, want) || !bare {
			t.Errorf("%v: %#v, bare %v, want %#v", code, got, bare, want)
		}
	}
}

// TestErrorInfoAlone is a plugin in another language that sends the two standard details and not ours.
func TestErrorInfoAlone(t *testing.T) {
	info := &errdetails.ErrorInfo{Reason: "THROTTLED", Domain: ErrorDomain,
		Metadata: map[string]string{"op": "GET", "subject": "key", "status": "503", "request_id": "r"}}
	full, _ := status.FromError(ToStatus(fullError()))
	retry := full.Details()[2].(*errdetails.RetryInfo)
	st, err := status.New(codes.Unavailable, "slow down").WithDetails(info, retry)
	if err != nil {
		t.Fatal(err)
	}
	want := &abi.Error{Op: "GET", Subject: "key", Kind: abi.Throttled, Status: 503, RequestID: "r", RetryAfter: time.Second, Err: abi.Text("slow down")}
	if got, bare := FromStatus("fetch", "orders-3", st.Err()); !reflect.DeepEqual(got, want) || bare {
		t.Errorf("got %#v, bare %v, want %#v", got, bare, want)
	}
	info.Domain = "googleapis.com"
	st, _ = status.New(codes.Unavailable, "slow down").WithDetails(info)
	if got, bare := FromStatus("fetch", "orders-3", st.Err()); got.Kind != abi.Unavailable || !bare {
		t.Errorf("an ErrorInfo of another domain: %v, bare %v", got, bare)
	}
}
