package format

import (
	"math"
	"strings"
)

// MetaProperties is what the meta.properties of a log dir says about the broker (Kafka's MetaProperties; KIP-858).
type MetaProperties struct {
	NodeID      int32  // -1: not known
	ClusterID   string // empty: not known
	DirectoryID string // of this log dir; empty: not known
}

// ParseMetaProperties reads the meta.properties of a log dir, a file of Java properties. It knows versions 0
// (broker.id) and 1 (node.id); another is UNSUPPORTED, anything malformed CORRUPT. A missing property is not known.
func ParseMetaProperties(b []byte) (MetaProperties, error) {
	const what = "meta.properties"
	props := javaProperties(string(b))
	m := MetaProperties{NodeID: -1, ClusterID: props["cluster.id"], DirectoryID: props["directory.id"]}
	id, key := "", ""
	switch v := props["version"]; v {
	case "0":
		key = "broker.id"
	case "1":
		key = "node.id"
	case "":
		return MetaProperties{}, corrupt(what, "it has no version")
	default:
		return MetaProperties{}, unsupported(what, "it has version %q, only 0 and 1 are known", clip(v))
	}
	if id = props[key]; id != "" {
		n, ok := parseNumber(id, math.MaxInt32)
		if !ok {
			return MetaProperties{}, corrupt(what, "%s is %q", key, clip(id))
		}
		m.NodeID = int32(n)
	}
	return m, nil
}

// javaProperties reads key=value lines as java.util.Properties stores them: comments begin with # or !, and a backslash
// makes the next character ordinary. It knows no continuation lines and no \u, which Kafka never writes.
func javaProperties(s string) map[string]string {
	props := make(map[string]string)
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value := splitProperty(line)
		props[key] = unescape(value)
	}
	return props
}

// splitProperty cuts a line at its first separator that no backslash guards.
func splitProperty(line string) (key, value string) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '=', ':':
			return unescape(strings.TrimSpace(line[:i])), strings.TrimSpace(line[i+1:])
		}
	}
	return unescape(line), ""
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
