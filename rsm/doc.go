// Package rsm is the RemoteStorageManager of Kafka tiered storage: it moves the bytes of segments between a broker and an object
// store, in the format of Aiven's plug-in.
//
// # Copy
//
// A segment becomes three objects: .log, .indexes and, last, .rsm-manifest. The manifest is the commit point: before it exists the
// segment does not, so a crash leaves orphans and never half a segment. The .log is encoded from the first moment on, while the store
// is asked for an earlier manifest, and the .indexes are stored beside it where the budget has the memory at once. Sizes are checked
// three times: the file against the metadata, the bytes encoded against the file, the bytes stored against the bytes encoded. A copy
// that fails ends what is on its way and then removes what it stored, on a context of its own, and the error says if it could not.
//
// # Fetch
//
// A fetch maps positions of the .log file to chunks. Chunks that are not in the cache are read with one request for neighbours,
// decoded in parallel while they arrive, and kept. No chunk is fetched twice at the same time, whoever asks for it. A stream
// loads lazily: what is read, and more ahead the longer it is read in order. Closing it early costs no more than what is
// on the wire, and stops that if nobody else wants it.
//
// # Read-ahead
//
// A broker opens a stream for each MiB that it serves, open-ended, on whichever thread is free, a little before the end of the last one,
// and closes it when it has its MiB; a fetch that was too slow it makes again. So who reads in order is known by what is read, not by
// who calls. A scan is such a reader: the segment, where its last fetch began, and what it was given, some of which may have been
// sent in vain. A fetch that begins in the last 8 MiB of that, but not before the last one, goes on with the scan; any other is a new one. A scan that has come to the end of its
// segment goes on, with all that is known of it, in the one whose first offset follows its last: at the first fetch there, or already
// when the offset index is asked for, which a broker does three requests earlier. The scans used last are remembered, 256 of them. A fetch
// may come in several requests, each where the one before it ended.
//
// What should be ahead of a scan does not end with its segment. Nobody names the next one beforehand, but its keys begin with its first
// offset: a listing of that prefix finds it, one for each segment that is read to its end. Its manifest, its indexes and its first
// chunks are then there when the reader comes. Where listing is denied nothing is known before the indexes are asked for.
//
// How much is loaded ahead of a scan is the least of
//   - four times what it has read in order: a reader that leaves has wasted no more than that, and a quick one is at full depth after
//     five chunks;
//   - one request (fetch.request.max.bytes) and what the reader reads while one and a half requests are answered. Both are measured: its
//     speed without the time that it waited for chunks, and the time from request to last chunk, where a longer one counts at once and
//     shorter ones bit by bit. So a slow reader has one request ahead, and a quick reader of a distant store as many as it takes;
//   - its share of fetch.readahead.max.bytes, which is at most three quarters of the memory tier: scans that have something ahead share
//     it evenly. If chunks were driven out before they were read, or there was no memory for them, it is less for a while.
//
// A request is made when there is room for a whole one, and several run at a time. A Read that comes to a chunk on its way waits for
// that request. What is not there when it is needed is loaded with a request that brings what follows too. A chunk that its reader has
// passed is the first to leave the cache, so that what is read does not drive out what will be.
//
// Memory for it is of class Ahead: what nobody wants, never from caches. A load that somebody waits for and that finds none makes all
// requests go that nobody waits for. When the last stream of a scan is closed, nothing new is asked for; what is on its way is
// given up 2 seconds later if no other fetch went on, and at once if none ever did: a command that reads a part and leaves. With the
// cache switched off nothing is loaded ahead.
//
// # Caches
//
// Decoded chunks, indexes and manifests are kept in memory (package cache). Below the chunks lies a tier on disk if [Config] names a directory
// (package cache/disk): it has chunks as they are stored. A load looks once which chunks of its run are there, reads those, and asks the
// store for each run of others with one request. What comes from the store goes to disk once it was decoded, on a goroutine that nobody waits
// for. A chunk on disk is verified twice, with its entry's checksum and with whatever verifies a chunk from the store; one that does not decode
// is dropped and fetched again, and only what the store has can be ErrCorrupt. A chunk is known by the key and the bytes of its segment's
// manifest and by its number, in both tiers; Copy and Delete drop all that belongs to the key. [Manager.CacheStats] says how they do.
//
// # Memory
//
// Every buffer comes from one membudget.Budget. A copy reserves once; a load reserves two chunks and takes more only while
// nobody waits for it; a stream holds nothing between two Reads that a load could not take, but
// for a moment the chunk that it has just waited for: else many streams in little memory would take the chunk from each other. [Needs] says what the budget must have.
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
