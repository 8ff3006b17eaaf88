// Package rlmm is the RemoteLogMetadataManager of Kafka tiered storage (KIP-405): it remembers which segments were moved.
//
// An event log is the only durable thing, behind the seam [Log]; everything else is derived from it. Implementations are in
// packages of their own: memlog (memory), filelog (the embedded default), kafkalog (the topic __remote_log_metadata).
package rlmm
