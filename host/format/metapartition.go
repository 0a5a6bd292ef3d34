package format

import (
	"encoding/binary"

	"github.com/rsmhost/rsmhost/abi"
)

// MetadataPartition is the partition of the remote log metadata topic, out of n, that holds the events of a user
// partition (Kafka's RemoteLogMetadataTopicPartitioner). n is positive, and must be what it was when the events were
// written.
func MetadataPartition(topicID abi.UUID, partition int32, n int32) int32 {
	var key [4]byte
	binary.BigEndian.PutUint32(key[:], uint32(partitionHash(topicID, partition)))
	return int32(murmur2(key[:])&0x7fffffff) % n
}

// partitionHash is Java's hash of a TopicIdPartition's id and partition, in 32 bits that wrap around.
func partitionHash(id abi.UUID, partition int32) int32 {
	h := int32(1)
	h = 31*h + foldLong(binary.BigEndian.Uint64(id[8:]))
	h = 31*h + foldLong(binary.BigEndian.Uint64(id[:]))
	return 31*h + partition
}

// foldLong is Java's Long.hashCode.
func foldLong(v uint64) int32 { return int32(uint32(v ^ v>>32)) }

// murmur2 is the variant of MurmurHash2 by which Kafka partitions keys (its Utils class).
func murmur2(b []byte) uint32 {
	const seed, m, r = 0x9747b28c, 0x5bd1e995, 24
	h := uint32(seed) ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k = (k ^ k>>r) * m
		h = h*m ^ k
	}
	if len(b) > 0 {
		for i, c := range b {
			h ^= uint32(c) << (8 * i)
		}
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
