package rlmm

import (
	"encoding/binary"
	"math/bits"

	"github.com/tierkit/tierkit/remotelog"
)

// MetadataPartition returns the metadata partition, of n, that holds the records of a partition. It is Kafka's
// RemoteLogMetadataTopicPartitioner (4.4): the topic's name plays no part. It panics if n is below 1.
//
// n must never change on a log that has records: those already written stay where they are.
func MetadataPartition(tp remotelog.TopicIDPartition, n int32) int32 {
	if n < 1 {
		panic("rlmm: a metadata log has at least one partition")
	}
	return int32(murmur2(partitionHash(tp))&0x7fffffff) % n
}

// partitionHash is java.util.Objects.hash over the two halves of the id, the lower one first, and the partition.
func partitionHash(tp remotelog.TopicIDPartition) uint32 {
	fold := func(b []byte) uint32 { return binary.BigEndian.Uint32(b) ^ binary.BigEndian.Uint32(b[4:]) }
	msb, lsb := fold(tp.TopicID[:8]), fold(tp.TopicID[8:])
	return 31*(31*(31+lsb)+msb) + uint32(tp.Partition)
}

// murmur2 is org.apache.kafka.common.utils.Utils.murmur2 for the four big-endian bytes of v. The hash reads them little-endian.
func murmur2(v uint32) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed ^ 4)
	k := bits.ReverseBytes32(v) * m
	k ^= k >> r
	h = h*m ^ k*m
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
