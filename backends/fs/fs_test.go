package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
)

func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(runChild(child))
	}
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, root string) *Driver {
	t.Helper()
	d, err := Open(t.Context(), Options{Root: root, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func put(t testing.TB, d *Driver, key, data string) backends.Info {
	t.Helper()
	info, err := d.Put(t.Context(), key, strings.NewReader(data), backends.PutOptions{Size: int64(len(data))})
	if err != nil {
		t.Fatalf("put %q: %v", key, err)
	}
	return info
}

// tree lists the files and directories below root, directories with a slash at the end.
func tree(t testing.TB, root string) []string {
	t.Helper()
	out := []string{}
	err := filepath.WalkDir(root, func(path string, e iofs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name := strings.TrimPrefix(path, root+"/")
		if e.IsDir() {
			name += "/"
		}
		out = append(out, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLayout_IsThatOfThePlugin(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	if got := tree(t, root); len(got) > 0 {
		t.Errorf("opening a store made %q", got)
	}
	put(t, d, "p/topic-AAAA/0/00000000000000000000-BBBB.log", "x")
	put(t, d, "p/topic-AAAA/1/00000000000000000000-BBBB.log", "y")
	want := []string{
		".tierkit/", ".tierkit/tmp/", "p/", "p/topic-AAAA/", "p/topic-AAAA/0/", "p/topic-AAAA/0/00000000000000000000-BBBB.log",
		"p/topic-AAAA/1/", "p/topic-AAAA/1/00000000000000000000-BBBB.log",
	}
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Error(diff)
	}
	if b, err := os.ReadFile(filepath.Join(root, want[5])); string(b) != "x" || err != nil {
		t.Errorf("the file has %q, %v", b, err)
	}
	for _, key := range []string{"p/topic-AAAA/0/00000000000000000000-BBBB.log", "p/topic-AAAA/1/00000000000000000000-BBBB.log"} {
		if err := d.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{".tierkit/", ".tierkit/tmp/"}, tree(t, root)); diff != "" {
		t.Errorf("emptied parents stay: %s", diff)
	}
}

func TestOpen_ClearAboutTheRoot(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{
		"":                           "invalid argument: storage.root is empty",
		filepath.Join(dir, "no"):     "invalid argument: storage.root " + dir + "/no does not exist, create the directory first",
		file:                         "invalid argument: storage.root " + file + " is not a directory",
		filepath.Join(file, "below"): "invalid argument: stat " + file + "/below: not a directory",
	} {
		if _, err := Open(t.Context(), Options{Root: root}); !errors.Is(err, backends.InvalidArgument) || err.Error() != want {
			t.Errorf("root %q: got %v, want %s", root, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, Options{Root: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("dead context: %v", err)
	}
}

func TestRoot_GoneIsNotNotFound(t *testing.T) {
	for name, lose := range map[string]func(root string) error{
		"removed": os.RemoveAll,
		"replaced": func(root string) error {
			return errors.Join(os.Rename(root, root+".old"), os.Mkdir(root, 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			if err := os.Mkdir(root, 0o755); err != nil {
				t.Fatal(err)
			}
			d := open(t, root)
			if err := lose(root); err != nil {
				t.Fatal(err)
			}
			_, stat := d.Stat(t.Context(), "a/b")
			_, get := d.Get(t.Context(), "a/b", backends.GetOptions{Range: backends.All()})
			_, list := d.List(t.Context(), backends.ListOptions{})
			_, listBelow := d.List(t.Context(), backends.ListOptions{Prefix: "a/"})
			errs := map[string]error{"stat": stat, "get": get, "list": list, "list below": listBelow, "delete": d.Delete(t.Context(), "a/b"), "probe": d.Probe(t.Context())}
			if name == "removed" {
				_, errs["put"] = d.Put(t.Context(), "a/b", nil, backends.PutOptions{})
			}
			for op, err := range errs {
				if !errors.Is(err, backends.InvalidArgument) || !strings.Contains(err.Error(), root+" was removed or replaced") {
					t.Errorf("%s: got %v", op, err)
				}
			}
		})
	}
}

func TestSweep_RemovesWhatNobodyHolds(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	live, err := d.newTemp(t.Context(), "live/key")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := live.f.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(root, tempDir, newUUID())
	if err := os.WriteFile(dead, []byte("crashed"), 0o600); err != nil {
		t.Fatal(err)
	}
	ups, err := d.ListUploads(t.Context(), "")
	if err != nil || len(ups) != 2 {
		t.Fatalf("%+v, %v", ups, err)
	}
	for _, u := range ups {
		isLive := u.ID == filepath.Base(live.name)
		if isLive && (u.Key != "live/key" || u.Bytes != 4) || !isLive && (u.Key != "" || u.Bytes != 7 || u.ID != filepath.Base(dead)) || u.Started.IsZero() {
			t.Errorf("upload %+v", u)
		}
	}
	if ups, err := d.ListUploads(t.Context(), "other/"); err != nil || len(ups) != 1 || ups[0].Key != "" {
		t.Errorf("below another prefix: %+v, %v", ups, err)
	}
	other := open(t, root)
	if diff := cmp.Diff([]string{".tierkit/", ".tierkit/tmp/", live.name}, tree(t, root)); diff != "" {
		t.Errorf("after opening again: %s", diff)
	}
	if err := other.AbortUpload(t.Context(), backends.Upload{ID: filepath.Base(live.name)}); !errors.Is(err, backends.Unavailable) {
		t.Errorf("abort of a live upload: %v", err)
	}
	if err := live.discard(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := other.AbortUpload(t.Context(), backends.Upload{ID: filepath.Base(dead)}); err != nil {
			t.Errorf("abort: %v", err)
		}
	}
	for _, id := range []string{"", ".", "..", "../../x", "a/b"} {
		if err := other.AbortUpload(t.Context(), backends.Upload{ID: id}); !errors.Is(err, backends.InvalidArgument) {
			t.Errorf("abort %q: %v", id, err)
		}
	}
	if got := tree(t, root); len(got) != 2 {
		t.Errorf("left are %q", got)
	}
}

// TestHold plays the steps of newTemp's comment: a file that lost its name, or whose lock somebody has, is not ours.
func TestHold_NoticesThatTheFileWasSwept(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	if err := d.makeTempDir(); err != nil {
		t.Fatal(err)
	}
	create := func(name string) file {
		f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	name := tempDir + "/x"
	f := create(name)
	if held, err := d.hold(f, name); !held || err != nil {
		t.Errorf("a fresh file: %v, %v", held, err)
	}
	second, err := d.root.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if held, err := d.hold(second, name); held || err != nil {
		t.Errorf("a file that is held: %v, %v", held, err)
	}
	f2 := create(tempDir + "/y")
	if removed, err := d.removeUnheld(tempDir + "/y"); !removed || err != nil {
		t.Errorf("sweep: %v, %v", removed, err)
	}
	if held, err := d.hold(f2, tempDir+"/y"); held || err != nil {
		t.Errorf("a file without a name: %v, %v", held, err)
	}
	f3 := create(tempDir + "/z")
	if err := d.root.Rename(name, tempDir+"/z"); err != nil {
		t.Fatal(err)
	}
	if held, err := d.hold(f3, tempDir+"/z"); held || err != nil {
		t.Errorf("a file whose name means another: %v, %v", held, err)
	}
}

// TestPut_WhileOthersOpenTheStore: openings sweep all the time; no Put loses its temp file.
func TestPut_WhileOthersOpenTheStore(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			o, err := Open(ctx, Options{Root: root, NoSync: true})
			if err == nil {
				_ = o.Close()
			} else if !errors.Is(err, context.Canceled) {
				t.Error(err)
				return
			}
		}
	}()
	for i := range 300 {
		put(t, d, fmt.Sprintf("k%d", i%7), strings.Repeat("x", i))
	}
	cancel()
	<-done
	if got := tree(t, filepath.Join(root, tempDir)); len(got) > 0 {
		t.Errorf("left are %q", got)
	}
}

func TestPut_KeysThatMeetAsDirectories(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	put(t, d, "a", "x")
	put(t, d, "b/c", "x")
	for _, ifAbsent := range []bool{false, true} {
		for _, key := range []string{"a/b", "a/b/c", "b"} {
			_, err := d.Put(t.Context(), key, strings.NewReader("y"), backends.PutOptions{Size: 1, IfAbsent: ifAbsent})
			if !errors.Is(err, backends.InvalidArgument) {
				t.Errorf("put %q, ifAbsent %v: got %v, want InvalidArgument", key, ifAbsent, err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "empty"), 0o755); err != nil { // as a crash leaves it
		t.Fatal(err)
	}
	put(t, d, "empty", "x")
	if err := os.MkdirAll(filepath.Join(root, "empty2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), "empty2", strings.NewReader("x"), backends.PutOptions{Size: 1, IfAbsent: true}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{".tierkit/", ".tierkit/tmp/", "a", "b/", "b/c", "empty", "empty2"}, tree(t, root)); diff != "" {
		t.Error(diff)
	}
}

func TestKeys_LongSegments(t *testing.T) {
	d := open(t, t.TempDir())
	long := strings.Repeat("s", 255)
	key := strings.Join([]string{long, long, long, strings.Repeat("t", 256)}, "/")
	if len(key) != 1024 {
		t.Fatal(len(key))
	}
	body := &bytes.Buffer{}
	body.WriteString("x")
	if _, err := d.Put(t.Context(), key, body, backends.PutOptions{Size: 1}); !errors.Is(err, backends.InvalidArgument) || body.Len() != 1 {
		t.Errorf("got %v, %d bytes of the body left", err, body.Len())
	}
	key = strings.Join([]string{long, long, long, long}, "/")
	put(t, d, key, "x")
	if _, err := d.Stat(t.Context(), key); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"../x", "a/../../x", "/etc/passwd", ".tierkit/tmp/x", ".TIERKIT/x"} {
		if _, err := d.Stat(t.Context(), key); !errors.Is(err, backends.InvalidArgument) {
			t.Errorf("%q: got %v, want InvalidArgument", key, err)
		}
	}
}

func TestForeignFiles(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	d := open(t, root)
	put(t, d, "dir/real", "x")
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"dir/in": "real", "dir/out": filepath.Join(outside, "secret"), "dir/nowhere": "none", "dir/loop": "loop", "linkdir": "dir", "outdir": outside,
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "dir/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bad\xff"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, ".TierKit"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".TierKit", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	page, err := d.List(t.Context(), backends.ListOptions{})
	var keys []string
	for _, i := range page.Infos {
		keys = append(keys, i.Key)
	}
	if diff := cmp.Diff([]string{"dir/in", "dir/real"}, keys); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, key := range []string{"dir/out", "outdir/secret"} {
		if obj, err := d.Get(t.Context(), key, backends.GetOptions{Range: backends.All()}); err == nil {
			_ = obj.Body.Close()
			t.Errorf("%s leads out of the root", key)
		}
		if _, err := d.Put(t.Context(), "outdir/new", strings.NewReader("x"), backends.PutOptions{Size: 1}); err == nil {
			t.Error("put went out of the root")
		}
	}
	for _, key := range []string{"dir/pipe", "dir", "dir/nowhere"} {
		if _, err := d.Get(t.Context(), key, backends.GetOptions{Range: backends.All()}); !errors.Is(err, backends.NotFound) {
			t.Errorf("%s: got %v, want NotFound", key, err)
		}
		if _, err := d.Stat(t.Context(), key); !errors.Is(err, backends.NotFound) {
			t.Errorf("stat %s: got %v, want NotFound", key, err)
		}
	}
	if err := d.Delete(t.Context(), "dir/out"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(outside, "secret")); string(b) != "s" || err != nil {
		t.Error("deleting a link deleted its target")
	}
}

func TestGet_FileChangedInPlace(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	info := put(t, d, "k", strings.Repeat("x", 1000))
	obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Body.Close()
	if err := os.Truncate(filepath.Join(root, "k"), 600); err != nil { // what no tierkit does
		t.Fatal(err)
	}
	if got, err := io.ReadAll(obj.Body); len(got) != 600 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d bytes, %v, want io.ErrUnexpectedEOF", len(got), err)
	}
	if _, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All(), IfVersion: info.Version}); !errors.Is(err, backends.Precondition) {
		t.Errorf("got %v, want Precondition", err)
	}
}

func TestPut_MemoryComesFromTheReservation(t *testing.T) {
	d := open(t, t.TempDir())
	b, err := membudget.New(64<<20, membudget.Needs{Copy: 1 << 20, Fetch: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 4096, 5000, 256 << 10, 1 << 20} {
		for _, announced := range []int64{int64(size), backends.SizeUnknown} {
			least, want := d.PutMemory(announced)
			if least > want || least > membudget.Capacity(256<<10) {
				t.Errorf("size %d: %d, %d", announced, least, want)
			}
			r, err := b.Reserve(t.Context(), membudget.Copy, least)
			if err != nil {
				t.Fatal(err)
			}
			body := bytes.NewReader(make([]byte, size))
			if _, err := d.Put(t.Context(), "k", body, backends.PutOptions{Size: announced, Memory: r}); err != nil {
				t.Errorf("%d bytes, announced %d: %v", size, announced, err)
			}
			if r.Unused() != r.Size() {
				t.Errorf("%d bytes of the reservation are still in use", r.Size()-r.Unused())
			}
			r.Release()
		}
	}
	small, err := b.Reserve(t.Context(), membudget.Copy, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer small.Release()
	if _, err := d.Put(t.Context(), "k", strings.NewReader("x"), backends.PutOptions{Size: backends.SizeUnknown, Memory: small}); !errors.Is(err, backends.InvalidArgument) {
		t.Errorf("too little memory: %v", err)
	}
}

func TestPut_BodyThatMakesNoProgress(t *testing.T) {
	d := open(t, t.TempDir())
	if _, err := d.Put(t.Context(), "k", idle{}, backends.PutOptions{Size: 1}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got %v, want io.ErrNoProgress", err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestClose_WhileAPutRuns(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	n := 0
	_, err := d.Put(t.Context(), "k", readerFunc(func(p []byte) (int, error) {
		if n++; n == 3 {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		return len(p), nil
	}), backends.PutOptions{Size: backends.SizeUnknown})
	if !errors.Is(err, backends.Closed) {
		t.Errorf("got %v, want Closed", err)
	}
	if diff := cmp.Diff([]string{".tierkit/", ".tierkit/tmp/"}, tree(t, root)); diff != "" {
		t.Error(diff)
	}
	if _, err := d.root.Stat("."); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the root is still open: %v", err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestRemoveDir_NeverTakesAFile(t *testing.T) {
	d := open(t, t.TempDir())
	put(t, d, "a/b", "x")
	if err := d.removeDir("a/b"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %v, want ENOTDIR", err)
	}
	if err := d.removeDir("a"); !isAny(err, syscall.ENOTEMPTY, syscall.EEXIST) {
		t.Errorf("got %v, want ENOTEMPTY", err)
	}
	if _, err := d.Stat(t.Context(), "a/b"); err != nil {
		t.Error(err)
	}
}

// TestDelete_PrunesAlthoughItIsCancelled: nothing else looks for the directories of an object that is gone.
func TestDelete_PrunesAlthoughItIsCancelled(t *testing.T) {
	root := t.TempDir()
	d, err := Open(t.Context(), Options{Root: root, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	put(t, d, "a/b/c", "x")
	ctx, cancel := context.WithCancel(t.Context())
	d.root = &onRemove{d.root, cancel}
	if err := d.Delete(ctx, "a/b/c"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "a")); !errors.Is(err, os.ErrNotExist) || ctx.Err() == nil {
		t.Errorf("the directory of the object: got %v, want that there is none", err)
	}
}

// onRemove calls f when something is removed.
type onRemove struct {
	rootFS
	f func()
}

func (r *onRemove) Remove(name string) error {
	r.f()
	return r.rootFS.Remove(name)
}

func TestDirCache(t *testing.T) {
	d, err := Open(t.Context(), Options{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	put(t, d, "a/b/c", "x")
	if len(d.dirs.inodes) != 2 {
		t.Errorf("known are %v", d.dirs.inodes)
	}
	const foreign = 1<<64 - 1 // no inode that the file system will give
	if err := d.Delete(t.Context(), "a/b/c"); err != nil {
		t.Fatal(err)
	}
	if len(d.dirs.inodes) != 0 {
		t.Errorf("pruned directories are still known: %v", d.dirs.inodes)
	}
	d.dirs.add("a/b", foreign) // another process made it anew
	put(t, d, "a/b/c", "x")
	if d.dirs.inodes["a/b"] == foreign {
		t.Error("a directory with another inode passed for the known one")
	}
	for i := range maxCachedDirs + 10 {
		d.dirs.add(fmt.Sprint(i), 1)
	}
	if len(d.dirs.inodes) > maxCachedDirs {
		t.Errorf("%d directories are remembered", len(d.dirs.inodes))
	}
}

func TestCodes(t *testing.T) {
	for errno, want := range map[syscall.Errno]backends.Code{
		syscall.ENOENT: backends.NotFound, syscall.EEXIST: backends.Exists, syscall.EACCES: backends.Denied, syscall.EROFS: backends.Denied,
		syscall.ENOSPC: backends.Exhausted, syscall.EDQUOT: backends.Exhausted, syscall.EFBIG: backends.Exhausted,
		syscall.ENAMETOOLONG: backends.InvalidArgument, syscall.EIO: backends.Unavailable, syscall.ESTALE: backends.Unavailable,
		syscall.ETIMEDOUT: backends.Timeout, syscall.ENOSYS: backends.Unsupported, syscall.ECHILD: backends.Unknown,
	} {
		err := classify(fmt.Errorf("x: %w", &os.PathError{Op: "open", Path: "p", Err: errno}))
		if err.Code != want || !errors.Is(err, errno) {
			t.Errorf("%v: got %v, want %v", errno, err.Code, want)
		}
	}
	if classify(os.ErrClosed).Code != backends.Closed || classify(errors.New("x")).Code != backends.Unknown {
		t.Error("errors without errno are wrong")
	}
}

// TestWalk_AnyTree: pages of any size, with any batch, give what sorting all keys gives.
func TestWalk_AnyTree(t *testing.T) {
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		root := filepath.Join(base, fmt.Sprint(n))
		if err := os.Mkdir(root, 0o755); err != nil {
			rt.Fatal(err)
		}
		d, err := Open(context.Background(), Options{Root: root, NoSync: true})
		if err != nil {
			rt.Fatal(err)
		}
		defer d.Close()
		keys := drawKeys(rt, d)
		prefix := rapid.StringMatching(`[a.\-0/]{0,4}`).Draw(rt, "prefix")
		limit, batch := rapid.IntRange(1, 6).Draw(rt, "limit"), rapid.IntRange(1, 5).Draw(rt, "batch")
		want, got := []string{}, []string{}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		for after := ""; ; {
			w := &walk{d: d, ctx: context.Background(), prefix: prefix, after: after, want: limit, batch: batch}
			if err := w.run(); err != nil {
				rt.Fatal(err)
			}
			if len(w.infos) == 0 {
				break
			}
			for _, i := range w.infos {
				got = append(got, i.Key)
			}
			after = got[len(got)-1]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("prefix %q, limit %d, batch %d: %s", prefix, limit, batch, diff)
		}
	})
}

func drawKeys(rt *rapid.T, d *Driver) []string {
	var keys []string
	for _, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a.\-0]{1,3}(/[a.\-0]{1,2}){0,3}`), 0, 30, rapid.ID[string]).Draw(rt, "keys") {
		if d.checkKey(key) != nil {
			continue
		}
		if _, err := d.Put(context.Background(), key, strings.NewReader("x"), backends.PutOptions{Size: 1}); err == nil {
			keys = append(keys, key) // else it meets another one as a directory
		}
	}
	slices.Sort(keys)
	return keys
}

func BenchmarkPut(b *testing.B) {
	for _, noSync := range []bool{true, false} {
		b.Run(fmt.Sprintf("noSync=%v", noSync), func(b *testing.B) {
			d, err := Open(b.Context(), Options{Root: b.TempDir(), NoSync: noSync})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			data := make([]byte, 16<<20)
			_, _ = rand.NewChaCha8([32]byte{}).Read(data)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Put(b.Context(), "a/b/k", bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
