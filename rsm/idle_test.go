package rsm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// smallest is a rig with the smallest legal budget.
func smallest(t testing.TB, c Config) *rig {
	t.Helper()
	c.MemoryBudgetBytes = MinBudgetBytes(c, newRig(t, c).Store())
	return newRig(t, c)
}

// ends fails the test when f has not returned after a time that only a hang can take, and says where it hangs.
func ends(t *testing.T, r *rig, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if err := f(ctx); err != nil {
		t.Fatalf("%v; budget %+v, manifests %+v", err, r.budget.Stats(), r.manifests.cache.Stats())
	}
}

// roundRobin reads a stream of each segment, a piece of each in turn, on one goroutine.
func roundRobin(ctx context.Context, r *rig, mds []remotelog.SegmentMetadata, logs [][]byte, piece int) error {
	streams := make([]io.ReadCloser, len(mds))
	defer func() {
		for _, s := range streams {
			if s != nil {
				_ = s.Close()
			}
		}
	}()
	for i, md := range mds {
		var err error
		if streams[i], err = r.Fetch(ctx, md, 0, remotelog.ToEnd); err != nil {
			return fmt.Errorf("open stream %d: %w", i, err)
		}
	}
	buf := make([]byte, piece)
	for at := 0; at < len(logs[0]); at += piece {
		for i, s := range streams {
			want := logs[i][at:min(at+piece, len(logs[i]))]
			if _, err := io.ReadFull(s, buf[:len(want)]); err != nil {
				return fmt.Errorf("stream %d at %d: %w", i, at, err)
			}
			if !bytes.Equal(buf[:len(want)], want) {
				return fmt.Errorf("stream %d at %d: wrong bytes", i, at)
			}
		}
	}
	return nil
}

func segments(t testing.TB, r *rig, n, size int) (mds []remotelog.SegmentMetadata, logs [][]byte) {
	t.Helper()
	for i := range n {
		md, data, log := segmentOf(uint64(2000+i), size)
		mds, logs = append(mds, r.mustCopy(t, md, data)), append(logs, log)
	}
	return mds, logs
}

func TestFetch_SixtyFourStreamsReadInTurnInTheSmallestBudget(t *testing.T) {
	for name, conf := range transforms(16 << 10) {
		t.Run(name, func(t *testing.T) {
			r := smallest(t, conf)
			mds, logs := segments(t, r, 64, 40_000)
			ends(t, r, func(ctx context.Context) error { return roundRobin(ctx, r, mds, logs, 9_000) })
		})
	}
}

// Manifests of open streams were charged for as long as the streams were open: several hundred of them left no memory for any load.
func TestFetch_HundredsOfIdleStreamsKeepNoLoadWaiting(t *testing.T) {
	r := smallest(t, Config{ChunkBytes: 100, Compression: true, Encryption: true})
	const streams = 400
	mds, logs := segments(t, r, streams, 20_000)
	for i := range logs {
		logs[i] = logs[i][:2000] // the beginning of each is enough
	}
	ends(t, r, func(ctx context.Context) error { return roundRobin(ctx, r, mds, logs, 1000) })
	// And while they are open and idle, whatever a fetch may need can be had.
	ends(t, r, func(ctx context.Context) error {
		for i, md := range mds {
			s, err := r.Fetch(ctx, md, 0, remotelog.ToEnd)
			if err != nil {
				return fmt.Errorf("open stream %d: %w", i, err)
			}
			defer s.Close()
			if _, err := io.ReadFull(s, make([]byte, 10)); err != nil {
				return fmt.Errorf("stream %d: %w", i, err)
			}
		}
		// What is there at the moment says nothing: a load may just have taken it back.
		have := r.manifests.cache.Stats()
		each := (have.Bytes + have.ReclaimedBytes) / (int64(have.Entries) + int64(have.Reclaimed))
		if each*streams < r.budget.Ceiling(membudget.Fetch) {
			return fmt.Errorf("%+v: the manifests are too small for the test to show anything", have)
		}
		res, err := r.budget.Reserve(ctx, membudget.Fetch, r.budget.Ceiling(membudget.Fetch))
		if err != nil {
			return fmt.Errorf("reserve all there is: %w", err)
		}
		res.Release()
		return nil
	})
}

// A stream whose manifest was given back loads it again, and stays with the copy that it began with.
func TestFetch_AManifestGivenBackIsLoadedAgain(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, log := segmentOf(47, 5_000)
	fin := r.mustCopy(t, md, data)
	open := func() io.ReadCloser {
		t.Helper()
		s, err := r.Fetch(t.Context(), fin, 0, remotelog.ToEnd)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	giveBack := func() {
		t.Helper()
		res, err := r.budget.Reserve(t.Context(), membudget.Fetch, r.budget.Ceiling(membudget.Fetch))
		if err != nil {
			t.Fatal(err)
		}
		res.Release()
		if n := r.manifests.cache.Stats().Entries; n != 0 {
			t.Fatalf("%d manifests were not given back", n)
		}
	}
	begun, fresh := open(), open()
	if _, err := io.ReadFull(begun, make([]byte, 1500)); err != nil {
		t.Fatal(err)
	}
	giveBack()
	if _, err := io.ReadFull(begun, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	giveBack()
	_, other, otherLog := segmentOf(48, 5_000)
	r.mustCopy(t, md, other)
	if got, err := io.ReadAll(fresh); err != nil || !bytes.Equal(got, otherLog) {
		t.Errorf("a stream that had delivered nothing: %d bytes, %v; want the second copy", len(got), err)
	}
	got, err := io.ReadAll(begun)
	if err == nil || !bytes.Equal(got, log[2500:2500+len(got)]) || len(got) > 500 {
		t.Errorf("a stream in the middle of the first copy: %d bytes, %v; want the rest of its chunk and an error", len(got), err)
	}
	_, _ = begun.Close(), fresh.Close()
}
