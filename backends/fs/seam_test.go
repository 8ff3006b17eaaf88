package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// errDead is what a killed process would see of the system, if it saw anything.
var errDead = errors.New("the process is dead")

// failing stands between a driver and the system: the nth call from arm on meets a failure.
type failing struct {
	rootFS

	mu    sync.Mutex
	calls []string // since arm, in order
	nth   int      // 0: none fails
	on    string   // or the first of this name does
	how   failure
	draw  func(call string) (failure, bool) // or what it says; nil: says nothing
	dead  bool
	open  int // files
}

// failure is what happens to one call.
type failure struct {
	err   error
	acted bool // it was carried out all the same: its answer was lost
	short bool // a write takes half of its bytes
	kill  bool // nothing that follows has an effect
}

func (f failure) String() string {
	return fmt.Sprintf("%v (acted %t, short %t, kill %t)", f.err, f.acted, f.short, f.kill)
}

// arm counts from here.
func (s *failing) arm(nth int, how failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.nth, s.on, s.how = nil, nth, "", how
}

// armOn lets the next call of that name fail.
func (s *failing) armOn(what string, how failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.nth, s.on, s.how = nil, 0, what, how
}

func (s *failing) seen() (calls []string, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls), s.open
}

// do makes a call, or its failure.
func (s *failing) do(what string, call func() error) error {
	return s.doPart(what, func(bool) error { return call() })
}

// doPart tells the call whether to do half of it.
func (s *failing) doPart(what string, call func(half bool) error) error {
	s.mu.Lock()
	s.calls = append(s.calls, what)
	hit, dead, how := len(s.calls) == s.nth || what == s.on && s.on != "", s.dead, s.how
	if hit {
		s.on = ""
	}
	if s.draw != nil {
		how, hit = s.draw(what)
	}
	if hit && how.kill {
		s.dead = true
	}
	s.mu.Unlock()
	switch {
	case dead:
		return errDead
	case !hit:
		return call(false)
	}
	if how.acted {
		if err := call(how.short); err != nil {
			return err
		}
	}
	return how.err
}

