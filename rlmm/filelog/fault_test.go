package filelog

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/rlmm"
)

func TestMain(m *testing.M) {
	if child := os.Getenv("FILELOG_TEST_CHILD"); child != "" {
		os.Exit(runChild(child, os.Args[len(os.Args)-1]))
	}
	goleak.VerifyTestMain(m)
}

// faults stands between a log and its files. A nil hook does what the file does. The hooks are changed under mu.
type faults struct {
	mu       sync.Mutex
	read     func(f file, b []byte, off int64) (int, error)
	write    func(f file, b []byte, off int64) (int, error)
	sync     func(f file) error
	truncate func(f file, size int64) error
}

type faultFile struct {
	file
	with *faults
}

var errInjected = errors.New("injected")

func (x *faults) open(path string, flag int) (file, error) {
	f, err := openOS(path, flag)
	if err != nil {
		return nil, err
	}
	return &faultFile{f, x}, nil
}

func (x *faults) set(f func(x *faults)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(x)
}

func (x *faults) get() (func(file, []byte, int64) (int, error), func(file) error, func(file, int64) error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write, x.sync, x.truncate
}

func (f *faultFile) ReadAt(b []byte, off int64) (int, error) {
	f.with.mu.Lock()
	read := f.with.read
	f.with.mu.Unlock()
	if read != nil {
		return read(f.file, b, off)
	}
	return f.file.ReadAt(b, off)
}

func (f *faultFile) WriteAt(b []byte, off int64) (int, error) {
	if write, _, _ := f.with.get(); write != nil {
		return write(f.file, b, off)
	}
	return f.file.WriteAt(b, off)
}

func (f *faultFile) Sync() error {
	if _, sync, _ := f.with.get(); sync != nil {
		return sync(f.file)
	}
	return f.file.Sync()
}

func (f *faultFile) Truncate(size int64) error {
	if _, _, truncate := f.with.get(); truncate != nil {
		return truncate(f.file, size)
	}
	return f.file.Truncate(size)
}

// failAfter lets n bytes of every write through.
func failAfter(n int) func(file, []byte, int64) (int, error) {
	return func(f file, b []byte, off int64) (int, error) {
		n, err := f.WriteAt(b[:min(n, len(b))], off)
		return n, errors.Join(errInjected, err)
	}
}

// clock starts late enough for epochs to come from it and advances by a second with each look.
func clock() func() time.Time {
	var mu sync.Mutex
	now := time.Unix(epochOrigin+1000, 0)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Second)
		return now
	}
}

func mustOpen(t testing.TB, dir string, o Options, x *faults) *Log {
	t.Helper()
	file := opener(openOS)
	if x != nil {
		file = x.open
	}
	l, err := open(context.WithoutCancel(t.Context()), dir, o, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, l) })
	return l
}

func mustOpenReadOnly(t testing.TB, dir string) *Log {
	t.Helper()
	l, err := OpenReadOnly(context.WithoutCancel(t.Context()), dir, Options{PollEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, l) })
	return l
}

func mustClose(t testing.TB, l rlmm.Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func mustAppend(t testing.TB, l rlmm.Log, p int32, events ...string) rlmm.Position {
	t.Helper()
	var pos rlmm.Position
	for _, e := range events {
		var err error
		if pos, err = l.Append(t.Context(), p, []byte(e)); err != nil {
			t.Fatalf("Append(%q): %v", e, err)
		}
	}
	return pos
}

// mustRead returns the values of everything that partition 0 has now.
func mustRead(t testing.TB, l rlmm.Log) []string {
	t.Helper()
	b, err := l.Bounds(t.Context(), []int32{0})
	if err != nil {
		t.Fatal(err)
	}
	at := rlmm.Position{Offset: b[0].First, Epoch: -1}
	f := l.Follow(map[int32]rlmm.Position{0: at})
	defer func() { _ = f.Close() }()
	var out []string
	for at.Offset < b[0].Next {
		batch, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Lost) > 0 {
			t.Fatalf("lost: %+v", batch.Lost)
		}
		for _, e := range batch.Events {
			out = append(out, string(e.Value))
		}
		at = batch.Next[0]
	}
	return out
}

func fileSize(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// content is the file of a log with three groups of 1, 3 and 1 events; ends are where header and groups end.
func content(t testing.TB) (b []byte, ends []int, values []string) {
	t.Helper()
	h, _ := example()
	b = h.marshal()
	_, crc, err := parseHeader("x", b)
	if err != nil {
		t.Fatal(err)
	}
	st := newState(h, crc)
	ends = []int{len(b)}
	for _, group := range [][]string{{"first"}, {"second", "third", "fourth"}, {"fifth"}} {
		b = grow(t, b, &st, 7, uint32(len(group)), group...)
		ends = append(ends, len(b))
		values = append(values, group...)
	}
	return b, ends, values
}

// grow appends a group to a file's bytes and to its state.
func grow(t testing.TB, b []byte, st *state, epoch int32, offsets uint32, values ...string) []byte {
	t.Helper()
	var events []rlmm.Event
	for i, v := range values {
		events = append(events, rlmm.Event{Offset: st.end.next + int64(i), TimestampMs: 1, Value: []byte(v)})
	}
	g := appendGroup(nil, st.end, epoch, offsets, events)
	parsed, err := parseGroup(g)
	if err != nil {
		t.Fatal(err)
	}
	st.add(st.end, parsed)
	return append(b, g...)
}

func writeLog(t testing.TB, b []byte) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = partitionFile(dir, 0)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// warnings is a logger that counts.
type warnings struct {
	slog.Handler
	mu sync.Mutex
	n  int
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(context.Context, slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	return nil
}

func filesIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

func newLogger(w *warnings) *slog.Logger { return slog.New(w) }
