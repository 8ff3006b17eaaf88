package rlm

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/remotelog"
)

func checkRanges(t *testing.T, what string, got [][2]int64, want ...[2]int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: takes %v, want %v", what, got, want)
	}
}

func TestPlan_HighWatermarkAndLogStartBound(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 3), threes(9, 1), threes(12, 1), threes(15, 1))
	a, b, c, active := [2]int64{0, 8}, [2]int64{9, 11}, [2]int64{12, 14}, [2]int64{15, 17}
	_, got := l.plan(PlanOptions{})
	checkRanges(t, "no checkpoint", got, a, b, c)
	_, got = l.plan(PlanOptions{IncludeActive: true})
	checkRanges(t, "no checkpoint, active", got, a, b, c, active)
	for text, want := range map[string][][2]int64{
		"0\n1\nbuilt 0 12\n": {a, b}, // the segment up to 11 ends below 12
		"0\n1\nbuilt 0 11\n": {a},
		"0\n1\nbuilt 0 17\n": {a, b, c},
		"0\n1\nbuilt 0 18\n": {a, b, c, active},
		"0\n1\nbuilt 0 0\n":  nil,
		"0\n1\nother 0 18\n": nil, // nothing says what is committed
	} {
		l.beside("replication-offset-checkpoint", text)
		p, got := l.plan(PlanOptions{IncludeActive: true})
		checkRanges(t, text, got, want...)
		if len(got) < 4 && !slices.ContainsFunc(p.Notices, func(s string) bool { return strings.Contains(s, "high watermark") }) {
			t.Errorf("%q: notices %q", text, p.Notices)
		}
	}
	l.beside("replication-offset-checkpoint", "0\n1\nbuilt 0 18\n")
	for start, want := range map[string][][2]int64{"9": {b, c}, "8": {a, b, c}, "12": {c}, "100": nil} {
		l.beside("log-start-offset-checkpoint", "0\n1\nbuilt 0 "+start+"\n")
		_, got := l.plan(PlanOptions{})
		checkRanges(t, "log start "+start, got, want...)
	}
}

// A transaction is open if its marker is not below the high watermark, whatever the file holds behind it.
func TestPlan_OpenTransactionsBound(t *testing.T) {
	l := buildLog(t, lin(0, 0),
		[]batchSpec{{base: 0}, {base: 3, pid: 5, txn: true}},
		[]batchSpec{{base: 6}},
		[]batchSpec{{base: 9, pid: 5, marker: "commit"}, {base: 10, pid: 5, txn: true}},
		threes(13, 1))
	a, b := [2]int64{0, 5}, [2]int64{6, 8}
	_, got := l.plan(PlanOptions{IncludeActive: true})
	checkRanges(t, "the second transaction is open", got, a, b)
	l.beside("replication-offset-checkpoint", "0\n1\nbuilt 0 9\n")
	_, got = l.plan(PlanOptions{})
	checkRanges(t, "the marker at 9 is not committed", got)
	l.beside("replication-offset-checkpoint", "0\n1\nbuilt 0 10\n")
	_, got = l.plan(PlanOptions{})
	checkRanges(t, "the marker at 9 is committed", got, a, b)
	// The same without any snapshot: all batches are read. A damaged snapshot is passed over.
	for _, s := range []string{"00000000000000000006.snapshot", "00000000000000000009.snapshot", "00000000000000000013.snapshot"} {
		l.write(s, []byte("damaged"))
	}
	_, got = l.plan(PlanOptions{})
	checkRanges(t, "damaged snapshots", got, a, b)
	for _, s := range []string{"00000000000000000006.snapshot", "00000000000000000009.snapshot", "00000000000000000013.snapshot"} {
		if err := os.Remove(filepath.Join(l.dir, s)); err != nil {
			t.Fatal(err)
		}
	}
	_, got = l.plan(PlanOptions{})
	checkRanges(t, "no snapshots", got, a, b)
}

// The bounds are exact: a transaction of one offset at the end of a segment keeps it, a marker at the high watermark is not yet there.
func TestPlan_OpenTransactionAtTheVeryEnd(t *testing.T) {
	l := buildLog(t, lin(0, 0),
		threes(0, 1),
		[]batchSpec{{base: 3, pid: 5, txn: true, offsets: []int64{3}}},
		[]batchSpec{{base: 4}, {base: 7, pid: 5, marker: "commit"}, {base: 8}})
	for high, want := range map[string][][2]int64{"7": {{0, 2}}, "8": {{0, 2}, {3, 3}}} {
		l.beside("replication-offset-checkpoint", "0\n1\nbuilt 0 "+high+"\n")
		_, got := l.plan(PlanOptions{})
		checkRanges(t, "high watermark "+high, got, want...)
	}
}

