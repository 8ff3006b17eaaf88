// Package remotelog is the vocabulary of Kafka tiered storage (KIP-405): the names, values and interfaces that the packages
// of tierkit share and that a broker author meets first. It does no I/O and imports no other package of tierkit.
//
// # Values
//
// A [SegmentMetadata] describes one remote log segment: which offsets of which [TopicIDPartition] it holds, under which leader
// epochs they were written, and in which [State] its copy is. All offsets, positions and sizes are int64; offsets are
// inclusive at both ends, as Kafka has them. Slices inside a value (leader epochs, custom metadata) are shared between
// callers and MUST NOT be modified.
//
// # Interfaces
//
// [StorageManager] moves bytes (Kafka's RemoteStorageManager), [MetadataReader] and [MetadataManager] remember what was moved
// (Kafka's RemoteLogMetadataManager). Implementations are safe for concurrent use.
//
// # Errors
//
// Every error that leaves an implementation matches, with errors.Is, one of the kinds declared in errors.go or a context
// error. The names follow Kafka's exceptions, so that a broker can map them one to one.
package remotelog
