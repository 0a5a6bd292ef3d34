package wasm

import (
	"slices"

	"github.com/rsmhost/rsmhost/abi"
)

// AppendInfo appends an Info document.
func AppendInfo(b []byte, in *abi.Info) []byte {
	b = appendString(b, 1, in.Name)
	b = appendString(b, 2, in.Vendor)
	b = appendString(b, 3, in.Version)
	if len(in.ABIVersions) > 0 {
		var at int
		b, at = open(b, 4)
		for _, v := range in.ABIVersions {
			b = appendVarint(b, uint64(int64(v)))
		}
		b = closeAt(b, at)
	}
	for _, s := range in.Features {
		b = appendBytes(b, 5, []byte(s))
	}
	for _, g := range in.Grants {
		b = appendPair(b, 6, g.Kind, g.Value)
	}
	for _, s := range in.Secrets {
		b = appendPair(b, 7, s.Name, s.Env)
	}
	return appendSomeBytes(b, 8, in.Schema)
}

// DecodeInfo reads an Info document.
func DecodeInfo(b []byte) (*abi.Info, error) {
	in := new(abi.Info)
	f := document(b)
	for f.next() {
		switch f.key {
		case 1<<3 | typeLen:
			in.Name = f.string()
		case 2<<3 | typeLen:
			in.Vendor = f.string()
		case 3<<3 | typeLen:
			in.Version = f.string()
		case 4<<3 | typeVarint:
			if f.room(len(in.ABIVersions)) {
				in.ABIVersions = append(in.ABIVersions, f.i32())
			}
		case 4<<3 | typeLen:
			in.ABIVersions = f.packed(in.ABIVersions)
		case 5<<3 | typeLen:
			if f.room(len(in.Features)) {
				in.Features = append(in.Features, f.string())
			}
		case 6<<3 | typeLen:
			if f.room(len(in.Grants)) {
				kind, value := f.pair()
				in.Grants = append(in.Grants, abi.Grant{Kind: kind, Value: value})
			}
		case 7<<3 | typeLen:
			if f.room(len(in.Secrets)) {
				name, env := f.pair()
				in.Secrets = append(in.Secrets, abi.Secret{Name: name, Env: env})
			}
		case 8<<3 | typeLen:
			in.Schema = f.blob()
		}
	}
	if err := f.done("Info"); err != nil {
		return nil, err
	}
	return in, nil
}

// ConfigureRequest is the document that Configure gets. Secrets never cross into a module.
type ConfigureRequest struct {
	ABIVersion  int32 // the highest that both speak
	HostVersion string
	Values      map[string]string
}

// AppendConfigure appends a ConfigureRequest document.
func AppendConfigure(b []byte, c *ConfigureRequest) []byte {
	b = appendInt(b, 1, int64(c.ABIVersion))
	b = appendString(b, 2, c.HostVersion)
	keys := make([]string, 0, len(c.Values))
	for k := range c.Values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		b = appendPair(b, 3, k, c.Values[k])
	}
	return b
}

// DecodeConfigure reads a ConfigureRequest document.
func DecodeConfigure(b []byte) (*ConfigureRequest, error) {
	c := &ConfigureRequest{Values: map[string]string{}}
	f := document(b)
	for f.next() {
		switch f.key {
		case 1<<3 | typeVarint:
			c.ABIVersion = f.i32()
		case 2<<3 | typeLen:
			c.HostVersion = f.string()
		case 3<<3 | typeLen:
			key, value := f.pair()
			if f.room(len(c.Values)) {
				c.Values[key] = value
			}
		case 4<<3 | typeLen:
			f.pair() // secrets: a module does not get them
		}
	}
	if err := f.done("ConfigureRequest"); err != nil {
		return nil, err
	}
	return c, nil
}

// appendPair writes a message of two strings, 1 and 2.
func appendPair(b []byte, num int, first, second string) []byte {
	b, at := open(b, num)
	b = appendString(b, 1, first)
	b = appendString(b, 2, second)
	return closeAt(b, at)
}

func (f *fields) pair() (first, second string) {
	m := f.nested()
	for m.next() {
		switch m.key {
		case 1<<3 | typeLen:
			first = m.string()
		case 2<<3 | typeLen:
			second = m.string()
		}
	}
	return first, second
}

func (f *fields) packed(list []int32) []int32 {
	m := f.nested()
	for len(m.rest) > 0 {
		v, ok := m.varint()
		if !ok || !m.room(len(list)) {
			break
		}
		list = append(list, int32(v))
	}
	return list
}
