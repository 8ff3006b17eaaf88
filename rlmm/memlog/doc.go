// Package memlog is the event log in memory: metadata for tests and for processes that need none afterwards. Several managers
// on one [Log] see each other's writes, as brokers on one metadata topic do.
//
// Nothing is ever removed: a reader that is slow, or that comes late, finds every event. An Append is never in doubt. Faults
// of real logs are injected by package memlogtest.
package memlog
