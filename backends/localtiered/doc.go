// Package localtiered reads the directory of Kafka's LocalTieredStorage, the RemoteStorageManager of Kafka's own tests, as a store: its
// files appear as the objects of tierkit's format, so that listing, reading and copying away work on it as on any other store. It
// writes nothing.
//
// # Configuration
//
// storage.backend=localtiered and storage.root=/path, the plug-in's setting `dir`, or the directory kafka-tiered-storage in it.
//
// # Layout
//
// There, <topic>-<partition>-<topic id>/<start offset>-<segment id> with the endings .log, .index, .timeindex, .snapshot,
// .leader_epoch_checkpoint and, where there are aborted transactions, .txnindex (LocalTieredStorage and RemoteLogSegmentFileset of
// kafka-storage 3.9 to 4.3). The .log object is that file; .indexes is the others, one behind the other; .rsm-manifest is made of what the
// files say. The end offset and the largest timestamp are those of the batches, the leader epochs those of the checkpoint that
// reach into the segment, the time of the event is that of the log file. The broker is not known (-1).
//
// The end of a segment of which a compaction removed the last records is not in its files. Where a segment or the next one has
// holes, which only compaction makes, and the next one goes on in the same leader epoch, the segment ends before the next one begins,
// as the broker recorded it: the same for a log file without a batch. Where nothing was compacted, or nothing follows, it
// ends with its last batch, so that a segment that is missing from the directory shows as a hole. In a compacted log a missing segment
// cannot be told from what compaction removed.
//
// # Consistency
//
// A listing shows the files of that moment. A segment whose files contradict each other, or are not all there yet, has a manifest that
// says so and cannot be read: the segment is passed over with a notice.
//
// # Errors
//
// ENOENT is NotFound; EACCES and EPERM are Denied; batches or a checkpoint that cannot be decoded are Corrupt. Put and Delete are
// Unsupported.
//
// # Limits
//
// The batches of a segment are read once in the life of the driver when its manifest, or that of the segment before, is first asked for.
//
// # Permissions
//
// Read and search on the directory.
package localtiered
