package logfiles

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

func kind(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, remotelog.ErrCorrupt) {
		t.Fatalf("error of no kind: %v", err)
	}
}

func FuzzOffsetIndex(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, base, target int64) {
		if base < 0 {
			return
		}
		cut, err := CutOffsetIndex(b, base)
		kind(t, err)
		x, err := ParseOffsetIndex(b, base)
		kind(t, err)
		if err != nil {
			return
		}
		if cut.Len() != x.Len() {
			t.Fatalf("a whole index of %d entries is cut to %d", x.Len(), cut.Len())
		}
		e, ok := x.Lookup(target)
		for i := range x.Len() {
			if w := x.Entry(i); w.Offset <= target && (!ok || w.Offset > e.Offset) || w.Offset < base || w.Position < 0 {
				t.Fatalf("Lookup(%d) = %+v, %v but entry %d is %+v", target, e, ok, i, w)
			}
		}
	})
}

func FuzzTimeIndex(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, base, target int64) {
		_, err := CutTimeIndex(b, base)
		kind(t, err)
		x, err := ParseTimeIndex(b, base)
		kind(t, err)
		e, ok := x.Before(target)
		for i := range x.Len() {
			if w := x.Entry(i); w.TimestampMs < target && (!ok || w.TimestampMs > e.TimestampMs) {
				t.Fatalf("Before(%d) = %+v, %v but entry %d is %+v", target, e, ok, i, w)
			}
		}
	})
}

func FuzzTxnIndex(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		txns, err := ParseTxnIndex(b)
		kind(t, err)
		if err == nil && len(txns)*txnEntrySize != len(b) {
			t.Fatalf("%d entries of %d bytes", len(txns), len(b))
		}
	})
}

func FuzzSnapshot(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		states, err := ParseSnapshot(b)
		kind(t, err)
		if err == nil && !bytes.Equal(MarshalSnapshot(states), b) {
			t.Fatalf("%x does not write back", b)
		}
	})
}

func FuzzLeaderEpochs(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		epochs, err := ParseLeaderEpochs(b)
		kind(t, err)
		if err != nil {
			return
		}
		if back, err := ParseLeaderEpochs(MarshalLeaderEpochs(epochs)); err != nil || !slices.Equal(back, epochs) {
			t.Fatalf("%v reads back as %v, %v", epochs, back, err)
		}
	})
}

func FuzzTextFiles(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := ParseOffsetCheckpoint("checkpoint", b)
		kind(t, err)
		id, err := ParsePartitionMetadata(b)
		kind(t, err)
		if err == nil && id.IsZero() {
			t.Fatal("zero topic id accepted")
		}
		n, ok, err := ParseMetaProperties(b)
		kind(t, err)
		if ok && n < 0 {
			t.Fatalf("broker id %d", n)
		}
	})
}
