package rlm

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// Each damage to a log directory is one line that names the file, and leaves nothing behind: no event, no byte.
func TestOffload_BadInputIsOneLineAndLeavesNothing(t *testing.T) {
	const first = "00000000000000000000"
	good := func(t *testing.T) *builtLog {
		return buildLog(t, lin(0, 0, 1, 6),
			[]batchSpec{{base: 0, pid: 5, txn: true}, {base: 3, pid: 5, marker: "abort"}, {base: 6, epoch: 1}},
			[]batchSpec{{base: 9, epoch: 1}})
	}
	change := func(name string, f func([]byte) []byte) func(*builtLog) {
		return func(l *builtLog) { l.write(name, f(l.read(name))) }
	}
	remove := func(name string) func(*builtLog) {
		return func(l *builtLog) {
			if err := os.Remove(filepath.Join(l.dir, name)); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }
	flip := func(at int) func([]byte) []byte { return func(b []byte) []byte { b[at] ^= 1; return b } }
	put := func(s string) func([]byte) []byte { return func([]byte) []byte { return []byte(s) } }
	markerSize := len(batchSpec{base: 3, pid: 5, marker: "abort"}.bytes())
	second := len(batchSpec{base: 0, pid: 5, txn: true}.bytes())
	corrupt, invalid := remotelog.ErrCorrupt, remotelog.ErrInvalidArgument
	for name, c := range map[string]struct {
		damage func(*builtLog)
		kind   error
		names  string
	}{
		"no offset index":                 {remove(first + ".index"), invalid, ".index is missing"},
		"no time index":                   {remove(first + ".timeindex"), invalid, ".timeindex is missing"},
		"no snapshot of the next segment": {remove("00000000000000000009.snapshot"), invalid, "00000000000000000009.snapshot is missing"},
		"offset index cut":                {change(first+".index", cut(3)), corrupt, ".index"},
		"offset index cut by one entry":   {change(first+".index", flip(7)), corrupt, ".index"},
		"offset index of zeros":           {change(first+".index", put(strings.Repeat("\x00", 16))), corrupt, ".index"},
		"offset index of a longer log": {change(first+".index", func(b []byte) []byte {
			return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 8), 5000)
		}), corrupt, ".index"},
		"time index cut":                 {change(first+".timeindex", cut(5)), corrupt, ".timeindex"},
		"time index of a longer segment": {change(first+".timeindex", func(b []byte) []byte { b[len(b)-2] = 1; return b }), corrupt, ".timeindex"},
		"transaction index cut":          {change(first+".txnindex", cut(1)), corrupt, ".txnindex"},
		"transaction index missing":      {remove(first + ".txnindex"), corrupt, ".txnindex"},
		"transaction index empty":        {change(first+".txnindex", put("")), corrupt, ".txnindex"},
		"snapshot cut":                   {change("00000000000000000009.snapshot", cut(1)), corrupt, "00000000000000000009.snapshot"},
		"log shorter by a byte":          {change(first+".log", cut(1)), corrupt, ".log"},
		"log shorter by a batch":         {change(first+".log", cut(91)), corrupt, ".index"},
		"bad CRC in the middle":          {change(first+".log", flip(second+40)), corrupt, "CRC"},
		"base offset too high":           {change(first+".log", flip(7-1)), corrupt, ".log"},
		"wrong leader epoch":             {change(first+".log", flip(15)), corrupt, "leader epoch"},
		"leader epoch of no checkpoint":  {change(first+".log", func(b []byte) []byte { b[second+markerSize+15] ^= 2; return b }), corrupt, "leader epoch 3"},
		"magic 1":                        {change(first+".log", func(b []byte) []byte { b[16] = 1; return b }), invalid, "magic 1"},
		"magic 7":                        {change(first+".log", func(b []byte) []byte { b[16] = 7; return b }), corrupt, "magic 7"},
		"batch length 0":                 {change(first+".log", func(b []byte) []byte { copy(b[8:], "\x00\x00\x00\x00"); return b }), corrupt, ".log"},
		"zeros behind the log":           {change(first+".log", func(b []byte) []byte { return append(b, make([]byte, 100)...) }), corrupt, ".log"},
		"no partition.metadata":          {remove("partition.metadata"), invalid, "partition.metadata"},
		"partition.metadata damaged":     {change("partition.metadata", put("version: 0\n")), corrupt, "topic id"},
		"no leader-epoch-checkpoint":     {remove("leader-epoch-checkpoint"), invalid, "leader-epoch-checkpoint"},
		"leader-epoch-checkpoint cut":    {change("leader-epoch-checkpoint", cut(4)), corrupt, "leader-epoch-checkpoint"},
		"leader-epoch-checkpoint empty":  {change("leader-epoch-checkpoint", put("0\n0\n")), invalid, "leader epoch"},
		"replication checkpoint damaged": {func(l *builtLog) { l.beside("replication-offset-checkpoint", "0\n7\n") }, corrupt, "replication-offset-checkpoint"},
		"log start checkpoint damaged":   {func(l *builtLog) { l.beside("log-start-offset-checkpoint", "x") }, corrupt, "log-start-offset-checkpoint"},
		"meta.properties damaged":        {func(l *builtLog) { l.beside("meta.properties", "node.id=x\n") }, corrupt, "node.id"},
		"log is a directory": {func(l *builtLog) {
			remove(first + ".log")(l)
			if err := os.Mkdir(filepath.Join(l.dir, first+".log"), 0o755); err != nil {
				l.t.Fatal(err)
			}
		}, invalid, first + ".log"},
		"name is no partition": {func(l *builtLog) {
			to := filepath.Join(l.logDir, "built")
			if err := os.Rename(l.dir, to); err != nil {
				l.t.Fatal(err)
			}
			l.dir = to
		}, invalid, "no partition directory"},
		"empty directory": {func(l *builtLog) { l.dir = l.t.TempDir() }, invalid, "neither segments nor partition"},
	} {
		t.Run(name, func(t *testing.T) {
			l := good(t)
			c.damage(l)
			tr, mm, store := fakes()
			sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{})
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.names) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %v naming %q, in one line", err, c.kind, c.names)
			}
			var pe *PartitionError
			if !errors.As(err, &pe) || pe.Dir != l.dir {
				t.Errorf("error is no PartitionError of %s: %#v", l.dir, err)
			}
			if len(mm.segments) != 0 || len(store.segments) != 0 || sum.Copied != 0 || len(store.calls) != 0 {
				t.Errorf("left behind: %d segments in the metadata, %d in the store, calls %v", len(mm.segments), len(store.segments), store.calls)
			}
		})
	}
	t.Run("undamaged", func(t *testing.T) {
		tr, _, _ := fakes()
		if sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{good(t).dir}, OffloadOptions{}); err != nil || sum.Copied != 1 {
			t.Errorf("%+v, %v", sum, err)
		}
	})
}

