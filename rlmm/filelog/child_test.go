package filelog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierkit/tierkit/rlmm"
)

// runChild is the test binary as another process, for the tests that need one.
func runChild(what, arg string) int {
	var err error
	switch what {
	case "append":
		err = childAppend(arg)
	case "follow":
		err = childFollow(arg)
	case "open":
		err = childOpen(arg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startChild runs a child on a directory.
func startChild(t testing.TB, what, dir string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, dir)
	cmd.Env = append(os.Environ(), "FILELOG_TEST_CHILD="+what)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewReader(out)
}

// childAppend appends from four goroutines until it is killed, and says what was acknowledged: pid, writer, number.
func childAppend(dir string) error {
	l, err := Open(context.Background(), dir, Options{})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%d %d %d", os.Getpid(), w, i)
				event := name + " " + strings.Repeat("x", (i*i*7919+w*31)%3000)
				if _, err := l.Append(context.Background(), 0, []byte(event)); err != nil {
					errs <- err
					return
				}
				if _, err := os.Stdout.WriteString(name + "\n"); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	return <-errs
}

// childFollow reads without the lock and prints each event, until one says end.
func childFollow(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := OpenReadOnly(ctx, dir, Options{PollEvery: 50 * time.Microsecond})
	if err != nil {
		return err
	}
	f := l.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	fmt.Println("ready")
	for {
		b, err := f.Next(ctx)
		if err != nil {
			return err
		}
		if len(b.Lost) > 0 {
			return fmt.Errorf("lost: %+v", b.Lost)
		}
		for _, e := range b.Events {
			fmt.Printf("%d %s\n", e.Offset, e.Value)
			if string(e.Value) == "end" {
				return errors.Join(f.Close(), l.Close())
			}
		}
	}
}

// childOpen tries to open for writing.
func childOpen(dir string) error {
	l, err := Open(context.Background(), dir, Options{})
	if err != nil {
		fmt.Println(errors.Is(err, ErrLocked), err)
		return nil
	}
	fmt.Println("opened")
	return l.Close()
}
