// Package rsm is the RemoteStorageManager of Kafka tiered storage: it moves the bytes of segments between a broker and an object
// store, in the format of Aiven's plug-in.
//
// # Copy
//
// A segment becomes three objects: .log, .indexes and, last, .rsm-manifest. The manifest is the commit point: before it exists the
// segment does not, so a crash leaves orphans and never half a segment. Sizes are checked three times: the file against the
// metadata, the bytes encoded against the file, the bytes stored against the bytes encoded. A copy that fails removes what it
// stored, on a context of its own, and the error says if it could not.
//
// # Fetch
//
// A fetch maps positions of the .log file to chunks. Chunks that are not in the cache are read with one request for neighbours,
// decoded in parallel while they arrive, and kept. No chunk is fetched twice at the same time, whoever asks for it. A stream
// loads lazily: what is read, and more at a time the longer it is read in order. Closing it early costs no more than what is
// on the wire, and stops that if nobody else wants it.
//
// # Memory
//
// Every buffer comes from one membudget.Budget. A copy reserves once; a load reserves two chunks and takes more only while
// nobody waits for it; a stream holds nothing between two Reads that a load could not take. [Needs] says what the budget must have.
//
// # Store index
//
// [StoreIndex] answers what is tiered from the manifests alone, for a store whose metadata are elsewhere or lost.
//
// # Errors
//
// Errors match the kinds of package remotelog, with the store's error in the chain: an absent segment is ErrNotFound, an index
// that the segment was stored without is ErrNoIndex, stored bytes that contradict themselves are ErrCorrupt. An object that is
// missing although the manifest names it is ErrCorrupt: to a broker ErrNotFound would mean "no aborted transactions". A missing
// bucket or a denied access is never ErrNotFound. What may pass by itself answers true to remotelog.Retriable. A key pair that
// is not on the ring is a matter of configuration and of no kind (crypto.ErrUnknownKey, crypto.ErrWrongKey), as is a segment too
// large for the budget (membudget.ErrTooLarge).
package rsm