// The torn end of an active segment, as kill -9 leaves it, is no reason to refuse the closed ones, and is never taken.
func TestOffload_TornActiveSegment(t *testing.T) {
	l := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 3))
	b := l.read("00000000000000000003.log")
	l.write("00000000000000000003.log", b[:len(b)-10])
	tr, mm, _ := fakes()
	if sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{}); err != nil || sum.Copied != 1 {
		t.Errorf("closed only: %+v, %v", sum, err)
	}
	sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{IncludeActive: true})
	if !errors.Is(err, remotelog.ErrCorrupt) || sum.Skipped != 1 || sum.Failed != 1 || !strings.Contains(err.Error(), "recovery") {
		t.Errorf("with the active one: %+v, %v", sum, err)
	}
	if len(mm.segments) != 1 {
		t.Errorf("%d segments in the metadata, want 1", len(mm.segments))
	}
	l.write("00000000000000000003.log", b[:40])
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{IncludeActive: true}); !errors.Is(err, remotelog.ErrCorrupt) {
		t.Errorf("no whole batch: %v", err)
	}
}

// A damaged segment in the middle: what is before it is copied, it and what follows are not, other partitions are.
func TestOffload_DamageInTheMiddleStopsThatPartitionOnly(t *testing.T) {
	bad := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1), threes(6, 1), threes(9, 1))
	b := bad.read("00000000000000000003.log")
	b[70] ^= 1
	bad.write("00000000000000000003.log", b)
	fine, _ := load(t, "orders-0")
	tr, _, store := fakes()
	var failed []SegmentResult
	sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{bad.dir, fine}, OffloadOptions{OnResult: func(r SegmentResult) {
		if r.Result == Failed {
			failed = append(failed, r)
		}
	}})
	if !errors.Is(err, remotelog.ErrCorrupt) || sum != (Summary{Copied: 4, Failed: 1, Bytes: sum.Bytes}) || len(store.segments) != 4 {
		t.Errorf("%+v, %v, %d segments stored", sum, err, len(store.segments))
	}
	if len(failed) != 1 || failed[0].Segment.StartOffset != 3 || failed[0].Segment.EndOffset != 5 || failed[0].Err == nil || failed[0].Segment.Topic != "built" {
		t.Errorf("failed: %+v", failed)
	}
}
