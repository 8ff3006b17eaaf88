package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/metrics"
	"github.com/tierkit/tierkit/serve"
)

func TestCalls_CountWhatIsAnswered(t *testing.T) {
	c := metrics.NewCalls()
	reg := registry(t, c)
	before := series(t, reg)
	h := c.Hooks()
	h.Call(serve.CallFetch, "", time.Second)
	h.Call(serve.CallFetch, serve.KindLate, time.Second)
	h.Call(serve.CallDelete, serve.KindDenied, -time.Second) // a clock that was set back
	h.Copied("", time.Minute)
	h.Copied(serve.KindClosed, time.Minute)
	after := series(t, reg)
	wantNoNew(t, before, after)
	want := map[string]float64{
		"tierkit_serve_calls_total{call=fetch,error=none}":    1,
		"tierkit_serve_calls_total{call=fetch,error=late}":    1,
		"tierkit_serve_calls_total{call=delete,error=denied}": 1,
		"tierkit_serve_call_seconds_count{call=fetch}":        2,
		"tierkit_serve_call_seconds_count{call=delete}":       1,
		"tierkit_serve_copies_total{error=none}":              1,
		"tierkit_serve_copies_total{error=closed}":            1,
		"tierkit_serve_copy_seconds_count{}":                  2,
	}
	if diff := cmp.Diff(want, changes(before, after)); diff != "" {
		t.Errorf("changed series, want (-), got (+):\n%s", diff)
	}
}

func TestServe_ShowsTheState(t *testing.T) {
	got := series(t, registry(t, metrics.NewServe(func() serve.Stats {
		return serve.Stats{
			CopiesRunning: 1, CopiesWanting: 2, SpoolBytes: 3, SpooledBytes: 4, DeletesJournaled: 5, DeletesOldest: 6 * time.Second, DeletesBad: 7,
			Orphans: 8, FailureEntries: 9, FailureAnswers: 10, FailureHeld: 11, Late: 12, CustomBytes: 13, CustomLimit: 14, CustomTooLong: 15, Ready: true,
		}
	})))
	want := map[string]float64{
		"tierkit_serve_copies_active{stage=running}": 1, "tierkit_serve_copies_active{stage=wants_files}": 2,
		"tierkit_serve_spool_bytes{}": 3, "tierkit_serve_spooled_bytes_total{}": 4,
		"tierkit_serve_journal_deletes{}": 5, "tierkit_serve_journal_oldest_seconds{}": 6, "tierkit_serve_journal_bad_total{}": 7,
		"tierkit_serve_interrupted_copies{}": 8, "tierkit_serve_failure_entries{}": 9, "tierkit_serve_failure_answers_total{}": 10,
		"tierkit_serve_failure_held_total{}": 11, "tierkit_serve_late_total{}": 12, "tierkit_serve_custom_metadata_bytes{}": 13,
		"tierkit_serve_custom_metadata_limit_bytes{}": 14, "tierkit_serve_custom_metadata_too_long_total{}": 15, "tierkit_serve_ready{}": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestHandler_AnswersScrapes(t *testing.T) {
	c := metrics.NewCalls()
	h, err := metrics.Handler(c)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, name := range []string{"tierkit_serve_calls_total", "go_goroutines"} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), name) {
			t.Errorf("%d: no %s", w.Code, name)
		}
	}
	if _, err := metrics.Handler(c, c); err == nil {
		t.Error("the same collector twice was taken")
	}
}
