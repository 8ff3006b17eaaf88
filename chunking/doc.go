// Package chunking maps a segment file to the chunks of its .log object and back, in the format of Aiven's plug-in.
//
// # Chunks
//
// A segment file is cut into chunks of equal size, the last one holds the rest. Each chunk is stored by itself, one behind the
// other, without header or padding: compressed into one zstd frame or not, then sealed or not (package crypto). Chunk borders
// are byte positions; they do not follow record batches.
//
// # Index
//
// [Index] says where each chunk is. It is fixed when the stored size can be computed (no compression), variable when it cannot;
// the sizes of a variable one travel in the manifest as base64 of a zstd frame of packed differences.
//
// # Codecs
//
// [Codecs] is the pool of zstd encoders and decoders of a process. Frames are written and read strictly: one frame per chunk,
// content size in the header, nothing behind it.
//
// # Errors
//
// [ErrBadIndex] and [ErrBadFrame] mean that stored bytes contradict themselves.
package chunking
