package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// piece is what one Read of a stream does.
type piece struct {
	after time.Duration
	bytes int
	err   error
}

// scripted is a stream of pieces that ends with its context.
type scripted struct {
	ctx    context.Context
	pieces []piece
	closed *atomic.Int64
}

func (s *scripted) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	next := s.pieces[0]
	t := time.NewTimer(next.after)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
	if next.err != nil {
		return 0, next.err
	}
	n := min(next.bytes, len(p))
	clear(p[:n])
	if s.pieces[0].bytes -= n; s.pieces[0].bytes == 0 {
		s.pieces = s.pieces[1:]
	}
	s.pieces = append([]piece(nil), s.pieces...)
	if len(s.pieces) > 0 && n < next.bytes {
		s.pieces[0].after = 0
	}
	return n, nil
}

func (s *scripted) Close() error { s.closed.Add(1); return nil }

// reader is a manager whose fetches are scripted.
type reader struct {
	fake
	opened, closed atomic.Int64
	script         func(call int64, md remotelog.SegmentMetadata, start int64) (time.Duration, []piece, error)
}

func newReader(script func(call int64, md remotelog.SegmentMetadata, start int64) (time.Duration, []piece, error)) *reader {
	r := &reader{script: script}
	r.fake.fetch = func(ctx context.Context, md remotelog.SegmentMetadata, start, _ int64) (io.ReadCloser, error) {
		after, pieces, err := r.script(r.opened.Add(1), md, start)
		t := time.NewTimer(after)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		return &scripted{ctx: ctx, pieces: pieces, closed: &r.closed}, nil
	}
	return r
}

func someSegment(size int64) *stored {
	seg := &stored{md: remotelog.SegmentMetadata{
		EndOffset: 41, LeaderEpochs: []remotelog.LeaderEpoch{{}}, SizeBytes: size, State: remotelog.CopySegmentFinished,
	}}
	seg.md.Topic, seg.md.TopicID, seg.md.ID = "orders", remotelog.NewUUID(), remotelog.NewUUID()
	return seg
}

func (seg *stored) fetch(start, end int64) map[string]any {
	return map[string]any{"segment": seg.wire(), "start": start, "end": end}
}

func TestFetch_ASlowRangeHoldsOneCallAndNotAllReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 3 * time.Second
		r := newReader(func(int64, remotelog.SegmentMetadata, int64) (time.Duration, []piece, error) {
			return 0, []piece{{after: slow, bytes: 1000}}, nil
		})
		s := open(t, r)
		seg := someSegment(1000)
		var wg sync.WaitGroup
		took := make([]time.Duration, 20)
		answers := make([]*httptest.ResponseRecorder, 20)
		for i := range took {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				began := time.Now()
				answers[i] = ask(t, s, "POST", "/v1/fetch", seg.fetch(0, 999))
				took[i] = time.Since(began)
			})
		}
		wg.Wait()
		if answers[0].Code != 200 || answers[0].Body.Len() != 1000 || took[0] != slow {
			t.Errorf("first: %d, %d bytes after %v", answers[0].Code, answers[0].Body.Len(), took[0])
		}
		for i := 1; i < len(took); i++ {
			if want(t, answers[i], 503, KindLate); took[i] != joinerPatience {
				t.Errorf("call %d was late after %v, want %v", i, took[i], joinerPatience)
			}
		}
		if n := s.Stats().Late; n != 19 {
			t.Errorf("%d late, want 19", n)
		}
		// A joiner that comes soon enough has its bytes: nothing is left of those who were late.
		began := time.Now()
		r.script = func(int64, remotelog.SegmentMetadata, int64) (time.Duration, []piece, error) {
			return 0, []piece{{after: time.Until(began.Add(time.Second)), bytes: 1000}}, nil
		}
		wg.Go(func() { answers[0] = ask(t, s, "POST", "/v1/fetch", seg.fetch(0, 999)) })
		wg.Go(func() {
			time.Sleep(700 * time.Millisecond)
			answers[1] = ask(t, s, "POST", "/v1/fetch", seg.fetch(0, 999))
		})
		wg.Wait()
		if answers[0].Code != 200 || answers[1].Code != 200 {
			t.Errorf("first %d, joiner %d", answers[0].Code, answers[1].Code)
		}
	})
}

