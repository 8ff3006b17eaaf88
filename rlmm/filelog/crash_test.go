package filelog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/remotelog"
)

// TestCrash_CutAtEveryByte: a file that ends anywhere keeps its whole groups and loses the rest, and can be written on.
func TestCrash_CutAtEveryByte(t *testing.T) {
	b, ends, values := content(t)
	counts := []int{0, 1, 4, 5}
	for n := range len(b) + 1 {
		dir, path := writeLog(t, b[:n])
		w := &warnings{}
		l, err := open(t.Context(), dir, Options{Logger: newLogger(w)}, openOS)
		if n < headerSize {
			if !errors.Is(err, remotelog.ErrCorrupt) || fileSize(t, path) != int64(n) {
				t.Fatalf("file of %d bytes: %v, want ErrCorrupt and no change", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("file of %d bytes: %v", n, err)
		}
		whole := 0
		for whole+1 < len(ends) && ends[whole+1] <= n {
			whole++
		}
		if got := fileSize(t, path); got != int64(ends[whole]) {
			t.Fatalf("file of %d bytes was cut to %d, want %d", n, got, ends[whole])
		}
		if torn := n > ends[whole]; torn != (w.n == 1) {
			t.Fatalf("file of %d bytes: %d warnings", n, w.n)
		}
		mustAppend(t, l, 0, "next")
		mustClose(t, l)
		l = mustOpen(t, dir, Options{}, nil)
		if d := cmp.Diff(append(values[:counts[whole]:counts[whole]], "next"), mustRead(t, l)); d != "" {
			t.Fatalf("file of %d bytes (-want +got):\n%s", n, d)
		}
		mustClose(t, l)
	}
}

// TestCrash_HolesInTheTail: a system that stored the pages of the last group in any order, or not at all, leaves zeros.
func TestCrash_HolesInTheTail(t *testing.T) {
	b, ends, _ := content(t)
	last := ends[2]
	for from := last; from < len(b); from++ {
		for to := from + 1; to <= len(b); to++ {
			c := bytes.Clone(b)
			clear(c[from:to])
			if bytes.Equal(b, c) {
				continue
			}
			if end := scanBytes(t, c); end != int64(last) {
				t.Fatalf("bytes %d to %d are zero: the log ends at %d, want %d", from, to, end, last)
			}
		}
	}
}

// TestCrash_GroupInsideATornOne: an event may hold the bytes of an older group, and be torn behind it.
func TestCrash_GroupInsideATornOne(t *testing.T) {
	b, ends, _ := content(t)
	h, crc, err := parseHeader("x", b)
	if err != nil {
		t.Fatal(err)
	}
	st := newState(h, crc)
	st.end = tail{pos: int64(len(b)), next: 5, epoch: 7, crc: be(b[ends[2]+4:])}
	long := grow(t, b, &st, 7, 1, string(b[ends[0]:])+"and more")
	for n := ends[3]; n < len(long); n++ {
		if end := scanBytes(t, long[:n]); end != int64(ends[3]) {
			t.Fatalf("cut at %d: the log ends at %d, want %d", n, end, ends[3])
		}
	}
	if end := scanBytes(t, long); end != int64(len(long)) {
		t.Fatalf("whole: the log ends at %d, want %d", end, len(long))
	}
}

// TestCrash_ZeroTail: 1 to 8,192 zeros behind the last group are a torn tail.
func TestCrash_ZeroTail(t *testing.T) {
	b, _, values := content(t)
	for n := 1; n <= 8192; n++ {
		if end := scanBytes(t, append(b[:len(b):len(b)], make([]byte, n)...)); end != int64(len(b)) {
			t.Fatalf("%d zeros: the log ends at %d, want %d", n, end, len(b))
		}
	}
	for _, n := range []int{1, 7, 8, 9, 35, 36, 37, 511, 512, 4095, 4096, 4097, 8191, 8192} {
		dir, path := writeLog(t, append(b[:len(b):len(b)], make([]byte, n)...))
		ro := mustOpenReadOnly(t, dir)
		if d := cmp.Diff(values, mustRead(t, ro)); d != "" || fileSize(t, path) != int64(len(b)+n) {
			t.Fatalf("%d zeros, opened read-only: size %d (-want +got):\n%s", n, fileSize(t, path), d)
		}
		l := mustOpen(t, dir, Options{}, nil)
		if d := cmp.Diff(values, mustRead(t, l)); d != "" || fileSize(t, path) != int64(len(b)) {
			t.Fatalf("%d zeros: cut to %d (-want +got):\n%s", n, fileSize(t, path), d)
		}
		mustClose(t, l)
		mustClose(t, ro)
	}
}

// scanBytes verifies a file in memory and returns where its last whole group ends.
func scanBytes(t testing.TB, b []byte) int64 {
	t.Helper()
	h, crc, err := parseHeader("x", b)
	if err != nil {
		t.Fatal(err)
	}
	at := headerTail(h, crc)
	s := scanner{r: bytes.NewReader(b), name: "x", size: int64(len(b))}
	if err := s.walk(t.Context(), &at, func(tail, group) {}); err != nil {
		t.Fatal(err)
	}
	return at.pos
}

// TestCrash_Kill: kill -9 of a process that appends, at 64 seeded points, half by what it has said and half by what is in the
// file. All that it said was acknowledged is there, in order, once.
func TestCrash_Kill(t *testing.T) {
	dir := t.TempDir()
	path := partitionFile(dir, 0)
	mustClose(t, mustOpen(t, dir, Options{}, nil))
	rng := rand.New(rand.NewPCG(3, 9))
	acknowledged, torn := map[string]bool{}, 0
	rounds := 64
	if testing.Short() {
		rounds = 16
	}
	for round := range rounds {
		cmd, out := startChild(t, "append", dir)
		heard := new(bytes.Buffer)
		if point := rng.IntN(4000); round%2 == 0 {
			if _, err := io.CopyN(heard, out, int64(point)); err != nil {
				t.Fatal(err)
			}
		} else {
			hear := make(chan error, 1)
			go func() { _, err := io.Copy(heard, out); hear <- err }()
			for before := fileSize(t, path); fileSize(t, path) < before+int64(point); {
				runtime.Gosched()
			}
			kill(t, cmd)
			if err := <-hear; err != nil {
				t.Fatal(err)
			}
		}
		if round%2 == 0 {
			kill(t, cmd)
			if _, err := io.Copy(heard, out); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait() // killed
		for line := range strings.Lines(heard.String()) {
			if name, whole := strings.CutSuffix(line, "\n"); whole {
				acknowledged[name] = true
			}
		}
		before := fileSize(t, path)
		l := mustOpen(t, dir, Options{}, nil)
		if fileSize(t, path) < before {
			torn++
		}
		checkKilled(t, round, mustRead(t, l), acknowledged)
		mustClose(t, l)
	}
	t.Logf("%d events acknowledged, %d of %d kills left a torn tail", len(acknowledged), torn, rounds)
	if len(acknowledged) == 0 {
		t.Fatal("nothing was acknowledged in any round")
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

func checkKilled(t *testing.T, round int, values []string, acknowledged map[string]bool) {
	t.Helper()
	next, found := map[string]int{}, 0
	for _, v := range values {
		var pid, w, i int
		if _, err := fmt.Sscanf(v, "%d %d %d", &pid, &w, &i); err != nil {
			t.Fatalf("round %d: event %.40q: %v", round, v, err)
		}
		writer := fmt.Sprint(pid, " ", w)
		if i != next[writer] {
			t.Fatalf("round %d: event %d of writer %s, want %d", round, i, writer, next[writer])
		}
		next[writer]++
		if acknowledged[fmt.Sprint(writer, " ", i)] {
			found++
		}
	}
	if found != len(acknowledged) {
		t.Fatalf("round %d: %d of %d acknowledged events are in the log", round, found, len(acknowledged))
	}
}

// TestLock_SecondWriter: refused in the same process and in another one, free when the holder is killed.
func TestLock_SecondWriter(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{}, nil)
	_, err := Open(t.Context(), dir, Options{})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("(process %d)", os.Getpid())) {
		t.Errorf("second Open: %v, want ErrLocked with this process's id", err)
	}
	try := func() string {
		cmd, out := startChild(t, "open", dir)
		line, err := out.ReadString('\n')
		if err := errors.Join(err, cmd.Wait()); err != nil {
			t.Fatal(err)
		}
		return line
	}
	if got := try(); !strings.HasPrefix(got, "true ") {
		t.Errorf("Open in another process: %q, want ErrLocked", got)
	}
	mustAppend(t, l, 0, "a") // the refused ones have not hurt it
	mustClose(t, l)
	if got := try(); got != "opened\n" {
		t.Errorf("Open in another process after Close: %q", got)
	}
	cmd, out := startChild(t, "append", dir)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("Open while another process appends: %v, want ErrLocked", err)
	}
	kill(t, cmd)
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	mustClose(t, mustOpen(t, dir, Options{}, nil))
}

// TestReader_SecondProcess: a reader in another process sees exactly what was acknowledged, while writes fail at every byte and
// are cut back.
func TestReader_SecondProcess(t *testing.T) {
	dir := t.TempDir()
	x := &faults{}
	l := mustOpen(t, dir, Options{}, x)
	cmd, out := startChild(t, "follow", dir)
	if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	want := []string{}
	for i := range 300 {
		x.set(func(x *faults) { x.write = failAfter(i % 58) }) // the group has 58 to 60 bytes
		if _, err := l.Append(t.Context(), 0, fmt.Appendf(nil, "bad %d", i)); !errors.Is(err, errInjected) {
			t.Fatalf("Append: %v, want the injected error", err)
		}
		x.set(func(x *faults) { x.write = nil })
		if i%3 == 0 {
			mustAppend(t, l, 0, fmt.Sprintf("good %d", i))
			want = append(want, fmt.Sprintf("%d good %d", len(want), i))
		}
	}
	mustAppend(t, l, 0, "end")
	want = append(want, fmt.Sprintf("%d end", len(want)))
	var got []string
	for sc := bufio.NewScanner(out); sc.Scan(); {
		got = append(got, sc.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the reader's events (-want +got):\n%s", d)
	}
}
