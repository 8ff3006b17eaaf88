// Package manifest knows the names and the description of a segment's objects in the store: the .rsm-manifest and its JSON, the
// object keys, and the custom metadata that a copy returns to the broker. The format is that of Aiven's plug-in, whose reader is
// strict; what is written here is read by it, and what it reads is read here.
//
// # Manifest
//
// [Parse] accepts what Jackson accepts for the plug-in (fields in any order, duplicates, integers as strings or decimals, a byte
// order mark, anything behind the root object) and refuses what it refuses (unknown fields, missing ones, integers above
// 2^31-1). Beyond that it refuses manifests that contradict themselves and that the plug-in would read as wrong bytes: stored
// sizes that the transforms cannot have made, index parts that are not one behind the other. [Manifest.Marshal] writes what
// Jackson writes, byte for byte.
//
// # Extension
//
// The plug-in ignores remoteLogSegmentMetadata altogether, and only that. [Checksums] live there, last, under "tierkit".
//
// # Errors
//
// Everything that Parse, ParseKey and ParseCustom refuse is remotelog.ErrCorrupt, with the field and what is wrong with it.
package manifest