func TestFetch_WhenTheFirstLeavesTheNextWaitsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(func(int64, remotelog.SegmentMetadata, int64) (time.Duration, []piece, error) {
			return 0, []piece{{after: 3 * time.Second, bytes: 1000}}, nil
		})
		s := open(t, r)
		seg := someSegment(1000)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { askContext(t, ctx, s, "POST", "/v1/fetch", seg.fetch(0, 999)) })
		synctest.Wait()
		var second, third *httptest.ResponseRecorder
		wg.Go(func() { second = ask(t, s, "POST", "/v1/fetch", seg.fetch(0, 999)) })
		synctest.Wait()
		time.Sleep(200 * time.Millisecond)
		cancel()
		synctest.Wait()
		wg.Go(func() { third = ask(t, s, "POST", "/v1/fetch", seg.fetch(10, 999)) })
		wg.Wait()
		want(t, second, 200, "")
		want(t, third, 503, KindLate)
		if r.opened.Load() != 3 || r.closed.Load() != 3 {
			t.Errorf("%d streams opened, %d closed, want 3", r.opened.Load(), r.closed.Load())
		}
	})
}

func TestFetch_OtherRangesAndSegmentsDoNotWaitForOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(func(int64, remotelog.SegmentMetadata, int64) (time.Duration, []piece, error) {
			return 0, []piece{{after: 2 * time.Second, bytes: 1000}}, nil
		})
		s := open(t, r, func(o *Options) { o.ChunkBytes = 1000 })
		seg, other := someSegment(10_000), someSegment(10_000)
		var wg sync.WaitGroup
		for _, q := range []map[string]any{seg.fetch(0, 999), seg.fetch(1000, 1999), other.fetch(0, 999)} {
			wg.Go(func() { want(t, ask(t, s, "POST", "/v1/fetch", q), 200, "") })
		}
		wg.Wait()
	})
}

// The second chunk of a window is slow: whoever already has the first one must not hold a reader either.
func TestFetch_AJoinerIsLateInTheMiddleToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(func(int64, remotelog.SegmentMetadata, int64) (time.Duration, []piece, error) {
			return 0, []piece{{bytes: 1000}, {after: 2 * time.Second, bytes: 1000}}, nil
		})
		s := open(t, r, func(o *Options) { o.ChunkBytes = 1000 })
		seg := someSegment(10_000)
		var wg sync.WaitGroup
		wg.Go(func() {
			if w := ask(t, s, "POST", "/v1/fetch", seg.fetch(0, 1999)); w.Code != 200 || w.Body.Len() != 2000 {
				t.Errorf("first: %d, %d bytes", w.Code, w.Body.Len())
			}
		})
		synctest.Wait()
		began := time.Now()
		w := ask(t, s, "POST", "/v1/fetch", seg.fetch(0, 1999))
		if w.Code != brokenOff || w.Body.Len() != 1000 || time.Since(began) != joinerPatience {
			t.Errorf("joiner: %d, %d bytes after %v", w.Code, w.Body.Len(), time.Since(began))
		}
		wg.Wait()
	})
}

func TestFetch_WhatEndsEarlyIsNeverAnAnswer(t *testing.T) {
	bad := errors.New("a wrong byte")
	for name, tc := range map[string]struct {
		openErr error
		pieces  []piece
		code    int
		kind    Kind
	}{
		"fails at its opening":     {openErr: fmt.Errorf("%w: gone", remotelog.ErrNotFound), code: 404, kind: KindNotFound},
		"fails at its first bytes": {pieces: []piece{{err: fmt.Errorf("%w: %w", remotelog.ErrCorrupt, bad)}}, code: 500, kind: KindCorrupt},
		"is empty":                 {code: 500, kind: KindFailed},
		"is short":                 {pieces: []piece{{bytes: 999}}, code: brokenOff},
		"fails later":              {pieces: []piece{{bytes: 10}, {err: bad}}, code: brokenOff},
		"is whole":                 {pieces: []piece{{bytes: 10}, {bytes: 990}}, code: 200},
		"is longer":                {pieces: []piece{{bytes: 2000}}, code: 200},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newReader(func(int64, remotelog.SegmentMetadata, int64) (time.Duration, []piece, error) {
				return 0, append([]piece(nil), tc.pieces...), tc.openErr
			})
			s := open(t, r)
			w := ask(t, s, "POST", "/v1/fetch", someSegment(5000).fetch(0, 999))
			if w.Code != tc.code {
				t.Errorf("%s: answer %d %.100s, want %d", name, w.Code, w.Body, tc.code)
			}
			if tc.kind != "" {
				want(t, w, tc.code, tc.kind)
			}
			if tc.code == 200 && w.Body.Len() != 1000 {
				t.Errorf("%s: %d bytes, want 1000", name, w.Body.Len())
			}
			if tc.openErr == nil && r.closed.Load() != 1 {
				t.Errorf("%s: closed %d times", name, r.closed.Load())
			}
		})
	}
}