func TestPlan_BrokerIDFromOptionMetaPropertiesOrNone(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1))
	if p, _ := l.plan(PlanOptions{}); p.BrokerID != -1 {
		t.Errorf("without anything: %d, want -1", p.BrokerID)
	}
	l.beside("meta.properties", "#\nversion=1\nnode.id=4\n")
	if p, _ := l.plan(PlanOptions{}); p.BrokerID != 4 {
		t.Errorf("meta.properties: %d, want 4", p.BrokerID)
	}
	zero := int32(0)
	if p, _ := l.plan(PlanOptions{BrokerID: &zero}); p.BrokerID != 0 {
		t.Errorf("option: %d, want 0", p.BrokerID)
	}
}

// Without a snapshot at its end, the active segment's producers are computed from the newest one and the batches behind it.
func TestPlan_ActiveSegmentGetsAComputedSnapshot(t *testing.T) {
	l := buildLog(t, lin(0, 0), []batchSpec{{base: 0, pid: 5, producer: 1}}, []batchSpec{{base: 3, pid: 6}, {base: 6, pid: 5, producer: 2}})
	p, _ := l.plan(PlanOptions{IncludeActive: true})
	_, data, err := p.Segments[1].Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := readSource(t.Context(), data.ProducerSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	got, err := logfiles.ParseSnapshot(b)
	want := []logfiles.ProducerState{
		{ProducerID: 5, ProducerEpoch: 2, LastSequence: -1, LastOffset: 8, OffsetDelta: 2, TimestampMs: 1008, CoordinatorEpoch: -1, CurrentTxnFirstOffset: -1},
		{ProducerID: 6, LastSequence: -1, LastOffset: 5, OffsetDelta: 2, TimestampMs: 1005, CoordinatorEpoch: -1, CurrentTxnFirstOffset: -1},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Indexes of an active segment: preallocated ones are cut, missing ones are empty.
func TestPlan_ActiveIndexesAreCutOrEmpty(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 3))
	sizes := func() [2]int {
		p, _ := l.plan(PlanOptions{IncludeActive: true})
		_, data, err := p.Segments[1].Prepare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		x, err1 := readSource(t.Context(), data.OffsetIndex)
		y, err2 := readSource(t.Context(), data.TimeIndex)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return [2]int{len(x), len(y)}
	}
	const index, times = "00000000000000000003.index", "00000000000000000003.timeindex"
	l.write(index, append(l.read(index), make([]byte, 4096-16)...))
	l.write(times, append(l.read(times), make([]byte, 4092-36)...))
	if got := sizes(); got != [2]int{16, 36} {
		t.Errorf("preallocated: %v, want 16 and 36", got)
	}
	for _, name := range []string{index, times} {
		if err := os.Remove(filepath.Join(l.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := sizes(); got != [2]int{0, 0} {
		t.Errorf("missing: %v, want none", got)
	}
}

// Where the log start moved into a segment, the checkpoint no longer knows the epochs of its beginning; the batches do.
func TestPlan_EpochsBelowTheCheckpointComeFromTheBatches(t *testing.T) {
	segment := []batchSpec{{base: 0, epoch: 1}, {base: 3, epoch: 3}, {base: 6, epoch: 3}, {base: 9, epoch: 4}}
	l := buildLog(t, lin(3, 6, 4, 9), segment, []batchSpec{{base: 12, epoch: 4}})
	p, _ := l.plan(PlanOptions{})
	md, data, err := p.Segments[0].Prepare(t.Context())
	if err != nil || !slices.Equal(md.LeaderEpochs, lin(1, 0, 3, 3, 4, 9)) || string(data.LeaderEpochs) != "0\n2\n3 6\n4 9\n" {
		t.Errorf("epochs %v, text %q, %v", md.LeaderEpochs, data.LeaderEpochs, err)
	}
	v, _ := l.offloaded(OffloadOptions{})
	if start, end := v.Range(); start != 6 || end != 11 {
		t.Errorf("range [%d, %d], want [6, 11]: below 6 is deleted data", start, end)
	}
}

func TestPlan_LeftOversOfTheBroker(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(3, 1), threes(6, 1))
	for _, name := range []string{"00000000000000000000.log.deleted", "00000000000000000003.log.cleaned", "00000000000000000000.index.deleted",
		"leader-epoch-checkpoint.tmp", "00000000000000000009.snapshot.deleted", "x.log"} {
		l.write(name, []byte("left"))
	}
	_, got := l.plan(PlanOptions{})
	checkRanges(t, "deleted and cleaned files", got, [2]int64{3, 5})
	l.write("00000000000000000003.log.swap", nil)
	if _, err := PlanPartition(t.Context(), l.dir, PlanOptions{}); !errors.Is(err, remotelog.ErrInvalidArgument) || !strings.Contains(err.Error(), ".swap") {
		t.Errorf("interrupted compaction: %v", err)
	}
}

func TestFindPartitions_LogDirectoryOrPartition(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1))
	for _, name := range []string{"other.topic-12", "a-0.0123456789abcdef0123456789abcdef-delete", "a-1.0123456789abcdef0123456789abcdef-future",
		"__consumer_offsets-3", "__cluster_metadata-0"} {
		dir := filepath.Join(l.logDir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "leader-epoch-checkpoint"), []byte("0\n0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(l.logDir, "remote-log-index-cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	elsewhere := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1))
	link := filepath.Join(l.logDir, "linked-7")
	if err := os.Symlink(elsewhere.dir, link); err != nil {
		t.Fatal(err)
	}
	if p, err := PlanPartition(t.Context(), link, PlanOptions{}); err != nil || len(p.Segments) != 1 || p.Topic != "linked" || p.Partition != 7 {
		t.Errorf("linked partition: %+v, %v", p, err)
	}
	want := []string{l.dir, link, filepath.Join(l.logDir, "other.topic-12")}
	if got, err := FindPartitions(l.logDir); err != nil || !slices.Equal(got, want) {
		t.Errorf("log directory: %v, %v, want %v", got, err, want)
	}
	if got, err := FindPartitions(l.dir); err != nil || !slices.Equal(got, []string{l.dir}) {
		t.Errorf("partition directory: %v, %v", got, err)
	}
	if _, err := FindPartitions(t.TempDir()); !errors.Is(err, remotelog.ErrInvalidArgument) {
		t.Errorf("empty directory: %v, want ErrInvalidArgument", err)
	}
	if _, err := FindPartitions(filepath.Join(l.logDir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	fresh := t.TempDir()
	if err := os.WriteFile(filepath.Join(fresh, "meta.properties"), []byte("node.id=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := FindPartitions(fresh); err != nil || len(got) != 0 {
		t.Errorf("log directory without partitions: %v, %v", got, err)
	}
}

// holdLock is the child process of the test below: it holds an fcntl lock as a broker's JVM does, until its input ends.
func holdLock(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		return err
	}
	if _, err := os.Stdout.WriteString("locked\n"); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return f.Close()
}

// startBroker locks a log directory as a broker does, in a child process.
func startBroker(t *testing.T, logDir string) (stop func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), lockEnv+"="+filepath.Join(logDir, ".lock"))
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "locked\n" {
		t.Fatalf("child says %q, %v", line, err)
	}
	return func() {
		t.Helper()
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Fatal(err)
		}
	}
}

