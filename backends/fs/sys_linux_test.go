package fs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/tierkit/tierkit/backends"
)

const preallocates = true

// ownMounts lets a child mount a file system that nobody else sees.
func ownMounts() *syscall.SysProcAttr {
	if os.Geteuid() == 0 {
		return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
	}
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
}

// mountSmall puts a file system of 1 MiB at dir.
func mountSmall(dir string) error { return syscall.Mount("none", dir, "tmpfs", 0, "size=1m") }

// asNobody runs f on a thread whose file accesses have no privileges, when the test runs as root.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine, and the privileges with it
		if err := syscall.Setfsuid(65534); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

func TestRoot_ThatCannotBeWritten(t *testing.T) {
	root, err := os.MkdirTemp("", "tierkit-fs") //nolint:usetesting // others cannot enter what t.TempDir lies below
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	put(t, open(t, root), "a/old", "x")
	if err := os.MkdirAll(filepath.Join(root, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, filepath.Join(root, "a"), filepath.Join(root, ".tierkit"), filepath.Join(root, ".tierkit/tmp"), filepath.Join(root, "lost+found")} {
		mode := os.FileMode(0o555)
		if strings.HasSuffix(dir, "lost+found") {
			mode = 0
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	}
	asNobody(t, func() {
		d, err := Open(t.Context(), Options{Root: root})
		if err != nil {
			t.Errorf("a store that is only read does not open: %v", err)
			return
		}
		defer d.Close()
		_, put := d.Put(t.Context(), "a/new", strings.NewReader("x"), backends.PutOptions{Size: 1})
		for op, err := range map[string]error{"put": put, "delete": d.Delete(t.Context(), "a/old"), "probe": d.Probe(t.Context())} {
			if !errors.Is(err, backends.Denied) || !strings.Contains(err.Error(), "storage.root "+root+" cannot be written by this process") {
				t.Errorf("%s: got %v", op, err)
			}
		}
		page, err := d.List(t.Context(), backends.ListOptions{})
		if err != nil || len(page.Infos) != 1 || page.Infos[0].Key != "a/old" {
			t.Errorf("list: %+v, %v", page, err)
		}
		if _, err := d.Stat(t.Context(), "a/old"); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(filepath.Join(root, "a"), 0); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		d, err := Open(t.Context(), Options{Root: root})
		if err != nil {
			t.Error(err)
			return
		}
		defer d.Close()
		_, stat := d.Stat(t.Context(), "a/old")
		_, list := d.List(t.Context(), backends.ListOptions{})
		for op, err := range map[string]error{"stat": stat, "list": list} {
			if !errors.Is(err, backends.Denied) { // not NotFound, and not an empty page
				t.Errorf("%s of what may not be seen: got %v, want Denied", op, err)
			}
		}
	})
}
