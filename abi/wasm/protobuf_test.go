package wasm

import (
	"google.golang.org/protobuf/proto"

	"github.com/rsmhost/rsmhost/abi"
	"github.com/rsmhost/rsmhost/abi/abipb"
)

// This file is the oracle: the documents as google.golang.org/protobuf reads them, and abipb brings them into the types
// of package abi.

func messageOf(name string) proto.Message {
	return map[string]proto.Message{
		"Info": new(abipb.Info), "ConfigureRequest": new(abipb.ConfigureRequest), "Source": new(abipb.Source),
		"FetchLogSegmentRequest": new(abipb.FetchLogSegmentRequest), "FetchIndexRequest": new(abipb.FetchIndexRequest),
		"Error": new(abipb.Error),
	}[name]
}

func viaProto[M any, PM interface {
	*M
	proto.Message
}](convert func(PM) (any, error)) func(b []byte) (any, error) {
	return func(b []byte) (any, error) {
		m := PM(new(M))
		if err := proto.Unmarshal(b, m); err != nil {
			return nil, err
		}
		return convert(m)
	}
}

func infoOf(m *abipb.Info) (any, error) {
	in := m.ToABI()
	return &in, nil
}

func configureOf(m *abipb.ConfigureRequest) (any, error) {
	return &ConfigureRequest{ABIVersion: m.AbiVersion, HostVersion: m.HostVersion, Values: abipb.ToSettings(m.Values)}, nil
}

func fetchLogOf(m *abipb.FetchLogSegmentRequest) (any, error) {
	seg, err := m.Segment.ToABI()
	return fetchLog{seg, abi.Range{Start: m.Start, End: m.End}}, err
}

func fetchIndexOf(m *abipb.FetchIndexRequest) (any, error) {
	seg, err := m.Segment.ToABI()
	return fetchIndex{seg, abi.IndexType(m.IndexType)}, err
}

func sourceOf(m *abipb.Source) (any, error) { return m.ToABI() }

func errorOf(m *abipb.Error) (any, error) {
	for x := m; x != nil; x = x.Cause { // hints that no time.Duration holds
		x.RetryAfterMs = min(max(x.RetryAfterMs, 0), maxRetryMs)
	}
	return m.ToABI(), nil
}
