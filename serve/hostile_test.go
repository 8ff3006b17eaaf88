package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// Who announces a body and does not send it is answered all the same, and holds its connection no longer than a body may take.
func TestHTTP_ABodyThatDoesNotComeHoldsNoAnswer(t *testing.T) {
	almost := func(o *Options) { // all but half a second of the time for a body is over
		o.Now = func() time.Time { return time.Now().Add(time.Second/2 - bodyTime) }
	}
	s := open(t, &fake{}, almost)
	if err := s.Check(t.Context()); err != nil { // else it is not ready for the first second
		t.Fatal(err)
	}
	r := start(t, s)
	for _, tc := range []struct {
		line, token string
		status      int
	}{
		{"POST /v1/fetch", "wrong", 403},
		{"GET /v1/health", "", 200},
		{"GET /v1/ready", token, 200},
		{"POST /nowhere", token, 404},
		{"PUT /v1/copies/" + remotelog.NewUUID().String() + "/files/log", token, 404},
		{"POST /v1/delete", token, 408},
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\n\r\n{", tc.line, tc.token); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Errorf("%s: %v", tc.line, err)
			continue
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if _, end := in.ReadByte(); resp.StatusCode != tc.status || err != nil || !errors.Is(end, io.EOF) {
			t.Errorf("%s: %d, %v, then %v; want %d and the end of the connection", tc.line, resp.StatusCode, err, end, tc.status)
		}
	}
}

// What is announced takes no memory before it comes.
func TestHTTP_ABodyThatDoesNotComeTakesNoMemory(t *testing.T) {
	s := open(t, &fake{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		r := request(t, t.Context(), "POST", "/v1/delete", []byte("{"))
		r.ContentLength = maxJSON
		want(t, serveRequest(s, r), 408, KindTimeout)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 20*maxJSON/4 {
		t.Errorf("%d bytes for 20 requests of one byte", got)
	}
}

// The disk of the log directories hangs: copies fail, and the calls do not pile up.
func TestCopy_FilesThatCannotBeOpenedForNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		s := open(t, &fake{})
		s.copies.make = func(c *copies, q *copyRequest, specs [fileKinds]*fileSpec) *copyOp {
			<-answers
			return newCopyOp(c, q, specs)
		}
		seg := newSegment(t, "orders", 100)
		began := time.Now()
		want(t, ask(t, s, "POST", "/v1/copies", seg.body), 503, KindUnavailable)
		if took := time.Since(began); took != openTime {
			t.Errorf("answered after %v", took)
		}
		for range maxOpening - 1 {
			go ask(t, s, "POST", "/v1/copies", newSegment(t, "orders", 100).body)
		}
		synctest.Wait()
		began = time.Now()
		want(t, ask(t, s, "POST", "/v1/copies", seg.body), 503, KindUnavailable)
		if took := time.Since(began); took != 0 {
			t.Errorf("one too many was answered after %v", took)
		}
		time.Sleep(openTime)
		close(answers)
		synctest.Wait()
		if got := s.Stats(); got.CopiesRunning != 0 || len(s.copies.opening) != 0 {
			t.Errorf("%d copies run, %d are being opened, of calls that were answered", got.CopiesRunning, len(s.copies.opening))
		}
		ask(t, s, "POST", "/v1/copies", seg.body)
		if got := finish(t, s, seg); got["state"] != "done" {
			t.Errorf("once the disk answers: %v", got)
		}
	})
}

