package main

import (
	"encoding/binary"
	"fmt"

	abiwasm "github.com/rsmhost/rsmhost/abi/wasm"
	"github.com/rsmhost/rsmhost/host/plugin/wasm"
)

const pageSize = 64 << 10

// pack gives the module with a maximum for its memory and without a manifest.
func pack(module []byte, maxBytes uint64) ([]byte, error) {
	sections, err := wasm.Sections(module)
	if err != nil {
		return nil, err
	}
	out := append([]byte(nil), module[:8]...)
	memories := 0
	for _, s := range sections {
		switch {
		case s.ID == wasm.SectionMemory:
			memories++
			if s.Body, err = bounded(s.Body, maxBytes/pageSize); err != nil {
				return nil, err
			}
			out = appendSection(out, s.ID, s.Body)
		case s.ID != wasm.SectionCustom:
			out = appendSection(out, s.ID, s.Body)
		case s.Name != abiwasm.ManifestSection:
			out = appendCustom(out, s.Name, s.Body)
		}
	}
	if memories != 1 {
		return nil, fmt.Errorf("the module has %d memory sections, a plugin has one", memories)
	}
	return out, nil
}

// bounded gives the body of a memory section with a maximum of at most maxPages.
func bounded(body []byte, maxPages uint64) ([]byte, error) {
	if len(body) == 0 || body[0] != 1 {
		return nil, fmt.Errorf("the module does not have one memory, which a plugin has")
	}
	l, rest, err := wasm.ReadLimits(body[1:])
	if err != nil {
		return nil, err
	}
	switch {
	case l.Shared || l.Wide || len(rest) > 0:
		return nil, fmt.Errorf("the module's memory is shared or has 64-bit addresses; a plugin's is plain")
	case l.Min > maxPages:
		return nil, fmt.Errorf("the module starts with %d pages of 64 KiB, more than the maximum of %d", l.Min, maxPages)
	case l.HasMax && l.Max <= maxPages:
		return body, nil
	}
	out := []byte{1, 1}
	out = binary.AppendUvarint(out, l.Min)
	return binary.AppendUvarint(out, maxPages), nil
}

// appendManifest adds the manifest at the end, where custom sections are of no consequence to any tool.
func appendManifest(module, doc []byte) []byte {
	return appendCustom(module, abiwasm.ManifestSection, doc)
}

// appendCustom adds a custom section. WebAssembly's unsigned LEB128 is the uvarint of encoding/binary.
func appendCustom(out []byte, name string, body []byte) []byte {
	b := binary.AppendUvarint(nil, uint64(len(name)))
	return appendSection(out, wasm.SectionCustom, append(append(b, name...), body...))
}

func appendSection(out []byte, id byte, body []byte) []byte {
	out = binary.AppendUvarint(append(out, id), uint64(len(body)))
	return append(out, body...)
}
