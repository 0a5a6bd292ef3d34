package format

import (
	"strings"

	"github.com/rsmhost/rsmhost/abi"
)

// ParsePartitionMetadata reads the partition.metadata of a partition directory (KIP-516; Kafka's
// PartitionMetadataFile): the id of the topic that the directory is of. A version other than 0 is UNSUPPORTED; anything
// malformed, and the id of zeros, is CORRUPT.
func ParsePartitionMetadata(b []byte) (abi.UUID, error) {
	const what = "partition.metadata"
	lines := strings.SplitN(string(b), "\n", 3)
	version, ok := strings.CutPrefix(lines[0], "version:")
	if !ok {
		return abi.UUID{}, corrupt(what, "line 1 is %q, not \"version: 0\"", clip(lines[0]))
	}
	if err := checkVersion(what, strings.TrimSpace(version)); err != nil {
		return abi.UUID{}, err
	}
	if len(lines) < 2 {
		return abi.UUID{}, corrupt(what, "it ends after the version")
	}
	text, ok := strings.CutPrefix(lines[1], "topic_id:")
	if !ok {
		return abi.UUID{}, corrupt(what, "line 2 is %q, not \"topic_id: ...\"", clip(lines[1]))
	}
	id, err := abi.ParseUUID(strings.TrimSpace(text))
	if err != nil || id.IsZero() {
		return abi.UUID{}, corrupt(what, "line 2: %q is no topic id", clip(text))
	}
	return id, nil
}

// clip cuts a line that may be anything to what an error can carry.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
