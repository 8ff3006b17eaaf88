package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// blocked is a copy that goes on until it is cancelled or let go.
type blocked struct {
	fake
	begun  atomic.Int64
	letGo  chan struct{}
	result error
}

func newBlocked() *blocked {
	b := &blocked{letGo: make(chan struct{})}
	b.fake.copy = func(ctx context.Context, _ remotelog.SegmentMetadata, _ remotelog.SegmentData) (remotelog.CustomMetadata, error) {
		b.begun.Add(1)
		select {
		case <-b.letGo:
			return remotelog.CustomMetadata("kept"), b.result
		case <-ctx.Done():
			return nil, fmt.Errorf("copy: %w", ctx.Err())
		}
	}
	return b
}

func TestCopy_ResultIsKeptAndNothingIsCopiedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		s := open(t, b)
		seg := newSegment(t, "orders", 100)
		for range 3 { // answers that were lost
			if got := stateIn(t, ask(t, s, "POST", "/v1/copies", seg.body)); got != "running" {
				t.Fatalf("state %s, want running", got)
			}
		}
		close(b.letGo)
		synctest.Wait()
		for _, w := range []string{"POST", "GET", "POST", "GET"} {
			path, body := "/v1/copies", any(seg.body)
			if w == "GET" {
				path, body = seg.path(), nil
			}
			got := ask(t, s, w, path, body)
			if got.Body.String() != `{"state":"done","customMetadata":"a2VwdA=="}` {
				t.Errorf("%s: %s", w, got.Body)
			}
		}
		time.Sleep(keepResult - time.Second)
		if got := stateIn(t, ask(t, s, "GET", seg.path(), nil)); got != "done" {
			t.Errorf("after %v: %s", keepResult-time.Second, got)
		}
		time.Sleep(2 * time.Second)
		want(t, ask(t, s, "GET", seg.path(), nil), 404, KindUnknownOperation)
		if n := b.begun.Load(); n != 1 {
			t.Errorf("copied %d times, want 1", n)
		}
	})
}

func TestCopy_NobodyAsksForHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		s := open(t, b)
		seg := newSegment(t, "orders", 100)
		ask(t, s, "POST", "/v1/copies", seg.body)
		for range 20 { // asking keeps it, however long it takes
			time.Sleep(silence - time.Second)
			if got := stateIn(t, ask(t, s, "GET", seg.path(), nil)); got != "running" {
				t.Fatalf("state %s, want running", got)
			}
		}
		time.Sleep(silence + time.Second)
		if got := stateIn(t, ask(t, s, "GET", seg.path(), nil)); got != "cancelled" {
			t.Errorf("state %s, want cancelled", got)
		}
		// The same for one that waits for files.
		seg = newSegment(t, "orders", 100)
		seg.body["files"].(map[string]any)["log"].(map[string]any)["size"] = 100
		seg.body["files"].(map[string]any)["log"].(map[string]any)["path"] = "/none"
		if got := stateIn(t, ask(t, s, "POST", "/v1/copies", seg.body)); got != "wants" {
			t.Fatalf("state %s, want wants", got)
		}
		// A file on its way is asking, too.
		slow := &slowReader{data: string(seg.log), every: 500 * time.Millisecond} // for longer than silence
		r := request(t, t.Context(), "PUT", seg.path()+"/files/log", nil)
		r.Body, r.ContentLength = io.NopCloser(slow), 100
		w := serveRequest(s, r)
		want(t, w, 204, "")
		if got := stateIn(t, ask(t, s, "GET", seg.path(), nil)); got != "running" {
			t.Errorf("state %s, want running after the file came in %v", got, 50*time.Second)
		}
	})
}

// slowReader gives a byte at a time.
type slowReader struct {
	data  string
	every time.Duration
}

func (r *slowReader) Read(p []byte) (int, error) {
	if r.data == "" {
		return 0, io.EOF
	}
	time.Sleep(r.every)
	n := copy(p[:1], r.data)
	r.data = r.data[n:]
	return n, nil
}

func TestCopy_AsksAreAnsweredWithinHalfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		s := open(t, b)
		seg := newSegment(t, "orders", 100)
		ask(t, s, "POST", "/v1/copies", seg.body)
		for waitMs, atMost := range map[string]time.Duration{"": 0, "100": 100, "400": 400, "9000000000000000000": 450, "-5": 0} {
			began := time.Now()
			ask(t, s, "GET", seg.path()+"?waitMs="+waitMs, nil)
			if took := time.Since(began); took != atMost*time.Millisecond {
				t.Errorf("waitMs=%s took %v, want %v", waitMs, took, atMost*time.Millisecond)
			}
		}
		want(t, ask(t, s, "GET", seg.path()+"?waitMs=x", nil), 400, KindInvalidArgument)
		// The end is told at once.
		time.AfterFunc(100*time.Millisecond, func() { close(b.letGo) })
		began := time.Now()
		if got := stateIn(t, ask(t, s, "GET", seg.path()+"?waitMs=400", nil)); got != "done" || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%s after %v", got, time.Since(began))
		}
	})
}

