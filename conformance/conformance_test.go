package conformance_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inMemory is a harness over the memory driver: each namespace is a Space of its own.
func inMemory() conformance.Harness {
	var mu sync.Mutex
	spaces := map[string]*mem.Space{}
	return conformance.Harness{Open: func(_ context.Context, o conformance.OpenOptions) (backends.Driver, error) {
		mu.Lock()
		defer mu.Unlock()
		if spaces[o.Namespace] == nil {
			spaces[o.Namespace] = new(mem.Space)
		}
		return spaces[o.Namespace].Client(mem.Options{Now: o.Env.Now}), nil
	}}
}

// inFiles is a harness over directories.
func inFiles(t *testing.T) conformance.Harness {
	root := t.TempDir()
	return conformance.Harness{Open: func(ctx context.Context, o conformance.OpenOptions) (backends.Driver, error) {
		dir := filepath.Join(root, o.Namespace)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		return fs.Open(ctx, fs.Options{Root: dir, NoSync: true, Log: o.Env.Log, Now: o.Env.Now})
	}}
}

func TestRun_Mem(t *testing.T) { conformance.Run(t, inMemory()) }

func TestRun_Fs(t *testing.T) { conformance.Run(t, inFiles(t)) }

// TestReport_OthersUseThePlace: an upload that no case made is there from the first to the last case, and its key is not recorded. It fails none of
// them, and none takes it away.
func TestReport_OthersUseThePlace(t *testing.T) {
	root := t.TempDir()
	d, err := fs.Open(t.Context(), fs.Options{Root: root, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	body, more := io.Pipe()
	stored := make(chan error, 1)
	go func() {
		_, err := d.Put(t.Context(), "of-another", body, backends.PutOptions{Size: 2})
		stored <- err
	}()
	if _, err := more.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	factory, passed := fs.Factory(), 0
	err = conformance.Report(t.Context(), conformance.Harness{
		Factory: &factory, Settings: map[string]string{"storage.root": root, "storage.fs.fsync": "false"}, Only: regexp.MustCompile("^(mpu|props|ctx)/"),
	}, func(res conformance.Result) {
		if res.Outcome == conformance.Pass {
			passed++
		}
		if res.Outcome == conformance.Fail {
			t.Error(res)
		}
	})
	if err != nil || passed == 0 {
		t.Errorf("%d passed, %v", passed, err)
	}
	_, werr := more.Write([]byte("b"))
	if err := errors.Join(werr, more.Close(), <-stored, d.Close()); err != nil {
		t.Errorf("the upload of another: %v", err)
	}
}

func TestCases_AreNamedAndTold(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range conformance.Cases() {
		group, name, ok := strings.Cut(c.ID, "/")
		if !ok || group == "" || name == "" || seen[c.ID] {
			t.Errorf("case %q: the ID is not of the form group/what-holds, or there twice", c.ID)
		}
		seen[c.ID] = true
		if c.Run == nil || !strings.HasSuffix(c.Rule, ".") {
			t.Errorf("case %s: no function, or its rule is no sentence: %q", c.ID, c.Rule)
		}
	}
}
