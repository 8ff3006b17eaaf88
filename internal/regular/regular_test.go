package regular_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tierkit/tierkit/internal/regular"
)

func TestOpen_OnlyRegularFilesAndNeverWaits(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // a socket's path must be short
	if err := os.WriteFile("file", []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", "link"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link"} {
		f, fi, err := regular.OpenFile(filepath.Join(dir, name), os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if fi.Size() != 3 {
			t.Errorf("%s has %d bytes", name, fi.Size())
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := syscall.Mkfifo("pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, name := range []string{"pipe", "socket", ".", "/dev/null"} {
		if _, _, err := regular.Open(name); !errors.Is(err, regular.ErrNot) && !errors.Is(err, syscall.EOPNOTSUPP) { // a socket on darwin
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := regular.Open("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