func TestCopy_Cancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		cleaning := 5 * time.Second
		inner := b.fake.copy
		b.fake.copy = func(ctx context.Context, md remotelog.SegmentMetadata, d remotelog.SegmentData) (remotelog.CustomMetadata, error) {
			c, err := inner(ctx, md, d)
			time.Sleep(cleaning) // what was stored is removed
			return c, err
		}
		s := open(t, b)
		seg := newSegment(t, "orders", 100)
		want(t, ask(t, s, "DELETE", seg.path(), nil), 404, KindUnknownOperation)
		ask(t, s, "POST", "/v1/copies", seg.body)
		synctest.Wait()
		want(t, ask(t, s, "DELETE", seg.path(), nil), 202, "")
		if got := stateIn(t, ask(t, s, "GET", seg.path()+"?waitMs=400", nil)); got != "running" {
			t.Errorf("while it is cleaned up: %s, want running", got)
		}
		time.Sleep(cleaning)
		for range 2 {
			if got := stateIn(t, ask(t, s, "GET", seg.path(), nil)); got != "cancelled" {
				t.Errorf("state %s, want cancelled", got)
			}
			want(t, ask(t, s, "DELETE", seg.path(), nil), 202, "")
		}
	})
}

func TestCopy_DeleteOfItsSegmentEndsItFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		var copying atomic.Bool
		inner := b.fake.copy
		b.fake.copy = func(ctx context.Context, md remotelog.SegmentMetadata, d remotelog.SegmentData) (remotelog.CustomMetadata, error) {
			copying.Store(true)
			defer copying.Store(false)
			return inner(ctx, md, d)
		}
		b.fake.delete = func(context.Context, remotelog.SegmentMetadata) error {
			if copying.Load() {
				t.Error("deleted while it was copied")
			}
			return nil
		}
		s := open(t, b)
		for _, journal := range []bool{false, true} {
			seg := newSegment(t, "orders", 100)
			ask(t, s, "POST", "/v1/copies", seg.body)
			synctest.Wait()
			w := ask(t, s, "POST", "/v1/delete", map[string]any{"segment": seg.wire(), "waitMs": 400, "journal": journal})
			if got := stateIn(t, w); got != map[bool]string{false: "done", true: "journaled"}[journal] {
				t.Errorf("journal=%v: %s", journal, got)
			}
			time.Sleep(time.Minute)
			want(t, ask(t, s, "GET", seg.path(), nil), 404, KindUnknownOperation)
			if n := s.Stats().DeletesJournaled; n != 0 {
				t.Errorf("%d orders left", n)
			}
		}
	})
}

func TestCopy_WhatIsLeftBehindIsCleanedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		b.result = fmt.Errorf("disk: %w: %w", io.ErrUnexpectedEOF, rsm.ErrLeftBehind)
		close(b.letGo)
		var tries atomic.Int64
		var cleaned atomic.Bool
		b.fake.clean = func(context.Context, remotelog.SegmentMetadata) error {
			if tries.Add(1) < 4 {
				return errors.New("the store is away")
			}
			cleaned.Store(true)
			return nil
		}
		s := open(t, b)
		seg := newSegment(t, "orders", 100)
		ask(t, s, "POST", "/v1/copies", seg.body)
		synctest.Wait()
		if got := stateIn(t, ask(t, s, "GET", seg.path(), nil)); got != "failed" {
			t.Fatalf("state %s, want failed", got)
		}
		if n := s.Stats().Orphans; n != 1 {
			t.Errorf("%d interrupted copies, want 1", n)
		}
		time.Sleep(8 * time.Second) // 1 + 2 + 4 s of pauses
		if !cleaned.Load() || s.Stats().Orphans != 0 {
			t.Errorf("cleaned up: %v after %d tries, %d left", cleaned.Load(), tries.Load(), s.Stats().Orphans)
		}
	})
}

