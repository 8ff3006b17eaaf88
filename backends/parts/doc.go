// Package parts uploads a body of any size to a store that takes objects in parts: the multipart uploads of S3, the block lists of
// Azure. Drivers implement Target, five requests and a question; Put does the rest, the same for each of them.
//
// # Memory
//
// Put reads the body into buffers of one part each. They come from Options.Memory: the first from what the caller reserved, more,
// for parts that are sent at the same time, by TryGrow. What was grown goes back after each part, so that those who wait for
// memory come before a second part of ours. With the least memory (see Memory) parts are read and sent in turns.
//
// A body that fits one part is one request (Target.Single), and its buffer is no larger than the body if its size is known.
//
// # All or nothing
//
// The first error (of the body, of a part, the end of the context) stops the parts under way, waits for them, and aborts the upload on
// a context of its own, twice if need be. What Put returns is that first error, with the abort's joined to it. The same happens when
// the body panics; the panic then goes on. A body that is shorter or longer than announced, or of another checksum than
// announced, never becomes an object.
//
// # Answers that were lost
//
// When the last request (Commit, or Single) fails in a way that leaves open whether the store carried it out, Put asks with Target.Find what is
// there now. If it is this upload's object, Put succeeded. If not, the upload is aborted and Find asked once more, since the abort
// itself may have come too late. Only if nobody can tell is the error Ambiguous.
package parts