// The disk of the state hangs: a segment is copied without a note, and a delete is done before the answer, as where the disk is full.
func TestState_ADiskThatHangsHoldsNoCopyAndNoDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		s := open(t, &fake{})
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, j := range []*journal{s.orders, s.orphans} {
			j.write = func(string, []byte) error { <-answers; return nil }
		}
		seg := newSegment(t, "orders", 100)
		began := time.Now()
		ask(t, s, "POST", "/v1/copies", seg.body)
		if got := finish(t, s, seg); got["state"] != "done" || time.Since(began) > 2*diskTime {
			t.Errorf("copy: %v after %v", got, time.Since(began))
		}
		if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 503 || !strings.Contains(w.Body.String(), "does not answer within") {
			t.Errorf("ready: %d %s", w.Code, w.Body)
		}
		began = time.Now()
		q := map[string]any{"segment": seg.wire(), "journal": true}
		if got := stateIn(t, ask(t, s, "POST", "/v1/delete", q)); got != "done" || time.Since(began) != diskTime {
			t.Errorf("delete: %s after %v", got, time.Since(began))
		}
		for range 3 * maxSlow { // these have no thread any more
			go ask(t, s, "POST", "/v1/delete", map[string]any{"segment": someSegment(10).wire(), "journal": true})
		}
		synctest.Wait()
		if got := len(s.orders.slow); got != maxSlow {
			t.Errorf("%d writes go on, want no more than %d", got, maxSlow)
		}
		time.Sleep(diskTime)
		close(answers)
		synctest.Wait()
	})
}

// Calls that hang, with the disk of the state say, are no reason not to read.
func TestCalls_ThoseThatHangLeaveRoomForReads(t *testing.T) {
	s := open(t, &fake{index: func(context.Context, remotelog.SegmentMetadata, remotelog.IndexType) (io.ReadCloser, error) {
		return nil, remotelog.ErrNoIndex
	}})
	s.calls.Store(maxCalls)
	defer s.calls.Store(0)
	q := map[string]any{"segment": someSegment(10).wire()}
	want(t, ask(t, s, "POST", "/v1/delete", q), 503, KindThrottled)
	want(t, ask(t, s, "POST", "/v1/index/offset", q), 404, KindNoIndex)
}

// A file that is sent again when its copy has ended, because an answer was lost, is taken.
func TestCopy_AFileThatComesAfterItsEndIsDropped(t *testing.T) {
	s := open(t, &fake{})
	seg := newSegment(t, "orders", 100_000)
	ask(t, s, "POST", "/v1/copies", seg.body)
	if got := finish(t, s, seg); got["state"] != "done" {
		t.Fatalf("copy: %v", got)
	}
	<-s.copies.ops[seg.md.ID].over
	want(t, ask(t, s, "PUT", seg.path()+"/files/log", seg.log), 204, "")
	want(t, ask(t, s, "PUT", seg.path()+"/files/time-index", []byte{}), 204, "")
}

// The result of a delete that nobody was told says nothing about a copy that was made since.
func TestDelete_AResultFromBeforeACopyIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deletes := 0
		s := open(t, &fake{delete: func(context.Context, remotelog.SegmentMetadata) error { deletes++; return nil }})
		seg := newSegment(t, "orders", 100)
		q := map[string]any{"segment": seg.wire()}
		gone, leave := context.WithCancel(t.Context())
		leave()
		askContext(t, gone, s, "POST", "/v1/delete", q)
		synctest.Wait()
		first := deletes
		ask(t, s, "POST", "/v1/copies", seg.body)
		if got := finish(t, s, seg); got["state"] != "done" {
			t.Fatalf("copy: %v", got)
		}
		q["waitMs"] = 400
		if got := stateIn(t, ask(t, s, "POST", "/v1/delete", q)); got != "done" || first != 1 || deletes != 2 {
			t.Errorf("%s after %d and %d deletes, want one before the copy and one after it", got, first, deletes)
		}
	})
}