func TestCopy_WaitsForTheCleanUpOfItsSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		close(b.letGo)
		var cleaning atomic.Bool
		b.fake.clean = func(context.Context, remotelog.SegmentMetadata) error {
			cleaning.Store(true)
			defer cleaning.Store(false)
			time.Sleep(10 * time.Second)
			return nil
		}
		inner := b.fake.copy
		b.fake.copy = func(ctx context.Context, md remotelog.SegmentMetadata, d remotelog.SegmentData) (remotelog.CustomMetadata, error) {
			if cleaning.Load() {
				t.Error("copied while the copy before was cleaned up: its objects would be removed")
			}
			return inner(ctx, md, d)
		}
		s := open(t, b)
		seg := newSegment(t, "orders", 100)
		// As a copy that left something behind: a note that a scan found first would be left alone for a while.
		if err := errors.Join(s.orphans.claim(t.Context(), seg.md.ID), s.orphans.note(&seg.md)); err != nil {
			t.Fatal(err)
		}
		s.orphans.release(&seg.md)
		synctest.Wait()
		if !cleaning.Load() {
			t.Fatal("no clean-up runs")
		}
		ask(t, s, "POST", "/v1/copies", seg.body)
		time.Sleep(11 * time.Second)
		if got := stateIn(t, ask(t, s, "GET", seg.path(), nil)); got != "done" {
			t.Errorf("state %s, want done", got)
		}
	})
}

func TestCopy_RefusesWhatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlocked()
		s := open(t, b)
		for name, change := range map[string]func(*stored){
			"no segment":       func(g *stored) { delete(g.body, "segment") },
			"state":            func(g *stored) { w := g.wire(); w.State = "COPY_SEGMENT_FINISHED"; g.body["segment"] = w },
			"epochs":           func(g *stored) { w := g.wire(); w.LeaderEpochs = nil; g.body["segment"] = w },
			"no log":           func(g *stored) { delete(g.body["files"].(map[string]any), "log") },
			"no size":          func(g *stored) { delete(g.body["files"].(map[string]any)["log"].(map[string]any), "size") },
			"another size":     func(g *stored) { g.body["files"].(map[string]any)["log"].(map[string]any)["size"] = 7 },
			"negative size":    func(g *stored) { g.body["files"].(map[string]any)["timeIndex"].(map[string]any)["size"] = -1 },
			"size of no index": func(g *stored) { g.body["files"].(map[string]any)["timeIndex"].(map[string]any)["size"] = 1 << 40 },
			"inode":            func(g *stored) { g.body["files"].(map[string]any)["log"].(map[string]any)["inode"] = 1.5 },
			"epochs no base64": func(g *stored) { g.body["leaderEpochs"] = "*" },
		} {
			seg := newSegment(t, "orders", 100)
			change(seg)
			w := ask(t, s, "POST", "/v1/copies", seg.body)
			if w.Code != http.StatusBadRequest || kindIn(t, w) != KindInvalidArgument {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		for _, body := range []string{"", "{", "null", "[]", `{"segment":null}`, `{"segment":{}}`} {
			w := ask(t, s, "POST", "/v1/copies", []byte(body))
			if w.Code != http.StatusBadRequest || kindIn(t, w) != KindInvalidArgument {
				t.Errorf("%q: %d %s", body, w.Code, w.Body)
			}
		}
		seg := newSegment(t, "orders", 1)
		for range maxCopies {
			ask(t, s, "POST", "/v1/copies", seg.body)
			seg.md.ID = remotelog.NewUUID() // another copy of the same files
			seg.body["segment"] = seg.wire()
		}
		want(t, ask(t, s, "POST", "/v1/copies", seg.body), 503, KindThrottled)
		if got := s.Stats().CopiesRunning; got != maxCopies {
			t.Errorf("%d copies run, want %d", got, maxCopies)
		}
	})
}

func TestCopy_CustomMetadataAboveTheLimitAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var size int
		s := open(t, &fake{copy: func(context.Context, remotelog.SegmentMetadata, remotelog.SegmentData) (remotelog.CustomMetadata, error) {
			return make([]byte, size), nil
		}})
		for i, tc := range []struct{ size, tooLong int }{{100, 0}, {128, 0}, {129, 1}, {5, 1}} {
			size = tc.size
			ask(t, s, "POST", "/v1/copies", newSegment(t, "orders", 1).body)
			synctest.Wait()
			if st := s.Stats(); st.CustomTooLong != int64(tc.tooLong) || st.CustomBytes < int64(size) || st.CustomLimit != 128 {
				t.Errorf("%d: %+v", i, st)
			}
		}
	})
}

func TestLongestTopic(t *testing.T) {
	all := rsm.Config{CustomFields: []string{"REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"}, KeyPrefix: "kafka/"}
	got, err := LongestTopic(DefaultMaxCustomBytes, all.CustomBytes)
	if err != nil || got < 10 || got > 60 {
		t.Fatalf("LongestTopic = %d, %v", got, err)
	}
	fits, _ := all.CustomBytes(strings.Repeat("x", got))
	longer, _ := all.CustomBytes(strings.Repeat("x", got+1))
	if fits > 128 || longer <= 128 {
		t.Errorf("%d characters need %d bytes, one more %d", got, fits, longer)
	}
	none := rsm.Config{}
	if got, err := LongestTopic(DefaultMaxCustomBytes, none.CustomBytes); err != nil || got != 249 {
		t.Errorf("without fields: %d, %v", got, err)
	}
}
