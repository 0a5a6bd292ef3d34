package access

import (
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
)

// keywords are those of RFC 2253; other attributes stand there by their number.
var keywords = map[string]string{
	"2.5.4.3": "CN", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.6": "C", "2.5.4.9": "STREET",
	"0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}

// distinguishedName writes a subject as Java's X500Principal.getName does, which Kafka takes for the name of a principal:
// RFC 2253, the last part first. pkix.Name.String differs in the order of parts, and in what DC and UID are.
func distinguishedName(der []byte) (string, error) {
	var parts []asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &parts); err != nil || len(rest) > 0 {
		return "", fmt.Errorf("it is no name: %w", err)
	}
	slices.Reverse(parts)
	var out []string
	for _, p := range parts {
		part, err := relativeName(p.FullBytes)
		if err != nil {
			return "", err
		}
		out = append(out, part)
	}
	return strings.Join(out, ","), nil
}

// attribute is one name and value of a part.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

// attributeSET is a part: the suffix makes asn1 take a set.
type attributeSET []attribute

func relativeName(der []byte) (string, error) {
	var set attributeSET
	if _, err := asn1.UnmarshalWithParams(der, &set, "set"); err != nil {
		return "", err
	}
	var out []string
	for _, a := range set {
		key, known := keywords[a.Type.String()]
		var text string
		if _, err := asn1.Unmarshal(a.Value.FullBytes, &text); err != nil || !known {
			if !known {
				key = a.Type.String()
			}
			out = append(out, fmt.Sprintf("%s=#%x", key, a.Value.FullBytes))
			continue
		}
		out = append(out, key+"="+escape(text))
	}
	return strings.Join(out, "+"), nil
}

// escape puts a backslash before what has a meaning in a name.
func escape(s string) string {
	var out strings.Builder
	for i, r := range s {
		if strings.ContainsRune(`,=+"\<>;`, r) || r == '#' && i == 0 || r == ' ' && (i == 0 || i == len(s)-1) {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}
