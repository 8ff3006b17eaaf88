package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tierkit/tierkit/backends"
)

// The test binary is also the child process of tests that kill or starve one; childEnv says what it does: "what|root".
const childEnv = "TIERKIT_FS_TEST_CHILD"

func runChild(what string) int {
	what, root, _ := strings.Cut(what, "|")
	var err error
	switch what {
	case "write":
		err = childWrite(root)
	case "full":
		err = childFull(root, func() error { return mountSmall(root) })
	case "limited":
		err = childFull(root, func() error {
			signal.Ignore(syscall.SIGXFSZ)
			return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		})
	default:
		err = fmt.Errorf("what is %q?", what)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const (
	blockBytes = 32 << 10
	blocks     = 20
)

// version is the content of version v of the object that childWrite writes.
func version(v int) string {
	line := fmt.Sprintf("version %08d\n", v) // 17 bytes: blocks do not line up with lines
	return strings.Repeat(line, blockBytes*blocks/len(line))
}

// childWrite puts version after version, and says on standard output how far it is: "b" before a block is handed out, "e" when the body is
// at its end, "v" when Put returned.
func childWrite(root string) error {
	d, err := Open(context.Background(), Options{Root: root})
	if err != nil {
		return err
	}
	for v := 1; ; v++ {
		r := strings.NewReader(version(v))
		body := readerFunc(func(p []byte) (int, error) {
			n, err := r.Read(p[:min(len(p), blockBytes)])
			if err == io.EOF {
				fmt.Print("e")
			} else {
				fmt.Print("b")
			}
			return n, err
		})
		if _, err := d.Put(context.Background(), "dir/sub/k", body, backends.PutOptions{Size: int64(r.Len())}); err != nil {
			return err
		}
		fmt.Print("v")
		if v%3 == 0 { // so that directories are made anew, too
			if err := d.Delete(context.Background(), "dir/sub/k"); err != nil {
				return err
			}
			fmt.Print("d")
		}
	}
}

// childFull fills a place that holds 1 MiB. What it prints is looked at by the test.
func childFull(root string, starve func() error) error {
	if err := starve(); err != nil {
		fmt.Println("cannot starve:", err)
		return nil
	}
	d, err := Open(context.Background(), Options{Root: root, NoSync: true})
	if err != nil {
		return err
	}
	old := strings.Repeat("o", 100<<10)
	if _, err := d.Put(context.Background(), "a/old", strings.NewReader(old), backends.PutOptions{Size: int64(len(old))}); err != nil {
		return err
	}
	for _, size := range []int64{5 << 20, backends.SizeUnknown} {
		read := 0
		_, err := d.Put(context.Background(), "a/old", readerFunc(func(p []byte) (int, error) { read += len(p); return len(p), nil }), backends.PutOptions{Size: size})
		if !errors.Is(err, backends.Exhausted) {
			return fmt.Errorf("put of size %d: got %w, want Exhausted", size, err)
		}
		fmt.Printf("size %d: read %d bytes: %v\n", size, read, err)
	}
	st, err := d.Stat(context.Background(), "a/old")
	if err != nil || st.Size != int64(len(old)) {
		return fmt.Errorf("the old object: %+v, %w", st, err)
	}
	if ups, err := d.ListUploads(context.Background(), ""); err != nil || len(ups) > 0 {
		return fmt.Errorf("left behind: %v, %w", ups, err)
	}
	if err := d.Delete(context.Background(), "a/old"); err != nil {
		return fmt.Errorf("delete in a full store: %w", err)
	}
	fmt.Println("good")
	return nil
}
