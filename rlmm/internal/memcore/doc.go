// Package memcore is the event log in memory below memlog, and below memlogtest, which adds the faults that a real log has:
// a head that retention removed, truncation after an unclean leader election, offsets without events.
package memcore
