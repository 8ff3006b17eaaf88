// Package mem is a store in memory: for tests, and the reference that the conformance suite holds other drivers against.
//
// # Configuration
//
// storage.backend=mem; storage.mem.max.bytes bounds what it holds, so that "no space left" can be tried. In code, a Space is the
// bucket and Space.Client a driver over it: several clients of one Space see the same objects.
//
// # Consistency
//
// Everything is visible at once, to every client of the Space. A reader keeps the bytes of the version that it opened.
//
// # Errors
//
// Only codes of package backends. A Space that is full answers Exhausted.
//
// # Limits
//
// Keys of 1,024 bytes (as S3 has it), objects of 1 TiB in theory and of the machine's memory in practice. Bytes held are not charged to
// a budget.
package mem
