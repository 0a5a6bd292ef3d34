package format

import (
	"fmt"
	"math"

	"github.com/rsmhost/rsmhost/abi"
)

// ParseLeaderEpochs reads a leader-epoch-checkpoint, which is also the LEADER_EPOCH index of a tiered segment (KIP-101;
// Kafka's LeaderEpochCheckpointFile): for each epoch the offset of its first record. An empty file has no entries.
// A version other than 0 is UNSUPPORTED; anything malformed is CORRUPT: a wrong count, epochs or offsets that do not
// ascend.
func ParseLeaderEpochs(b []byte) ([]abi.LeaderEpoch, error) {
	const what = "leader epoch checkpoint"
	var es []abi.LeaderEpoch
	err := parseCheckpoint(what, b, func(line int, f []string) error {
		e, ok := parseEpoch(f)
		if !ok {
			return corrupt(what, "line %d: %q is no epoch and offset", line, f)
		}
		if n := len(es); n > 0 && (e.Epoch <= es[n-1].Epoch || e.StartOffset <= es[n-1].StartOffset) {
			return corrupt(what, "line %d: epoch %d from offset %d does not come after epoch %d from offset %d",
				line, e.Epoch, e.StartOffset, es[n-1].Epoch, es[n-1].StartOffset)
		}
		es = append(es, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return es, nil
}

func parseEpoch(f []string) (abi.LeaderEpoch, bool) {
	if len(f) != 2 {
		return abi.LeaderEpoch{}, false
	}
	epoch, ok := parseNumber(f[0], math.MaxInt32)
	offset, ok2 := parseNumber(f[1], math.MaxInt64)
	return abi.LeaderEpoch{Epoch: int32(epoch), StartOffset: offset}, ok && ok2
}

// AppendLeaderEpochs appends to dst a leader-epoch-checkpoint with these entries, as Kafka writes it.
func AppendLeaderEpochs(dst []byte, e []abi.LeaderEpoch) []byte {
	dst = fmt.Appendf(dst, "0\n%d\n", len(e))
	for _, x := range e {
		dst = fmt.Appendf(dst, "%d %d\n", x.Epoch, x.StartOffset)
	}
	return dst
}
