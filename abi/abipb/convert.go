package abipb

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rsmhost/rsmhost/abi"
)

// FromInfo gives a plugin's description as a message.
func FromInfo(i abi.Info) *Info {
	out := &Info{Name: text(i.Name), Vendor: text(i.Vendor), Version: text(i.Version), AbiVersions: i.ABIVersions, Features: i.Features, Schema: i.Schema}
	for _, g := range i.Grants {
		out.Grants = append(out.Grants, &Grant{Kind: text(g.Kind), Value: text(g.Value)})
	}
	for _, s := range i.Secrets {
		out.Secrets = append(out.Secrets, &Secret{Name: text(s.Name), Env: text(s.Env)})
	}
	return out
}

// ToABI gives the description that the message carries.
func (x *Info) ToABI() abi.Info {
	out := abi.Info{Name: x.GetName(), Vendor: x.GetVendor(), Version: x.GetVersion(), ABIVersions: x.GetAbiVersions(),
		Features: x.GetFeatures(), Schema: x.GetSchema()}
	for _, g := range x.GetGrants() {
		out.Grants = append(out.Grants, abi.Grant{Kind: g.GetKind(), Value: g.GetValue()})
	}
	for _, s := range x.GetSecrets() {
		out.Secrets = append(out.Secrets, abi.Secret{Name: s.GetName(), Env: s.GetEnv()})
	}
	return out
}

// FromSettings gives settings, or secrets, in the order of their names.
func FromSettings(m map[string]string) []*Setting {
	out := make([]*Setting, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, &Setting{Key: k, Value: m[k]})
	}
	return out
}

// ToSettings gives settings, or secrets, by name.
func ToSettings(list []*Setting) map[string]string {
	out := make(map[string]string, len(list))
	for _, s := range list {
		out[s.GetKey()] = s.GetValue()
	}
	return out
}

// FromSegment gives a segment's metadata as a message. It shares the bytes of the custom metadata.
func FromSegment(m *abi.SegmentMetadata) *SegmentMetadata {
	topicID, segmentID := m.TopicID, m.SegmentID
	out := &SegmentMetadata{
		Topic: text(m.Topic), TopicId: topicID[:], Partition: m.Partition, SegmentId: segmentID[:],
		StartOffset: m.StartOffset, EndOffset: m.EndOffset, MaxTimestampMs: m.MaxTimestampMs, SizeBytes: m.SizeBytes,
		BrokerId: m.BrokerID, EventTimestampMs: m.EventTimestampMs,
		CustomMetadata: m.CustomMetadata, TxnIndexEmpty: m.TxnIndexEmpty,
	}
	for _, e := range m.LeaderEpochs {
		out.LeaderEpochs = append(out.LeaderEpochs, &LeaderEpoch{Epoch: e.Epoch, StartOffset: e.StartOffset})
	}
	return out
}

// ToABI gives the metadata that the message carries. An error is INVALID: an id that is not 16 bytes long.
func (x *SegmentMetadata) ToABI() (*abi.SegmentMetadata, error) {
	out := &abi.SegmentMetadata{
		TopicIDPartition: abi.TopicIDPartition{Topic: x.GetTopic(), Partition: x.GetPartition()},
		StartOffset:      x.GetStartOffset(), EndOffset: x.GetEndOffset(), MaxTimestampMs: x.GetMaxTimestampMs(),
		SizeBytes: x.GetSizeBytes(), BrokerID: x.GetBrokerId(), EventTimestampMs: x.GetEventTimestampMs(),
		CustomMetadata: x.GetCustomMetadata(), TxnIndexEmpty: x.GetTxnIndexEmpty(),
	}
	if len(x.GetTopicId()) != len(out.TopicID) || len(x.GetSegmentId()) != len(out.SegmentID) {
		return nil, abi.Errorf("decode", "segment", abi.Invalid, "the topic's id has %d bytes and the segment's %d, want 16 each",
			len(x.GetTopicId()), len(x.GetSegmentId()))
	}
	copy(out.TopicID[:], x.GetTopicId())
	copy(out.SegmentID[:], x.GetSegmentId())
	for _, e := range x.GetLeaderEpochs() {
		out.LeaderEpochs = append(out.LeaderEpochs, abi.LeaderEpoch{Epoch: e.GetEpoch(), StartOffset: e.GetStartOffset()})
	}
	return out, nil
}

// FromSource gives a Source as a message. A stream's bytes are the caller's to send.
func FromSource(s *abi.Source) *Source {
	out := &Source{OriginalSize: s.OriginalSize, Etag: text(s.ETag)}
	if s.Location != nil {
		out.Location = fromLocation(s.Location)
	}
	return out
}

