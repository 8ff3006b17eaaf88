package rlmm_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/filelog"
)

func killedPartition() remotelog.TopicIDPartition {
	return remotelog.TopicIDPartition{TopicID: remotelog.UUID{5}, Topic: "killed"}
}

// openKilled opens the file log in dir and a manager over it, with snapshots beside it if every is not 0.
func openKilled(ctx context.Context, dir string, every time.Duration) (*filelog.Log, *rlmm.Manager, error) {
	l, err := filelog.Open(ctx, filepath.Join(dir, "log"), filelog.Options{})
	if err != nil {
		return nil, nil, err
	}
	o := rlmm.Options{}
	if every != 0 {
		o.SnapshotDir, o.SnapshotEvery = filepath.Join(dir, "snapshots"), every
	}
	m, err := rlmm.New(l, o)
	if err == nil {
		err = m.OnLeadershipChange([]remotelog.TopicIDPartition{killedPartition()}, nil)
	}
	if err == nil {
		err = m.WaitReady(ctx, killedPartition())
	}
	return l, m, err
}

// writeUntilKilled is another process: it adds segments, says of each that it was acknowledged, and writes snapshots all the time.
func writeUntilKilled(dir string) int {
	ctx := context.Background()
	_, m, err := openKilled(ctx, dir, time.Millisecond)
	n := 0
	if err == nil {
		for _, lerr := range m.Segments(ctx, killedPartition()) {
			err = errors.Join(err, lerr)
			n++
		}
	}
	for err == nil {
		md := seg(killedPartition(), n, int64(10*n), int64(10*n+9), 0, int64(10*n))
		if err = m.Add(ctx, md); err == nil {
			err = m.Update(ctx, upd(md, finished))
		}
		fmt.Println(n)
		n++
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A process is killed while it writes snapshots, again and again: what it had acknowledged is there, with the snapshot that was left and
// without. Some kill meets a snapshot that is half written.
func TestSnapshot_Killed(t *testing.T) {
	need.Long(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 1))
	half, acked := 0, 0
	for round := 0; round < 10 || half == 0 && round < 60; round++ {
		acknowledged := runAndKill(t, exe, dir, 1+rng.IntN(40))
		temps, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.tmp"))
		if err != nil {
			t.Fatal(err)
		}
		half, acked = max(half, len(temps)), acked+len(acknowledged)
		with, without := segmentsAfter(t, dir, -1), segmentsAfter(t, dir, 0)
		if with != without {
			t.Fatalf("round %d: with the snapshot\n%s\nwithout it\n%s", round, with, without)
		}
		for _, n := range acknowledged {
			if !strings.Contains(with, fmt.Sprintf(" %d %v,", 10*n, finished)) {
				t.Fatalf("round %d: segment %d was acknowledged; there is\n%s", round, n, with)
			}
		}
	}
	t.Logf("%d segments acknowledged, %d snapshots half written", acked, half)
	if half == 0 {
		t.Error("no kill met a snapshot that was half written")
	}
}

// runAndKill runs the child until it has acknowledged some more segments, and returns which.
func runAndKill(t *testing.T, exe, dir string, more int) (acknowledged []int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "RLMM_TEST_CHILD="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		acknowledged = append(acknowledged, n)
		if len(acknowledged) == more { // it may have said more before it dies
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if len(acknowledged) < more {
		t.Fatalf("the child ended by itself after %v", acknowledged)
	}
	return acknowledged
}

// segmentsAfter lists what a manager finds, with a snapshot if every is not 0.
func segmentsAfter(t *testing.T, dir string, every time.Duration) string {
	t.Helper()
	ctx := within(t)
	l, m, err := openKilled(ctx, dir, every)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for md, err := range m.Segments(ctx, killedPartition()) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, " %d %v,", md.StartOffset, md.State)
	}
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}
