// Package memlogtest is a memory log with the faults of real ones, for tests of what is built on rlmm.Log: a head that
// retention removed, truncation with regrowth in another epoch, offsets without events, foreign keys and tombstones, appends
// that fail, hang, or end with an unknown outcome and land later or never.
package memlogtest
