package serve

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// finish asks about a copy until it has ended.
func finish(t testing.TB, s *Server, seg *stored) map[string]any {
	t.Helper()
	for range 600 { // four minutes
		w := ask(t, s, "GET", seg.path()+"?waitMs=400", nil)
		var a map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
			t.Fatalf("answer %d %s", w.Code, w.Body)
		}
		if a["state"] != "running" {
			return a
		}
	}
	t.Fatal("the copy does not end")
	return nil
}

func TestServer_CopiesFetchesAndDeletes(t *testing.T) {
	space := new(mem.Space)
	m := manager(t, space, rsm.Config{ChunkBytes: 64 << 10, Compression: true, CustomFields: []string{"REMOTE_SIZE"}})
	s := open(t, m)
	seg := newSegment(t, "orders", 300_000)
	if got := stateIn(t, ask(t, s, "POST", "/v1/copies", seg.body)); got != "running" && got != "done" {
		t.Fatalf("begun: %s", got)
	}
	done := finish(t, s, seg)
	custom, err := base64.StdEncoding.DecodeString(done["customMetadata"].(string))
	if done["state"] != "done" || err != nil || len(custom) == 0 {
		t.Fatalf("copy: %v, %v", done, err)
	}
	seg.md.CustomMetadata, seg.md.State = custom, remotelog.CopySegmentFinished
	for _, tc := range []struct{ start, end, first, last int64 }{
		{0, 299_999, 0, 299_999}, {0, 1 << 40, 0, 299_999}, {65_000, 66_000, 65_000, 66_000}, {299_999, 299_999, 299_999, 299_999},
	} {
		w := ask(t, s, "POST", "/v1/fetch", map[string]any{"segment": seg.wire(), "start": tc.start, "end": tc.end})
		if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), seg.log[tc.first:tc.last+1]) {
			t.Errorf("fetch %d..%d: %d, %d bytes", tc.start, tc.end, w.Code, w.Body.Len())
		}
	}
	w := ask(t, s, "POST", "/v1/fetch", map[string]any{"segment": seg.wire(), "start": 300_000})
	if w.Code != http.StatusOK || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "0" || w.Header().Get("Tierkit-Segment-Size") != "300000" {
		t.Errorf("fetch at the end: %d %v", w.Code, w.Header())
	}
	want(t, ask(t, s, "POST", "/v1/fetch", map[string]any{"segment": seg.wire(), "start": 300_001}), 400, KindInvalidArgument)
	for _, method := range []string{"PUT", "POST"} {
		if w := ask(t, s, method, "/v1/index/offset", map[string]any{"segment": seg.wire()}); w.Body.String() != "offsets" || w.Code != 200 {
			t.Errorf("%s offset index: %d %q", method, w.Code, w.Body)
		}
		if w := ask(t, s, method, "/v1/fetch", map[string]any{"segment": seg.wire(), "start": 299_999}); w.Body.Len() != 1 || w.Code != 200 {
			t.Errorf("%s fetch: %d, %d bytes", method, w.Code, w.Body.Len())
		}
	}
	if w := ask(t, s, "POST", "/v1/index/timestamp", map[string]any{"segment": seg.wire()}); w.Body.Len() != 0 || w.Code != 200 {
		t.Errorf("time index: %d %q", w.Code, w.Body)
	}
	if w := ask(t, s, "POST", "/v1/index/leader-epoch", map[string]any{"segment": seg.wire()}); w.Body.String() != "0\n1\n0 0\n" {
		t.Errorf("leader epochs: %d %q", w.Code, w.Body)
	}
	want(t, ask(t, s, "POST", "/v1/index/transaction", map[string]any{"segment": seg.wire()}), 404, KindNoIndex)

	remove := map[string]any{"segment": seg.wire(), "waitMs": 450}
	for stateIn(t, ask(t, s, "POST", "/v1/delete", remove)) == "running" {
	}
	if left := keys(t, space); len(left) != 0 {
		t.Errorf("left after the delete: %v", left)
	}
	want(t, ask(t, s, "POST", "/v1/fetch", map[string]any{"segment": seg.wire(), "start": 0}), 404, KindNotFound)
	want(t, ask(t, s, "GET", seg.path(), nil), 404, KindUnknownOperation)
	for stateIn(t, ask(t, s, "POST", "/v1/delete", remove)) == "running" { // again, of what is gone
	}
	if e, err := os.ReadDir(s.state.copies); err != nil || len(e) != 0 {
		t.Errorf("noted copies left: %v, %v", e, err)
	}
}

func TestServer_ALogOfNoBytes(t *testing.T) {
	space := new(mem.Space)
	s := open(t, manager(t, space, rsm.Config{Compression: true}))
	seg := newSegment(t, "empty", 0)
	ask(t, s, "POST", "/v1/copies", seg.body)
	if done := finish(t, s, seg); done["state"] != "done" || done["customMetadata"] != nil {
		t.Fatalf("copy: %v", done)
	}
	w := ask(t, s, "POST", "/v1/fetch", map[string]any{"segment": seg.wire(), "start": 0})
	if w.Code != 200 || w.Body.Len() != 0 {
		t.Errorf("fetch: %d %s", w.Code, w.Body)
	}
}

func TestServer_FilesThatCannotBeOpenedAreSent(t *testing.T) {
	space := new(mem.Space)
	s := open(t, manager(t, space, rsm.Config{ChunkBytes: 64 << 10}))
	seg := newSegment(t, "orders", 200_000)
	seg.body["files"].(map[string]any)["log"].(map[string]any)["inode"] = 1 // another file, as in a container
	seg.body["files"].(map[string]any)["timeIndex"].(map[string]any)["path"] = "/nowhere/orders-0/0.timeindex"
	if got := strings.TrimSpace(ask(t, s, "POST", "/v1/copies", seg.body).Body.String()); got != `{"state":"wants","files":["log","time-index"]}` {
		t.Fatalf("answer: %s", got)
	}
	want(t, ask(t, s, "PUT", seg.path()+"/files/log", seg.log[1:]), 400, KindInvalidArgument)
	want(t, ask(t, s, "PUT", seg.path()+"/files/transaction-index", []byte{}), 400, KindInvalidArgument)
	want(t, ask(t, s, "PUT", seg.path()+"/files/log", seg.log), 204, "")
	want(t, ask(t, s, "PUT", seg.path()+"/files/log", seg.log), 204, "") // a lost answer
	if got := strings.TrimSpace(ask(t, s, "GET", seg.path(), nil).Body.String()); got != `{"state":"wants","files":["time-index"]}` {
		t.Fatalf("answer: %s", got)
	}
	want(t, ask(t, s, "PUT", seg.path()+"/files/time-index", []byte{}), 204, "")
	if done := finish(t, s, seg); done["state"] != "done" {
		t.Fatalf("copy: %v", done)
	}
	w := ask(t, s, "POST", "/v1/fetch", map[string]any{"segment": seg.wire(), "start": 0})
	if !bytes.Equal(w.Body.Bytes(), seg.log) {
		t.Errorf("fetched %d bytes, want the log's %d", w.Body.Len(), len(seg.log))
	}
	if e, err := os.ReadDir(s.state.spool); err != nil || len(e) != 0 || s.Stats().SpoolBytes != 0 {
		t.Errorf("spool: %v, %v, %d bytes", e, err, s.Stats().SpoolBytes)
	}
}
