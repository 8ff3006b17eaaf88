package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
)

// caseT is the T of one run: it gathers what the case says.
type caseT struct {
	tt     *testing.T // nil without go test
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	helpers  map[string]bool
	failures []string
	logs     []string
	cleanups []func()
	over     bool // what comes now is nobody's
}

var _ T = (*caseT)(nil)

func newCaseT(ctx context.Context) *caseT {
	ctx, cancel := context.WithCancel(ctx)
	return &caseT{ctx: ctx, cancel: cancel, helpers: make(map[string]bool)}
}

// Helper keeps the calling function out of the places that failures name.
func (t *caseT) Helper() {
	pc, _, _, _ := runtime.Caller(1)
	name := runtime.FuncForPC(pc).Name()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.helpers[name] = true
}

// place is the file and line of the innermost caller that is no helper. Under the lock.
func (t *caseT) place() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	for {
		f, more := frames.Next()
		if !t.helpers[f.Function] || !more {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}

func (t *caseT) fail(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const enough = 50
	if !t.over && len(t.failures) < enough {
		t.failures = append(t.failures, t.place()+": "+text)
	}
}

func (t *caseT) Errorf(format string, args ...any) { t.fail(fmt.Sprintf(format, args...)) }

func (t *caseT) Fatalf(format string, args ...any) {
	t.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (t *caseT) FailNow() {
	t.fail("the case gave up")
	runtime.Goexit()
}

func (t *caseT) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failures) > 0
}

func (t *caseT) Logf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logs = append(t.logs, fmt.Sprintf(format, args...))
}

func (t *caseT) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *caseT) Context() context.Context { return t.ctx }

func (t *caseT) TempDir() string {
	t.Helper()
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// guard runs f as testing would: FailNow ends it, a panic is a failure. The other goroutines of f have ended, or are leaks.
func (t *caseT) guard(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

// cleanUp ends the context, then runs the clean-ups, last one first.
func (t *caseT) cleanUp() {
	t.cancel()
	for {
		t.mu.Lock()
		n := len(t.cleanups)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		f := t.cleanups[n-1]
		t.cleanups = t.cleanups[:n-1]
		t.mu.Unlock()
		t.guard(f)
	}
}

// end returns what was said and is deaf from now on.
func (t *caseT) end() (failures, logs []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.failures, t.logs
}
