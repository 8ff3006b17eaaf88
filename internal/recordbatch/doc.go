// Package recordbatch reads Kafka's record batches of message format 2 (magic 2): the header, the CRC-32C, and the records of all
// five codecs. It trusts nothing: lengths are checked before they are used, memory grows with the bytes that really arrive and not
// with what a length field claims, and decompression is bounded.
//
// The format is that of org.apache.kafka.common.record.DefaultRecordBatch and DefaultRecord. Batches of message formats 0 and 1
// (before Kafka 0.11) are ErrUnsupportedMagic.
//
// Only the bytes from the attributes on are covered by the CRC. Base offset, length, leader epoch and magic are not: whoever reads
// a log checks them against the batches before and behind and against the segment's metadata.
package recordbatch
