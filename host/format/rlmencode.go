package format

import (
	"encoding/binary"
	"math"

	"github.com/rsmhost/rsmhost/abi"
)

// AppendRemoteLogMetadata is the inverse of ParseRemoteLogMetadata: it appends the record's value to dst, byte for byte
// what Kafka writes. event is one of its four types, a pointer. Another type, and a size above 2 GiB - 1, which the
// record cannot hold, are INVALID.
func AppendRemoteLogMetadata(dst []byte, event any) ([]byte, error) {
	switch e := event.(type) {
	case *SegmentEvent:
		dst = appendFrame(dst, apiSegment)
		dst = appendSegmentID(dst, &e.TopicIDPartition, e.SegmentID)
		return appendSegmentBody(dst, &SegmentSnapshotEvent{
			StartOffset: e.StartOffset, EndOffset: e.EndOffset, BrokerID: e.BrokerID,
			MaxTimestampMs: e.MaxTimestampMs, EventTimestampMs: e.EventTimestampMs,
			LeaderEpochs: e.LeaderEpochs, SizeBytes: e.SizeBytes,
			CustomMetadata: e.CustomMetadata, State: e.State, TxnIndexEmpty: e.TxnIndexEmpty,
		})
	case *SegmentUpdateEvent:
		dst = appendFrame(dst, apiSegmentUpdate)
		dst = appendSegmentID(dst, &e.TopicIDPartition, e.SegmentID)
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.BrokerID))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.EventTimestampMs))
		dst = appendCompact(dst, e.CustomMetadata)
		return append(dst, byte(e.State), 0), nil
	case *PartitionDeleteEvent:
		dst = appendFrame(dst, apiPartitionDelete)
		dst = appendPartition(dst, &e.TopicIDPartition)
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.BrokerID))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.EventTimestampMs))
		return append(dst, byte(e.State), 0), nil
	case *SegmentSnapshotEvent:
		dst = append(appendFrame(dst, apiSegmentSnapshot), e.SegmentID[:]...)
		return appendSegmentBody(dst, e)
	}
	return nil, invalid("remote log metadata record", "%T is not one", event)
}

func appendFrame(dst []byte, key byte) []byte { return append(dst, rlmFrameVersion, key, rlmVersion) }

func appendPartition(dst []byte, p *abi.TopicIDPartition) []byte {
	dst = appendCompact(dst, []byte(p.Topic))
	dst = append(dst, p.TopicID[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.Partition))
	return append(dst, 0) // no tags
}

func appendSegmentID(dst []byte, p *abi.TopicIDPartition, id abi.UUID) []byte {
	dst = append(appendPartition(dst, p), id[:]...)
	return append(dst, 0)
}

func appendSegmentBody(dst []byte, s *SegmentSnapshotEvent) ([]byte, error) {
	if s.SizeBytes < 0 || s.SizeBytes > math.MaxInt32 {
		return nil, invalid("remote log metadata record", "size %d does not fit into its 31 bits", s.SizeBytes)
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.StartOffset))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.EndOffset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.BrokerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.MaxTimestampMs))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.EventTimestampMs))
	dst = binary.AppendUvarint(dst, uint64(len(s.LeaderEpochs))+1)
	for _, e := range s.LeaderEpochs {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.Epoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.StartOffset))
		dst = append(dst, 0)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.SizeBytes))
	dst = appendCompact(dst, s.CustomMetadata)
	dst = append(dst, byte(s.State))
	if s.TxnIndexEmpty { // a tagged field that has its default is not written
		return append(dst, 1, tagTxnIndex, 1, 1), nil
	}
	return append(dst, 0), nil
}

// appendCompact writes a compact nullable string or byte array.
func appendCompact(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}
