// Package rlm is the broker's side of tiered storage (Kafka: RemoteLogManager): which segments of a log may leave it, the two-phase
// protocol that moves them, and reading them back by offset, by timestamp and in both isolation levels. It works over the
// interfaces of package remotelog alone: any StorageManager, any MetadataManager, and for reading any MetadataReader.
//
// # Taking segments
//
// [Offload] reads partition directories as a stopped broker left them and copies what may be taken: closed segments below the high
// watermark, below the first open transaction and not below the log start offset, as the files show these. [PlanPartition] shows
// the choice without copying. Every batch of a segment is read and checked first. A directory in use by a running broker is refused.
//
// # The protocol
//
// COPY_SEGMENT_STARTED is durable before a byte is stored, COPY_SEGMENT_FINISHED follows the last one; a delete is
// DELETE_SEGMENT_STARTED, the bytes, DELETE_SEGMENT_FINISHED. StorageManager.Delete is never called before DELETE_SEGMENT_STARTED is
// durable, and nothing is deleted on the strength of a write whose outcome is unknown. [Recover] finishes what a crash left.
//
// # Reading
//
// [Open] takes a view of one partition: the lineage of leader epochs and the unbroken chain of segments that ends at the highest
// offset. [View.Records] streams records: epoch, metadata, offset index, ranged fetch, batches. Every batch is checked against its
// CRC, its neighbours and the segment's metadata before a record of it is shown.
//
// # Concurrency
//
// All functions may be called from several goroutines; a [View] is read by one goroutine at a time.
package rlm