// What a copy left is cleaned up also if the note about it could not be written: a disk that is full is when copies fail.
func TestCopy_WhatIsLeftBehindIsCleanedUpWithoutANote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		left := newSegment(t, "orders", 100)
		s := open(t, &fake{
			copy: func(context.Context, remotelog.SegmentMetadata, remotelog.SegmentData) (remotelog.CustomMetadata, error) {
				return nil, fmt.Errorf("disk: %w: %w", io.ErrUnexpectedEOF, rsm.ErrLeftBehind)
			},
			clean: func(_ context.Context, md remotelog.SegmentMetadata) error {
				if tries.Add(1); md.ID != left.md.ID || md.Topic != "orders" {
					t.Errorf("clean up of %v", md)
				}
				if tries.Load() < 3 {
					return errors.New("the store is away")
				}
				return nil
			},
		})
		if err := errors.Join(os.RemoveAll(s.state.copies), os.WriteFile(s.state.copies, nil, 0o600)); err != nil { // no directory any more
			t.Fatal(err)
		}
		ask(t, s, "POST", "/v1/copies", left.body)
		synctest.Wait()
		if err := errors.Join(os.Remove(s.state.copies), os.Mkdir(s.state.copies, 0o700)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // 1 + 2 s of pauses
		if tries.Load() != 3 || s.Stats().Orphans != 0 {
			t.Errorf("%d tries, %d left, want 3 and none", tries.Load(), s.Stats().Orphans)
		}
	})
}

// A directory that could not be read once is read again, although it does not change.
func TestJournal_ADirectoryThatCouldNotBeReadIsReadAgain(t *testing.T) {
	dir := t.TempDir() + "/deletes"
	old := fixedNow()
	j := newJournal(&journal{dir: dir, now: func() time.Time { return old.Add(time.Hour) }})
	if err := errors.Join(os.WriteFile(dir, nil, 0o600), os.Chtimes(dir, old, old)); err != nil { // cannot be listed
		t.Fatal(err)
	}
	if err := j.scan(); err == nil {
		t.Fatal("no error for what is no directory")
	}
	md := someMetadata()
	seg, err := json.Marshal(segmentjson.Of(&md))
	if err != nil {
		t.Fatal(err)
	}
	order := fmt.Appendf(nil, `{"version":1,"segment":%s}`, seg)
	if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o700), os.WriteFile(j.path(md.ID), order, 0o600), os.Chtimes(dir, old, old)); err != nil {
		t.Fatal(err)
	}
	if err := j.scan(); err != nil || j.orders[md.ID] == nil {
		t.Errorf("%v, %d orders, want the one that is there", err, len(j.orders))
	}
}

// A call that panics leaves nobody waiting behind it.
func TestFetch_APanicLeavesNobodyWaiting(t *testing.T) {
	s := open(t, &fake{fetch: func(context.Context, remotelog.SegmentMetadata, int64, int64) (io.ReadCloser, error) {
		panic("of the test")
	}})
	seg := someSegment(10)
	if w := ask(t, s, "POST", "/v1/fetch", map[string]any{"segment": seg.wire(), "start": 0}); w.Code != brokenOff {
		t.Errorf("answer %d %s", w.Code, w.Body)
	}
	if n := len(s.waits.at); n != 0 {
		t.Errorf("%d places are waited for", n)
	}
}

// Somebody clears the state directory under a running daemon: files that are sent have a place again, as orders have.
func TestCopy_ASpoolThatWasRemovedIsMadeAgain(t *testing.T) {
	s := open(t, &fake{}, func(o *Options) { o.DeriveLogDirs = false })
	if err := os.RemoveAll(s.o.StateDir); err != nil {
		t.Fatal(err)
	}
	seg := newSegment(t, "orders", 1000)
	if got := stateIn(t, ask(t, s, "POST", "/v1/copies", seg.body)); got != "wants" {
		t.Fatalf("the copy is %q, want wants", got)
	}
	for name, data := range map[string][]byte{"log": seg.log, "offset-index": []byte("offsets"), "time-index": {}, "producer-snapshot": []byte("producers")} {
		want(t, ask(t, s, "PUT", seg.path()+"/files/"+name, data), 204, "")
	}
	if got := finish(t, s, seg); got["state"] != "done" {
		t.Errorf("copy: %v", got)
	}
}
