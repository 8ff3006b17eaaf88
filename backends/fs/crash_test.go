package fs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

func child(t *testing.T, what, root string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+what+"|"+root)
	return cmd
}

// TestCrash_NoPartialObject kills a writing process at seeded points. Whatever the moment: the object is absent, or whole and not older than the
// last acknowledged version; the next opening leaves no temp file; a new Put works.
func TestCrash_NoPartialObject(t *testing.T) {
	const seed, kills = 7, 60
	rnd := rand.New(rand.NewPCG(seed, seed))
	phases := map[string]int{}
	for i := range kills {
		root := t.TempDir()
		acked, phase := killAt(t, root, rnd, i%3 == 0)
		phases[phase]++
		what := fmt.Sprintf("seed %d, kill %d (%s, version %d acknowledged)", seed, i, phase, acked)
		checkAfterCrash(t, root, what, acked)
		if t.Failed() {
			return
		}
	}
	t.Logf("kills by phase: %v", phases)
	for _, phase := range []string{"in the body", "after the body"} {
		if phases[phase] == 0 {
			t.Errorf("no kill fell %s: %v", phase, phases)
		}
	}
}

// killAt starts a writer and kills it after so many steps, in atEnd at the end of a body.
func killAt(t *testing.T, root string, rnd *rand.Rand, atEnd bool) (acked int, phase string) {
	t.Helper()
	cmd := child(t, "write", root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(out, 1) // not ahead of the writer
	after := 1 + rnd.IntN(blocks*5)
	see := func(b byte) {
		switch b {
		case 'b':
			phase = "in the body"
		case 'e':
			phase = "after the body"
		case 'v':
			phase = "between puts"
			acked++
		}
	}
	for seen := 0; seen < after || atEnd && phase != "after the body"; seen++ {
		b, err := r.ReadByte()
		if err != nil {
			t.Fatalf("the writer ended by itself: %v", err)
		}
		see(b)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(r) // what it had said before it died
	for _, b := range rest {
		see(b)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatalf("the writer ended with %v", err)
	}
	return acked, phase
}

func checkAfterCrash(t *testing.T, root, what string, acked int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "dir/sub/k")) // before anything is cleaned up
	switch {
	case err == nil:
		v := 0
		if _, err := fmt.Sscanf(string(data), "version %d\n", &v); err != nil || string(data) != version(v) {
			t.Errorf("%s: the object is not whole: %d bytes", what, len(data))
		}
		if v != acked && v != acked+1 { // acknowledged, or complete and not yet acknowledged
			t.Errorf("%s: version %d is there", what, v)
		}
	case !errors.Is(err, os.ErrNotExist):
		t.Error(err)
	case acked%3 != 0: // every third version is deleted
		t.Errorf("%s: the object is lost", what)
	}
	if left := tempNames(t, root); len(left) > 1 {
		t.Errorf("%s: one writer left %q", what, left)
	}
	d := open(t, root)
	if left := tempNames(t, root); len(left) > 0 {
		t.Errorf("%s: temp files after opening: %q", what, left)
	}
	put(t, d, "dir/sub/k", "new")
	if err := d.Delete(t.Context(), "dir/sub/k"); err != nil {
		t.Error(err)
	}
	if got := tree(t, root); len(got) > 2 {
		t.Errorf("%s: left at the end: %q", what, got)
	}
}

func tempNames(t *testing.T, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, tempDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestPut_DiskFull(t *testing.T) {
	for _, how := range []string{"full", "limited"} {
		t.Run(how, func(t *testing.T) {
			cmd := child(t, how, t.TempDir())
			if how == "full" {
				cmd.SysProcAttr = ownMounts()
			}
			out, err := cmd.CombinedOutput()
			if how == "full" && (errors.Is(err, syscall.EPERM) || strings.HasPrefix(string(out), "cannot starve")) {
				need.Missing(t, "mount namespaces", "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)")
			}
			if err != nil || !strings.HasSuffix(string(out), "good\n") {
				t.Fatalf("%v\n%s", err, out)
			}
			// On Linux the announced size is refused before the body is read.
			if how == "full" && preallocates && !strings.Contains(string(out), fmt.Sprintf("size %d: read 0 bytes", 5<<20)) {
				t.Errorf("the body was read although there is no room: %s", out)
			}
		})
	}
}
