package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

const token = "0123456789abcdef-a-token"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

// fake is a storage manager of functions; a nil one is a success of nothing.
type fake struct {
	copy   func(ctx context.Context, md remotelog.SegmentMetadata, data remotelog.SegmentData) (remotelog.CustomMetadata, error)
	fetch  func(ctx context.Context, md remotelog.SegmentMetadata, start, end int64) (io.ReadCloser, error)
	index  func(ctx context.Context, md remotelog.SegmentMetadata, t remotelog.IndexType) (io.ReadCloser, error)
	delete func(ctx context.Context, md remotelog.SegmentMetadata) error
	clean  func(ctx context.Context, md remotelog.SegmentMetadata) error
}

var _ Segments = (*fake)(nil)

func (f *fake) Copy(ctx context.Context, md remotelog.SegmentMetadata, data remotelog.SegmentData) (remotelog.CustomMetadata, error) {
	if f.copy == nil {
		return nil, nil
	}
	return f.copy(ctx, md, data)
}

func (f *fake) CopyNoting(ctx context.Context, md remotelog.SegmentMetadata, data remotelog.SegmentData, note func()) (remotelog.CustomMetadata, error) {
	note()
	return f.Copy(ctx, md, data)
}

func (f *fake) Fetch(ctx context.Context, md remotelog.SegmentMetadata, start, end int64) (io.ReadCloser, error) {
	return f.fetch(ctx, md, start, end)
}

func (f *fake) FetchIndex(ctx context.Context, md remotelog.SegmentMetadata, t remotelog.IndexType) (io.ReadCloser, error) {
	return f.index(ctx, md, t)
}

func (f *fake) Delete(ctx context.Context, md remotelog.SegmentMetadata) error {
	if f.delete == nil {
		return nil
	}
	return f.delete(ctx, md)
}

func (f *fake) CleanUp(ctx context.Context, md remotelog.SegmentMetadata) error {
	if f.clean == nil {
		return nil
	}
	return f.clean(ctx, md)
}

// open is a server over segments whose state is in a directory of the test's.
func open(t testing.TB, seg Segments, change ...func(*Options)) *Server {
	t.Helper()
	o := Options{Segments: seg, Token: token, StateDir: filepath.Join(t.TempDir(), "state"), BrokerID: 1, DeriveLogDirs: true, Logger: logger(t)}
	for _, f := range change {
		f(&o)
	}
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// logger shows what the server says in the log of the test.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(&testWriter{t: t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type testWriter struct {
	mu   sync.Mutex
	t    testing.TB
	said []byte
}

func (w *testWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.said)
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Log(strings.TrimSpace(string(p)))
	w.said = append(w.said, p...)
	return len(p), nil
}

// ask is one call through the handler, without a network.
func ask(t testing.TB, s *Server, method, path string, body any) *httptest.ResponseRecorder {
	t.Helper()
	return askContext(t, t.Context(), s, method, path, body)
}

func askContext(t testing.TB, ctx context.Context, s *Server, method, path string, body any) *httptest.ResponseRecorder {
	t.Helper()
	return serveRequest(s, request(t, ctx, method, path, body))
}

// brokenOff is the status of an answer whose connection was broken.
const brokenOff = -1

func serveRequest(s *Server, r *http.Request) (w *httptest.ResponseRecorder) {
	w = httptest.NewRecorder()
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			w.Code = brokenOff
		} else if p != nil {
			panic(p)
		}
	}()
	s.Handler().ServeHTTP(w, r)
	return w
}

func request(t testing.TB, ctx context.Context, method, path string, body any) *http.Request {
	t.Helper()
	var data []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		data = b
	default:
		var err error
		if data, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(data))
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// want checks the status of an answer and, of an error, the kind.
func want(t testing.TB, w *httptest.ResponseRecorder, status int, kind Kind) {
	t.Helper()
	if got := w.Body.String(); w.Code != status || kind != "" && kindIn(t, w) != kind {
		t.Fatalf("answer %d %s, want %d %s", w.Code, got, status, kind)
	}
}

func kindIn(t testing.TB, w *httptest.ResponseRecorder) Kind {
	t.Helper()
	var a struct{ Error problem }
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return a.Error.Kind
}

// stateIn is the state in an answer about a copy or a delete.
func stateIn(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var a struct{ State string }
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code >= 300 {
		t.Fatalf("answer %d %s", w.Code, w.Body)
	}
	return a.State
}

// stored is a segment on disk, as a broker has it.
type stored struct {
	md   remotelog.SegmentMetadata
	log  []byte
	body map[string]any // of POST /v1/copies
	dir  string         // of the partition
}

// newSegment writes a segment of size bytes. Its bytes do not compress.
func newSegment(t testing.TB, topic string, size int) *stored {
	t.Helper()
	seg := &stored{dir: filepath.Join(t.TempDir(), topic+"-0"), log: make([]byte, size)}
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(seg.log)
	seg.md = remotelog.SegmentMetadata{
		EndOffset: 41, LeaderEpochs: []remotelog.LeaderEpoch{{}}, MaxTimestampMs: 1, BrokerID: 1, EventTimestampMs: 2, SizeBytes: int64(size),
	}
	seg.md.Topic, seg.md.TopicID, seg.md.ID = topic, remotelog.NewUUID(), remotelog.NewUUID()
	if err := os.Mkdir(seg.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]any{}
	for k, content := range map[fileKind][]byte{
		fileLog: seg.log, fileOffsetIndex: []byte("offsets"), fileTimeIndex: {}, fileSnapshot: []byte("producers"),
	} {
		files[fileFacts[k].field] = writeFile(t, filepath.Join(seg.dir, fmt.Sprintf("%020d%s", 0, fileFacts[k].suffix)), content)
	}
	seg.body = map[string]any{"segment": segmentjson.Of(&seg.md), "leaderEpochs": []byte("0\n1\n0 0\n"), "files": files}
	return seg
}

// writeFile writes a file and describes it as a client does.
func writeFile(t testing.TB, path string, content []byte) map[string]any {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return describe(t, path)
}

func describe(t testing.TB, path string) map[string]any {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := fi.Sys().(*syscall.Stat_t)
	return map[string]any{"path": path, "device": int64(st.Dev), "inode": int64(st.Ino), "size": fi.Size()} //nolint:unconvert // of another size on darwin
}

func (seg *stored) path() string { return "/v1/copies/" + seg.md.ID.String() }

// wire is the segment in the JSON of a request.
func (seg *stored) wire() segmentjson.Segment { return segmentjson.Of(&seg.md) }

// manager is a real storage manager over a store in memory.
func manager(t testing.TB, space *mem.Space, c rsm.Config) *rsm.Manager {
	t.Helper()
	store, err := backends.NewStore(space.Client(mem.Options{}), backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	budget, err := rsm.NewBudget(c, store)
	if err != nil {
		t.Fatal(err)
	}
	store.UseBudget(budget)
	m, err := rsm.New(rsm.Options{Store: store, Budget: budget, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(); _ = store.Close() })
	return m
}

// keys are what is in a store.
func keys(t testing.TB, space *mem.Space) []string {
	t.Helper()
	page, err := space.Client(mem.Options{}).List(t.Context(), backends.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range page.Infos {
		out = append(out, i.Key)
	}
	return out
}

// pipes is a listener to which nobody connects.
type pipes struct {
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) { <-p.closed; return nil, net.ErrClosed }
func (p *pipes) Close() error              { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr            { return &net.TCPAddr{} }

// fixedNow is a clock that stands.
func fixedNow() time.Time { return time.Unix(1_760_000_000, 0) }

// discard is an answer that nobody reads.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
