// Package serve is the daemon beside a broker: the operations of a storage manager over HTTP, for a plug-in in the broker that does
// nothing but ask. docs/api.md is its API; this package is what a broker's ways of asking demand behind it.
//
// # Copies
//
// A copy is an operation named by its segment id, with a result that is kept, so that a lost answer never copies twice. Files of the
// segment are opened where they are if they are provably the same there, else they are sent. One that runs is remembered on disk: what
// a killed daemon left in the store is removed at its next start, unless the segment is whole.
//
// # Fetches
//
// The status of an answer waits for the first bytes; an error after that breaks the connection: there are never fewer bytes than were
// announced. A call that waits for bytes that another waits for already gives up early, and what failed just now fails
// again without the store being asked, because brokers ask again at once, on another of their few threads.
//
// # Deletes
//
// An order to delete is on disk before it is answered where the caller cannot wait, and is worked off until it is done.
//
// # State
//
// What is kept lies in a locked directory of the broker's below tierkit.state.dir: deletes, copies, spool. Everything in it is
// written so that a crash at any moment leaves it whole.
//
// # Errors
//
// Every error that leaves has a kind of a closed set: [Kinds]. A missing segment is told from a wrong path, a foreign server, a
// missing bucket.
package serve