func (s *failing) OpenFile(name string, flag int, perm os.FileMode) (file, error) {
	var f file
	err := s.do("open "+name, func() (err error) {
		f, err = s.rootFS.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		if f != nil {
			_ = f.Close() // what nobody has the descriptor of
		}
		return nil, err
	}
	s.opened(1)
	return &failingFile{file: f, s: s, name: name}, nil
}

func (s *failing) opened(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
}

func (s *failing) Stat(name string) (st os.FileInfo, err error) {
	err = s.do("stat "+name, func() (err error) { st, err = s.rootFS.Stat(name); return err })
	return st, err
}

func (s *failing) Lstat(name string) (st os.FileInfo, err error) {
	err = s.do("lstat "+name, func() (err error) { st, err = s.rootFS.Lstat(name); return err })
	return st, err
}

func (s *failing) Mkdir(name string, perm os.FileMode) error {
	return s.do("mkdir "+name, func() error { return s.rootFS.Mkdir(name, perm) })
}

func (s *failing) MkdirAll(name string, perm os.FileMode) error {
	return s.do("mkdirall "+name, func() error { return s.rootFS.MkdirAll(name, perm) })
}

func (s *failing) Rename(from, to string) error {
	return s.do("rename to "+to, func() error { return s.rootFS.Rename(from, to) })
}

func (s *failing) Link(from, to string) error {
	return s.do("link to "+to, func() error { return s.rootFS.Link(from, to) })
}

func (s *failing) Remove(name string) error {
	return s.do("remove "+name, func() error { return s.rootFS.Remove(name) })
}

func (s *failing) Chtimes(name string, a, m time.Time) error {
	return s.do("chtimes "+name, func() error { return s.rootFS.Chtimes(name, a, m) })
}

// failingFile is an open one.
type failingFile struct {
	file
	s    *failing
	name string
}

func (f *failingFile) Write(p []byte) (n int, err error) {
	err = f.s.doPart("write "+f.name, func(half bool) (err error) {
		if half {
			p = p[:len(p)/2]
		}
		n, err = f.file.Write(p)
		return err
	})
	return n, err
}

func (f *failingFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.s.do("read "+f.name, func() (err error) { n, err = f.file.ReadAt(p, off); return err })
	return n, err
}

// Sync does nothing: the machine stays alive, and disks are slow.
func (f *failingFile) Sync() error { return f.s.do("fsync "+f.name, func() error { return nil }) }

// Close closes the file in any case, as the system does.
func (f *failingFile) Close() error {
	f.s.opened(-1)
	cerr := f.file.Close()
	if err := f.s.do("close "+f.name, func() error { return cerr }); err != nil {
		return err
	}
	return cerr
}

func (f *failingFile) Stat() (st os.FileInfo, err error) {
	err = f.s.do("fstat "+f.name, func() (err error) { st, err = f.file.Stat(); return err })
	return st, err
}

func (f *failingFile) ReadDir(n int) (out []os.DirEntry, err error) {
	err = f.s.do("readdir "+f.name, func() (err error) { out, err = f.file.ReadDir(n); return err })
	return out, err
}

func (f *failingFile) Readdirnames(n int) (out []string, err error) {
	err = f.s.do("readdir "+f.name, func() (err error) { out, err = f.file.Readdirnames(n); return err })
	return out, err
}

func (f *failingFile) SyscallConn() (c syscall.RawConn, err error) {
	err = f.s.do("control "+f.name, func() (err error) { c, err = f.file.SyscallConn(); return err })
	return c, err
}

// stage is a store with an old object and a driver over it whose calls can fail.
type stage struct {
	t    *testing.T
	root string
	s    *failing
	d    *Driver
}

const (
	stageKey = "p/q/k"
	oldData  = "the old object"
)

func newStage(t *testing.T, root string, old bool) *stage {
	t.Helper()
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if old {
		d := open(t, root)
		put(t, d, stageKey, oldData)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	st := &stage{t: t, root: root}
	d, err := Open(t.Context(), Options{Root: root, between: func(next rootFS) rootFS { st.s = &failing{rootFS: next}; return st.s }})
	if err != nil {
		t.Fatal(err)
	}
	st.d = d
	return st
}

// act is something that a caller does.
type act struct {
	name string
	old  bool // there is an object before
	data string
	do   func(ctx context.Context, d *Driver, data string) error
}

// acts are those that change something. The body of a put does not fit one buffer.
func acts() []act {
	big := strings.Repeat("new bytes ", bufferBytes/10+1000)
	puts := func(o backends.PutOptions) func(ctx context.Context, d *Driver, data string) error {
		return func(ctx context.Context, d *Driver, data string) error {
			o := o
			if o.Size == 0 {
				o.Size = int64(len(data))
			}
			_, err := d.Put(ctx, stageKey, strings.NewReader(data), o)
			return err
		}
	}
	return []act{
		{"put", false, big, puts(backends.PutOptions{})},
		{"put over", true, "new", puts(backends.PutOptions{})},
		{"put of unknown size", true, big, puts(backends.PutOptions{Size: backends.SizeUnknown})},
		{"put if absent", false, "new", puts(backends.PutOptions{IfAbsent: true})},
		{"delete", true, "", func(ctx context.Context, d *Driver, _ string) error { return d.Delete(ctx, stageKey) }},
	}
}

// failures are what each call meets.
func failures() []failure {
	var out []failure
	for _, err := range []error{syscall.EIO, syscall.ENOSPC, syscall.EINTR} {
		out = append(out, failure{err: err}, failure{err: err, acted: true})
	}
	return append(out, failure{err: syscall.ENOSPC, acted: true, short: true}, failure{acted: true, short: true})
}

// each runs f for every call of an act with every failure.
func each(t *testing.T, a act, hows []failure, f func(t *testing.T, st *stage, what string)) {
	t.Helper()
	dir := t.TempDir()
	dry := newStage(t, filepath.Join(dir, "dry"), a.old)
	dry.s.arm(0, failure{})
	if err := a.do(t.Context(), dry.d, a.data); err != nil {
		t.Fatal(err)
	}
	calls, _ := dry.s.seen()
	if err := dry.d.Close(); err != nil || len(calls) == 0 {
		t.Fatalf("%v, calls are %q", err, calls)
	}
	for nth := range calls {
		for i, how := range hows {
			if how.short && !strings.HasPrefix(calls[nth], "write") {
				continue
			}
			st := newStage(t, filepath.Join(dir, fmt.Sprintf("%d-%d", nth, i)), a.old)
			st.s.arm(nth+1, how)
			f(t, st, fmt.Sprintf("%s, call %d (%s): %s", a.name, nth+1, calls[nth], how))
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d calls: %q", len(calls), calls)
}

// content is what a clean driver finds, "" for nothing. Opening it removes temp files that nobody holds.
func (st *stage) content() string {
	st.t.Helper()
	d := open(st.t, st.root)
	defer d.Close()
	obj, err := d.Get(st.t.Context(), stageKey, backends.GetOptions{Range: backends.All()})
	if errors.Is(err, backends.NotFound) {
		return ""
	}
	if err != nil {
		st.t.Fatal(err)
	}
	defer obj.Body.Close()
	data, err := io.ReadAll(obj.Body)
	if err != nil {
		st.t.Fatal(err)
	}
	return string(data)
}

// TestSeam_EachCallFails: whichever call of the system fails, in whatever way: the call says so with a code that tells it from a missing or foreign object, the
// old object or the new one is there, whole, nothing stays open, and doing it again ends well and leaves nothing.
func TestSeam_EachCallFails(t *testing.T) {
	for _, a := range acts() {
		t.Run(a.name, func(t *testing.T) {
			each(t, a, failures(), func(t *testing.T, st *stage, what string) {
				old := map[bool]string{true: oldData}[a.old]
				err := a.do(t.Context(), st.d, a.data)
				if left := tempNames(t, st.root); len(left) > 0 && !strings.Contains(what, tempDir) {
					t.Errorf("%s: %v; left are %q", what, err, left)
				}
				got := st.content()
				e, _ := errors.AsType[*backends.Error](err)
				switch {
				case err == nil && got != a.data:
					t.Errorf("%s: success, and %d bytes are there", what, len(got))
				case err != nil && got != old && !(got == a.data && (e != nil && e.Ambiguous || a.name == "delete")):
					t.Errorf("%s: %v; %d bytes are there", what, err, len(got))
				}
				if code := backends.CodeOf(err); err != nil && code != backends.Unavailable && code != backends.Exhausted {
					t.Errorf("%s: %v has the code %s", what, err, code.Label())
				}
				st.again(a, what)
			})
		})
	}
}

// again does what failed once more, then removes everything.
func (st *stage) again(a act, what string) {
	st.t.Helper()
	err := a.do(st.t.Context(), st.d, a.data)
	if err != nil && !(a.name == "put if absent" && errors.Is(err, backends.Exists)) || st.content() != a.data {
		st.t.Errorf("%s: done again: %v, %d bytes are there", what, err, len(st.content()))
	}
	if err := st.d.Delete(st.t.Context(), stageKey); err != nil {
		st.t.Errorf("%s: delete: %v", what, err)
	}
	if _, n := st.s.seen(); n != 0 {
		st.t.Errorf("%s: %d files are open", what, n)
	}
	if err := st.d.Close(); err != nil {
		st.t.Errorf("%s: close: %v", what, err)
	}
	for _, name := range tree(st.t, st.root) {
		if !strings.HasPrefix(name, ".tierkit") || strings.HasPrefix(name, tempDir+"/") && name != tempDir+"/" {
			st.t.Errorf("%s: %q is left", what, name)
		}
	}
}

// TestSeam_ReadsThatFail: what could not be read is neither missing, nor short, nor an empty listing.
func TestSeam_ReadsThatFail(t *testing.T) {
	reads := []act{
		{"get", true, "", func(ctx context.Context, d *Driver, _ string) error {
			obj, err := d.Get(ctx, stageKey, backends.GetOptions{Range: backends.All()})
			if err != nil {
				return err
			}
			defer obj.Body.Close()
			data, err := io.ReadAll(obj.Body)
			if err == nil && string(data) != oldData {
				t.Errorf("get says without an error that the object is %q", data)
			}
			return err
		}},
		{"stat", true, "", func(ctx context.Context, d *Driver, _ string) error {
			_, err := d.Stat(ctx, stageKey)
			return err
		}},
		{"list", true, "", func(ctx context.Context, d *Driver, _ string) error {
			page, err := d.List(ctx, backends.ListOptions{})
			if err == nil && len(page.Infos) != 1 {
				t.Errorf("list says without an error that there is %+v", page)
			}
			return err
		}},
		{"probe", true, "", func(ctx context.Context, d *Driver, _ string) error { return d.Probe(ctx) }},
		{"uploads", true, "", func(ctx context.Context, d *Driver, _ string) error {
			up, err := d.newTemp(ctx, "x")
			if err != nil {
				return err
			}
			ups, err := d.ListUploads(ctx, "x")
			if err == nil && len(ups) == 0 {
				t.Errorf("uploads says without an error that there are none")
			}
			if cerr := up.discard(); cerr != nil {
				return errors.Join(err, classify(cerr))
			}
			return err
		}},
	}
	for _, a := range reads {
		t.Run(a.name, func(t *testing.T) {
			each(t, a, []failure{{err: syscall.EIO}, {err: syscall.ESTALE}}, func(t *testing.T, st *stage, what string) {
				if err := a.do(t.Context(), st.d, ""); backends.CodeOf(err) != backends.Unavailable && !closes(what) {
					t.Errorf("%s: got %v, want Unavailable", what, err)
				}
				if err := a.do(t.Context(), st.d, ""); err != nil {
					t.Errorf("%s: done again: %v", what, err)
				}
				if _, n := st.s.seen(); n != 0 {
					t.Errorf("%s: %d files are open", what, n)
				}
				if err := st.d.Close(); err != nil {
					t.Errorf("%s: close: %v", what, err)
				}
			})
		})
	}
}

// closes tells whether the call that failed is that with which something that was read is closed: nothing is lost by it.
func closes(what string) bool { return strings.Contains(what, "(close ") }

// TestSeam_KilledBetweenTheSteps: after the death of the process before or behind any call, the old object or the new one is there, whole, and the next
// process finds nothing in its way.
func TestSeam_KilledBetweenTheSteps(t *testing.T) {
	for _, a := range acts() {
		t.Run(a.name, func(t *testing.T) {
			each(t, a, []failure{{err: errDead, kill: true}, {err: errDead, kill: true, acted: true}}, func(t *testing.T, st *stage, what string) {
				_ = a.do(t.Context(), st.d, a.data) // nobody sees what it returns
				_ = st.d.Close()                    // and the locks are gone
				if left := tempNames(t, st.root); len(left) > 1 {
					t.Errorf("%s: left are %q", what, left)
				}
				if got := st.content(); got != a.data && got != map[bool]string{true: oldData}[a.old] {
					t.Errorf("%s: %d bytes are there", what, len(got))
				}
				if left := tempNames(t, st.root); len(left) > 0 {
					t.Errorf("%s: the next process leaves %q", what, left)
				}
				d := open(t, st.root)
				put(t, d, stageKey, "x")
				if err := errors.Join(d.Delete(t.Context(), stageKey), d.Close()); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			})
		})
	}
}

// TestSeam_DurableInOrder: bytes are on disk before they have their name, and names before a call returns.
func TestSeam_DurableInOrder(t *testing.T) {
	st := newStage(t, filepath.Join(t.TempDir(), "root"), false)
	t.Cleanup(func() { _ = st.d.Close() })
	st.s.arm(0, failure{})
	put(t, st.d, stageKey, "x")
	st.order("write "+tempDir, "fsync "+tempDir, "rename to "+stageKey)
	st.order("rename to "+stageKey, "fsync .")
	st.order("rename to "+stageKey, "fsync p")
	st.order("rename to "+stageKey, "fsync p/q")
	st.s.arm(0, failure{})
	if err := st.d.Delete(t.Context(), stageKey); err != nil {
		t.Fatal(err)
	}
	st.order("remove "+stageKey, "fsync p/q")
	put(t, st.d, stageKey, "x")
	st.s.armOn("fsync p/q", failure{err: syscall.EIO})
	if err := st.d.Delete(t.Context(), stageKey); !errors.Is(err, backends.Unavailable) {
		t.Errorf("a delete that cannot be made durable: got %v, want Unavailable", err)
	}
	st.s.arm(0, failure{}) // there is nothing to remove any more, but to make durable
	if err := st.d.Delete(t.Context(), stageKey); err != nil {
		t.Fatal(err)
	}
	st.order("fsync p/q")
}

// order checks that calls that begin so came, each behind the one before.
func (st *stage) order(want ...string) {
	st.t.Helper()
	calls, _ := st.s.seen()
	rest := calls
	for _, w := range want {
		i := slices.IndexFunc(rest, func(c string) bool { return c == w || strings.HasPrefix(c, w+"/") })
		if i < 0 {
			st.t.Errorf("%q does not come in its place in %q", w, calls)
			return
		}
		rest = rest[i+1:]
	}
}
