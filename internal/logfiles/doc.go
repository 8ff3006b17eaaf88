// Package logfiles reads, and where a copy needs it writes, the files that Kafka keeps beside a .log: offset, time and transaction
// index, producer snapshot, leader-epoch-checkpoint, the offset checkpoints of a log directory, partition.metadata and
// meta.properties. It does no I/O: callers hand it bytes. Every parser checks lengths and order before it answers; what does not
// fit is remotelog.ErrCorrupt.
//
// [Producers] is the part of Kafka's ProducerStateManager that a reader of a log needs: which transactions are open, which were
// aborted, and the producer snapshot at an offset.
package logfiles
