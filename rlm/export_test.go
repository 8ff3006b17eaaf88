package rlm

import (
	"testing"

	"github.com/tierkit/tierkit/internal/golden"
)

// What the tests over the real managers share with those over fakes.

// SameRecord compares a record with the truth.
func SameRecord(w golden.Record, rec Record) error { return same(w, rec) }

// CheckTimestamps compares with Kafka's ListOffsets answers.
func CheckTimestamps(t testing.TB, v *View, truth *golden.Truth, last int64) {
	checkTimestamps(t, v, truth, last)
}

// CommittedEnd is the last offset that read_committed shows of a golden partition.
func CommittedEnd(name string, active bool, end int64) int64 {
	e, ok := committedEnd[name]
	switch {
	case !ok:
		return end
	case active:
		return e.all
	default:
		return e.closed
	}
}
