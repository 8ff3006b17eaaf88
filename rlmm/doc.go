// Package rlmm is the RemoteLogMetadataManager of Kafka tiered storage (KIP-405): it remembers which segments were moved.
//
// An event log is the only durable thing, behind the seam [Log]; everything else is derived from it. Implementations are in
// packages of their own: memlog (memory), filelog (the embedded default), kafkalog (the topic __remote_log_metadata).
//
// # Manager
//
// A [Manager] follows the partitions that it is told to (OnLeadershipChange, Reconcile), or with Options.All every one that the
// log mentions, and answers from memory: a read never touches the log. A write is checked against the present state, appended,
// and returns when its event has come back and what it did is known. Until a partition has been read to the end that the log
// had when it was added, every call for it is remotelog.ErrNotReady: there is no empty answer that means "not known yet".
//
// Several managers, and real brokers, may share one log. Each sees what the others write.
//
// # Answers
//
// For the histories that brokers write, every answer is that of Kafka 4.4's TopicBasedRemoteLogMetadataManager. Where segments
// overlap in ways that make Kafka lose one from its look-ups, a finished segment that covers the offset is still found, and every
// listing has it, so that retention sees it. Records that end a real broker's metadata consumer are skipped and counted.
//
// # Records
//
// [Decode] and [Encode] are the bytes of __remote_log_metadata, [MetadataPartition] is Kafka's choice of the partition,
// [FormatRecord] its text form. They are exported for tools that look at the topic.
//
// # Scale
//
// A look-up takes well below a microsecond among a million segments and allocates nothing; a segment takes about 250 bytes; a
// listing is a snapshot that costs nothing to take. BenchmarkScale measures all of it.
package rlmm