// A broker that starts while its directory is copied stops the copy before the next segment.
func TestOffload_StopsWhenABrokerStarts(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1), threes(6, 1))
	tr, mm, st := fakes()
	var stop func()
	sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{OnResult: func(r SegmentResult) {
		if stop == nil {
			stop = startBroker(t, l.logDir)
		}
	}})
	if !errors.Is(err, remotelog.ErrInvalidArgument) || !strings.Contains(err.Error(), "in use") || sum.Copied != 1 || sum.Failed != 1 {
		t.Errorf("%+v, %v, want one copied and the next refused", sum, err)
	}
	if len(mm.segments) != 1 || len(st.segments) != 1 {
		t.Errorf("%d segments in the metadata, %d stored, want 1", len(mm.segments), len(st.segments))
	}
	stop()
}

func TestPlan_RunningBrokerIsRefused(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1))
	l.beside(".lock", "")
	if _, got := l.plan(PlanOptions{}); len(got) != 1 {
		t.Fatalf("a lock that nobody holds: %v", got)
	}
	stop := startBroker(t, l.logDir)
	tr, mm, store := fakes()
	for _, path := range []string{l.dir, l.logDir} {
		_, err := Offload(t.Context(), tr.mm, tr.sm, []string{path}, OffloadOptions{})
		if !errors.Is(err, remotelog.ErrInvalidArgument) || !strings.Contains(err.Error(), "in use") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if len(mm.events) != 0 || len(store.calls) != 0 {
		t.Errorf("something was written: %v, %v", mm.events, store.calls)
	}
	stop()
	if sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{}); err != nil || sum.Copied != 1 {
		t.Errorf("after the broker stopped: %+v, %v", sum, err)
	}
}