func TestFetch_AStoreThatHangsEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(func(call int64, _ remotelog.SegmentMetadata, _ int64) (time.Duration, []piece, error) {
			if call == 1 {
				return time.Hour, nil, nil
			}
			return 0, []piece{{bytes: 10}, {after: time.Hour, bytes: 990}}, nil
		})
		s := open(t, r)
		began := time.Now()
		want(t, ask(t, s, "POST", "/v1/fetch", someSegment(1000).fetch(0, 999)), 504, KindTimeout)
		if w := ask(t, s, "POST", "/v1/fetch", someSegment(1000).fetch(0, 999)); w.Code != brokenOff {
			t.Errorf("in the middle: %d", w.Code)
		}
		if took := time.Since(began); took != 2*longCall {
			t.Errorf("took %v", took)
		}
	})
}

// Ten readers ask for a failing range without a pause, as a broker does, for ten seconds.
func TestFailures_TheStoreGetsFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(func(int64, remotelog.SegmentMetadata, int64) (time.Duration, []piece, error) {
			return 5 * time.Millisecond, nil, fmt.Errorf("%w: gone", remotelog.ErrNotFound)
		})
		s := open(t, r)
		seg := someSegment(1000)
		until := time.Now().Add(10 * time.Second)
		var holding, most, calls atomic.Int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for time.Now().Before(until) {
					began := time.Now()
					holding.Add(1)
					want(t, ask(t, s, "POST", "/v1/fetch", seg.fetch(0, 999)), 404, KindNotFound)
					holding.Add(-1)
					calls.Add(1)
					took := time.Since(began)
					if took > heldFor {
						t.Errorf("an answer took %v", took)
					}
					if took == 0 {
						time.Sleep(4 * time.Millisecond) // the way through broker and network
					}
				}
			})
		}
		wg.Go(func() { // how many are held, now and then
			for time.Now().Before(until) {
				time.Sleep(7 * time.Millisecond)
				synctest.Wait()
				most.Store(max(most.Load(), holding.Load()))
			}
		})
		wg.Wait()
		st := s.Stats()
		t.Logf("%d calls, %d opened at the store, %d held", calls.Load(), r.opened.Load(), st.FailureHeld)
		if n := r.opened.Load(); n > 20 {
			t.Errorf("the store was asked %d times in 10 s, want a few", n)
		}
		if calls.Load() < 5_000 || st.FailureHeld > 2*51 || most.Load() > maxHeld+1 {
			t.Errorf("%d calls, %d held in all, at most %d at a time", calls.Load(), st.FailureHeld, most.Load())
		}
		if st.FailureEntries != 1 || st.FailureAnswers < calls.Load()-20 {
			t.Errorf("%+v", st)
		}
	})
}

// A client that slows its asking down itself is answered at once, and told for how long it need not ask.
func TestFailures_AClientMayHoldThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(func(int64, remotelog.SegmentMetadata, int64) (time.Duration, []piece, error) {
			return 0, nil, fmt.Errorf("%w: gone", remotelog.ErrNotFound)
		})
		s := open(t, r)
		seg := someSegment(1000)
		call := func() int64 {
			q := request(t, t.Context(), "POST", "/v1/fetch", seg.fetch(0, 999))
			q.Header.Set("Tierkit-Holds", "client")
			w := serveRequest(s, q)
			want(t, w, 404, KindNotFound)
			var a struct{ Error problem }
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
				t.Fatal(err)
			}
			return a.Error.RetryAfterMs
		}
		began := time.Now()
		for _, want := range []time.Duration{100, 60, 200, 150} {
			if got := call(); got != int64(want) {
				t.Errorf("after %v: not before %d ms, want %d", time.Since(began), got, want)
			}
			time.Sleep(map[time.Duration]time.Duration{100: 40, 60: 60, 200: 50}[want] * time.Millisecond)
		}
		if took := time.Since(began); took != 150*time.Millisecond {
			t.Errorf("four answers took %v: they were held", took)
		}
		if n := r.opened.Load(); n != 2 {
			t.Errorf("the store was asked %d times, want 2", n)
		}
	})
}