// ToABI gives the Source that the message carries. Without a location it is a stream, which the caller sets. An error is
// UNSUPPORTED: a part of a kind that this side does not know.
func (x *Source) ToABI() (*abi.Source, error) {
	out := &abi.Source{OriginalSize: x.GetOriginalSize(), ETag: x.GetEtag()}
	if x.GetLocation() == nil {
		return out, nil
	}
	loc, err := x.GetLocation().toABI()
	if err != nil {
		return nil, err
	}
	out.Location = loc
	return out, nil
}

func fromLocation(l *abi.Location) *Location {
	out := &Location{Scope: int32(l.Scope)}
	if !l.ExpiresAt.IsZero() {
		out.ExpiresAtMs = l.ExpiresAt.UnixMilli()
	}
	for _, p := range l.Parts {
		out.Parts = append(out.Parts, fromPart(p))
	}
	for _, s := range l.OnStatus {
		out.OnStatus = append(out.OnStatus, &StatusKind{Status: int32(s.Status), Kind: int32(s.Kind)})
	}
	if c := l.Encoding.Chunked; c != nil {
		out.Chunked = &Chunked{OriginalChunkSize: c.OriginalChunkSize, OriginalSize: c.OriginalSize, Packing: int32(c.Packing),
			Sizes: c.Sizes, Compression: int32(c.Compression)}
		if a := c.AES256GCM; a != nil {
			out.Chunked.Aes_256Gcm = &AES256GCM{Key: a.Key, KeyId: text(a.KeyID), KeyAlgorithm: text(a.KeyAlgorithm), Aad: a.AAD}
		}
	}
	return out
}

func (x *Location) toABI() (*abi.Location, error) {
	out := &abi.Location{Scope: abi.Scope(x.GetScope())}
	if x.GetExpiresAtMs() != 0 {
		out.ExpiresAt = time.UnixMilli(x.GetExpiresAtMs()).UTC()
	}
	for _, p := range x.GetParts() {
		part, err := p.toABI()
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts, part)
	}
	for _, s := range x.GetOnStatus() {
		out.OnStatus = append(out.OnStatus, abi.StatusKind{Status: int(s.GetStatus()), Kind: abi.Kind(s.GetKind())})
	}
	if c := x.GetChunked(); c != nil {
		out.Encoding.Chunked = &abi.Chunked{OriginalChunkSize: c.GetOriginalChunkSize(), OriginalSize: c.GetOriginalSize(),
			Packing: abi.Packing(c.GetPacking()), Sizes: c.GetSizes(), Compression: abi.Compression(c.GetCompression())}
		if a := c.GetAes_256Gcm(); a != nil {
			out.Encoding.Chunked.AES256GCM = &abi.AES256GCM{Key: a.GetKey(), KeyID: a.GetKeyId(), KeyAlgorithm: a.GetKeyAlgorithm(), AAD: a.GetAad()}
		}
	}
	return out, nil
}

func fromPart(p abi.Part) *Part {
	switch {
	case p.File != nil:
		f := p.File
		return &Part{Part: &Part_File{&FilePart{Root: text(f.Root), Path: text(f.Path), Offset: f.Offset, Length: f.Length}}}
	case p.HTTP != nil:
		h := p.HTTP
		out := &HTTPPart{Method: text(h.Method), Url: text(h.URL), Fixed: h.Fixed, Offset: h.Offset, Length: h.Length}
		for _, hd := range h.Headers {
			out.Headers = append(out.Headers, &Header{Name: text(hd.Name), Value: text(hd.Value)})
		}
		return &Part{Part: &Part_Http{out}}
	}
	return &Part{Part: &Part_Inline{p.Inline}}
}

func (x *Part) toABI() (abi.Part, error) {
	switch p := x.GetPart().(type) {
	case *Part_File:
		f := p.File
		return abi.Part{File: &abi.FilePart{Root: f.GetRoot(), Path: f.GetPath(), Offset: f.GetOffset(), Length: f.GetLength()}}, nil
	case *Part_Http:
		h := p.Http
		out := &abi.HTTPPart{Method: h.GetMethod(), URL: h.GetUrl(), Fixed: h.GetFixed(), Offset: h.GetOffset(), Length: h.GetLength()}
		for _, hd := range h.GetHeaders() {
			out.Headers = append(out.Headers, abi.Header{Name: hd.GetName(), Value: hd.GetValue()})
		}
		return abi.Part{HTTP: out}, nil
	case *Part_Inline:
		return abi.Part{Inline: p.Inline}, nil
	}
	return abi.Part{}, abi.Errorf("decode", "location", abi.Unsupported, "a part is of a kind that this side does not know")
}

// text makes s fit for a protobuf string, which must be valid UTF-8. File names and words of other systems need not be;
// a message that cannot be sent would hide them all.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