func TestFailures_DoubleAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		failing.Store(true)
		r := newReader(func(int64, remotelog.SegmentMetadata, int64) (time.Duration, []piece, error) {
			if failing.Load() {
				return 0, []piece{{err: errors.New("no")}}, nil
			}
			return 0, []piece{{bytes: 1000}}, nil
		})
		s := open(t, r)
		seg := someSegment(1000)
		call := func() int { return ask(t, s, "POST", "/v1/fetch", seg.fetch(0, 999)).Code }
		call()
		for _, delay := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			delay *= time.Millisecond
			opened := r.opened.Load()
			time.Sleep(delay/2 - time.Millisecond)
			began := time.Now()
			if call(); r.opened.Load() != opened || time.Since(began) != heldFor {
				t.Errorf("within %v the store was asked, or the answer not held", delay)
			}
			time.Sleep(delay - delay/2 - heldFor + time.Millisecond)
			if call(); r.opened.Load() != opened+1 {
				t.Errorf("after %v the store was not asked", delay)
			}
		}
		failing.Store(false)
		time.Sleep(lastFailure)
		if code := call(); code != 200 || s.Stats().FailureEntries != 0 {
			t.Errorf("the store is well: %d, %d entries", code, s.Stats().FailureEntries)
		}
		failing.Store(true)
		call()
		opened := r.opened.Load()
		time.Sleep(100 * time.Millisecond)
		if call(); r.opened.Load() != opened+1 {
			t.Error("a new failure begins with the longest delay")
		}
		// A delete says that what was known is of no use.
		failing.Store(false)
		ask(t, s, "POST", "/v1/delete", map[string]any{"segment": seg.wire(), "waitMs": 400})
		if code := call(); code != 200 {
			t.Errorf("after a delete: %d", code)
		}
	})
}

func TestFailures_AreNotOfTheCallsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{index: func(ctx context.Context, _ remotelog.SegmentMetadata, it remotelog.IndexType) (io.ReadCloser, error) {
			if it == remotelog.TransactionIndex {
				return nil, fmt.Errorf("%w: none", remotelog.ErrNoIndex)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		s := open(t, f)
		seg := someSegment(1000)
		body := map[string]any{"segment": seg.wire()}
		for range 3 {
			began := time.Now()
			want(t, ask(t, s, "POST", "/v1/index/transaction", body), 404, KindNoIndex)
			if took := time.Since(began); took != 0 {
				t.Errorf("a missing transaction index took %v: it is no failure", took)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { askContext(t, ctx, s, "POST", "/v1/index/offset", body) })
		synctest.Wait()
		want(t, ask(t, s, "POST", "/v1/index/offset", body), 503, KindLate)
		cancel()
		wg.Wait()
		if n := s.Stats().FailureEntries; n != 0 {
			t.Errorf("%d entries of callers that left or were late", n)
		}
		want(t, ask(t, s, "POST", "/v1/index/nothing", body), 404, KindUnknownPath)
	})
}

// A segment that is asked for under another topic is another one: that it is not there says nothing about the right one.
func TestFailures_BelongToTheWholeNameOfASegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seg, wrong := someSegment(1000), someSegment(1000)
		wrong.md.ID = seg.md.ID
		r := newReader(func(_ int64, md remotelog.SegmentMetadata, _ int64) (time.Duration, []piece, error) {
			if md.TopicID != seg.md.TopicID {
				return 0, nil, fmt.Errorf("%w: no such topic", remotelog.ErrNotFound)
			}
			return 0, []piece{{bytes: 1000}}, nil
		})
		s := open(t, r)
		want(t, ask(t, s, "POST", "/v1/fetch", wrong.fetch(0, 999)), 404, KindNotFound)
		want(t, ask(t, s, "POST", "/v1/fetch", seg.fetch(0, 999)), 200, "")
	})
}

func TestFailures_AreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	f := newFailures(func() time.Time { return now }, new(counts))
	fail := func(id byte, i int) {
		ended, err := f.try(place{segment: remotelog.SegmentID{ID: remotelog.UUID{id}}, stretch: int64(i)})
		if err != nil {
			t.Fatal(err)
		}
		if err := ended(errors.New("no")); err == nil {
			t.Fatal("a failure is none any more")
		}
	}
	for i := range maxFailures + 100 {
		fail(1, i)
	}
	if n := f.entries(); n != maxFailures {
		t.Errorf("%d entries, want %d", n, maxFailures)
	}
	now = now.Add(time.Second)
	fail(2, 0)
	if n := f.entries(); n != 1 {
		t.Errorf("%d entries after those that say nothing any more went, want 1", n)
	}
}

func TestRead_GivesUpOnAReaderOfNothing(t *testing.T) {
	if _, err := read(bytes.NewReader(nil), make([]byte, 1)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("end: %v", err)
	}
	if _, err := read(nothing{}, make([]byte, 1)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("nothing: %v", err)
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }
