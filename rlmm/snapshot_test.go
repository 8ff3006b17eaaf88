package rlmm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog/memlogtest"
)

// history is a seeded sequence of records of a few partitions: overlapping segments, epochs that come and go, deletes, partition
// deletes, records that are void.
type history struct {
	rng   *rand.Rand
	tps   []remotelog.TopicIDPartition
	known []remotelog.SegmentMetadata
	n     int
}

const historyEpochs = 5

func newHistory(t testing.TB, seed uint64, partitions int32) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 21))}
	for p := range partitions {
		h.tps = append(h.tps, kafkaTopic(t, p))
	}
	return h
}

func (h *history) next() rlmm.Record {
	h.n++
	tp := h.tps[h.rng.IntN(len(h.tps))]
	switch x := h.rng.IntN(20); {
	case x == 0:
		return &rlmm.PartitionDeleteRecord{Delete: remotelog.PartitionDelete{TopicIDPartition: tp, State: remotelog.DeleteState(h.rng.IntN(3)), BrokerID: 1}}
	case x < 13 && len(h.known) > 0:
		md := h.known[h.rng.IntN(len(h.known))]
		u := upd(md, remotelog.CopySegmentFinished)
		if h.rng.IntN(3) == 0 {
			u.State = remotelog.State(h.rng.IntN(4))
		}
		u.EventTimestampMs = int64(h.n)
		if h.n%2 == 0 {
			u.CustomMetadata = remotelog.CustomMetadata{byte(h.n)}[:h.n%4/2]
		}
		return &rlmm.UpdateRecord{Update: u}
	}
	start := h.rng.Int64N(40)
	md := seg(tp, h.n, start, start+h.rng.Int64N(25))
	if len(h.known) > 0 && h.rng.IntN(10) == 0 {
		md.SegmentID = h.known[h.rng.IntN(len(h.known))].SegmentID // again, with other offsets
	}
	md.EventTimestampMs, md.TxnIndexEmpty, md.SizeBytes = int64(h.n), h.rng.IntN(2) == 0, h.rng.Int64N(1000)
	epoch := int32(h.rng.IntN(3))
	for at := start; epoch < historyEpochs && at <= md.EndOffset; at += 1 + h.rng.Int64N(20) {
		md.LeaderEpochs = append(md.LeaderEpochs, remotelog.LeaderEpoch{Epoch: epoch, StartOffset: at})
		epoch += 1 + int32(h.rng.IntN(2))
	}
	h.known = append(h.known, md)
	return &rlmm.SegmentRecord{Metadata: md}
}

// answers are all public answers of a manager, as bytes that are equal if and only if they are.
func answers(m *rlmm.Manager, ctx context.Context, tps []remotelog.TopicIDPartition) []byte {
	var b []byte
	num := func(ns ...int64) {
		for _, n := range ns {
			b = binary.BigEndian.AppendUint64(b, uint64(n))
		}
	}
	flag := func(on ...bool) {
		for _, f := range on {
			b = append(b, byte(len(strconv.FormatBool(f))))
		}
	}
	fail := func(err error) {
		if err != nil {
			b = append(b, err.Error()...)
		}
	}
	segment := func(md remotelog.SegmentMetadata) {
		b = append(b, md.ID[:]...)
		num(md.StartOffset, md.EndOffset, md.MaxTimestampMs, int64(md.BrokerID), md.EventTimestampMs, md.SizeBytes, int64(md.State))
		for _, e := range md.LeaderEpochs {
			num(int64(e.Epoch), e.StartOffset)
		}
		flag(md.CustomMetadata == nil, md.TxnIndexEmpty)
		b = append(b, md.CustomMetadata...)
	}
	for tp, err := range m.Partitions(ctx) {
		b = append(b, tp.String()...)
		fail(err)
	}
	for _, tp := range tps {
		flag(m.IsReady(tp))
		borders := map[int64]bool{}
		for md, err := range m.Segments(ctx, tp) {
			segment(md)
			fail(err)
			for i, e := range md.LeaderEpochs {
				for _, o := range []int64{e.StartOffset, md.EpochEnd(i), md.StartOffset, md.EndOffset} {
					borders[o-1], borders[o], borders[o+1] = true, true, true
				}
			}
		}
		for epoch := int32(-1); epoch <= historyEpochs; epoch++ {
			high, ok, err := m.HighestOffset(ctx, tp, epoch)
			size, err2 := m.RemoteLogSize(ctx, tp, epoch)
			num(high, size)
			flag(ok)
			fail(err)
			fail(err2)
			for md, err := range m.SegmentsOfEpoch(ctx, tp, epoch) {
				b = append(b, md.ID[:]...)
				fail(err)
			}
			for o := int64(-1); o < 70; o++ {
				if !borders[o] {
					continue
				}
				md, _, err := m.Segment(ctx, tp, epoch, o)
				b = append(b, md.ID[:]...)
				fail(err)
				md, _, err = m.NextSegmentWithTxnIndex(ctx, tp, epoch, o)
				b = append(b, md.ID[:]...)
				fail(err)
			}
		}
	}
	return b
}

// lines counts what is logged.
type logLines struct {
	mu   sync.Mutex
	text []string
}

func (l *logLines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, string(b))
	return len(b), nil
}

func (l *logLines) about(what string) (n int, all string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.text {
		if strings.Contains(s, what) {
			n++
		}
	}
	return n, strings.Join(l.text, "")
}

// counted are options whose hooks count the events that were read, and whose manager writes no snapshot by itself that matters.
func counted(o rlmm.Options, n *atomic.Int64, step chan struct{}) rlmm.Options {
	seen := func(k int) {
		n.Add(int64(k))
		for ; step != nil && k > 0; k-- {
			step <- struct{}{}
		}
	}
	o.Hooks.Applied = func(_ int32, k int) { seen(k) }
	o.Hooks.Dropped = func(int32, int64, rlmm.DropReason) { seen(1) }
	o.SnapshotEvery = -1
	return o
}

func putSnapshot(t testing.TB, dir string, log rlmm.Log, raw []byte) {
	t.Helper()
	if err := os.WriteFile(rlmm.SnapshotFile(dir, log.Identity()), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func closeNow(t testing.TB, m *rlmm.Manager) {
	t.Helper()
	if err := m.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// begin returns a manager that is ready: one that follows all, or one that was given ps.
func begin(t testing.TB, log rlmm.Log, o rlmm.Options, ps []remotelog.TopicIDPartition) *rlmm.Manager {
	t.Helper()
	m, err := rlmm.New(log, o)
	if err != nil {
		t.Fatal(err)
	}
	if !o.All {
		err = m.Reconcile(context.Background(), ps)
	}
	if err == nil {
		err = m.WaitReady(within(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A snapshot and what came after it have the answers of a replay, wherever the history is cut, and nothing before it is read.
func TestSnapshot_AndTailAreAReplay(t *testing.T) {
	seeds := need.Times(240, 1000)
	if testing.Short() {
		seeds = 60
	}
	dir := t.TempDir()
	for seed := range uint64(seeds) {
		h := newHistory(t, seed, 2)
		log := memlogtest.New(1 + int32(seed%3)*2)
		all := seed%2 == 0
		var read atomic.Int64
		step := make(chan struct{})
		a := begin(t, log, counted(rlmm.Options{All: all}, &read, step), h.tps)
		const events = 16
		cuts := [][]byte{rlmm.EncodeSnapshot(a)}
		for range events {
			raw(t, log, h.next())
			<-step
			cuts = append(cuts, rlmm.EncodeSnapshot(a))
		}
		closeNow(t, a)
		replay := begin(t, log, rlmm.Options{All: all}, h.tps)
		want := answers(replay, t.Context(), h.tps)
		closeNow(t, replay)
		for i, snap := range cuts {
			putSnapshot(t, dir, log, snap)
			var tail atomic.Int64
			var said logLines
			b := begin(t, log, counted(rlmm.Options{All: all, SnapshotDir: filepath.Join(dir), Logger: said.logger()}, &tail, nil), h.tps)
			got := answers(b, t.Context(), h.tps)
			rlmm.StopSnapshots(b)
			closeNow(t, b)
			if !bytes.Equal(got, want) {
				t.Fatalf("seed %d, cut at %d: the answers differ from those of a replay", seed, i)
			}
			if n, text := said.about("is not used"); n > 0 || tail.Load() != int64(events-i) {
				t.Fatalf("seed %d, cut at %d: %d events were read, want %d\n%s", seed, i, tail.Load(), events-i, text)
			}
		}
		if err := os.Remove(rlmm.SnapshotFile(dir, log.Identity())); err != nil {
			t.Fatal(err)
		}
	}
}

// Many partitions are captured a few at a time, while events come in: every one of such snapshots is whole.
func TestSnapshot_TakenWhileReadingGoesOn(t *testing.T) {
	const partitions = 1500
	log := memlogtest.New(1)
	h := newHistory(t, 4, partitions)
	m := begin(t, log, rlmm.Options{All: true}, nil)
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	wg.Go(func() {
		for ctx.Err() == nil {
			raw(t, log, h.next())
		}
	})
	var snaps [][]byte
	for len(snaps) < 4 && ctx.Err() == nil { // only those that were taken across events show something
		if s := rlmm.EncodeSnapshot(m); rlmm.SnapshotSpread(s) {
			snaps = append(snaps, s)
		}
	}
	stop()
	wg.Wait()
	if len(snaps) < 4 {
		t.Fatalf("%d snapshots were taken across events: the test shows nothing", len(snaps))
	}
	closeNow(t, m)
	replay := begin(t, log, rlmm.Options{All: true}, nil)
	tps := h.tps[:200]
	want := answers(replay, t.Context(), tps)
	closeNow(t, replay)
	dir := t.TempDir()
	for i, s := range snaps {
		putSnapshot(t, dir, log, s)
		var said logLines
		b := begin(t, log, rlmm.Options{All: true, SnapshotDir: dir, SnapshotEvery: -1, Logger: said.logger()}, nil)
		if !bytes.Equal(answers(b, t.Context(), tps), want) {
			t.Errorf("snapshot %d: the answers differ", i)
		}
		if n, text := said.about("snapshot"); n > 0 {
			t.Errorf("snapshot %d is not used:\n%s", i, text)
		}
		rlmm.StopSnapshots(b)
		closeNow(t, b)
	}
}

// What does not fit the log is replayed, with one line that says why.
func TestSnapshot_IsUsedOnlyWhereItFits(t *testing.T) {
	tp, other := kafkaTopic(t, 0), kafkaTopic(t, 1)
	write := func(log rlmm.Log, from, n int) {
		for i := from; i < from+n; i++ {
			md := seg(tp, i, int64(10*i), int64(10*i+9), 0, int64(10*i))
			raw(t, log, &rlmm.SegmentRecord{Metadata: md})
			raw(t, log, &rlmm.UpdateRecord{Update: upd(md, finished)})
		}
	}
	cases := []struct {
		name   string
		by     rlmm.Options // of the manager that wrote it
		change func(log *memlogtest.Log, file string, raw []byte)
		says   string
	}{
		{"another log", rlmm.Options{All: true}, func(_ *memlogtest.Log, file string, _ []byte) {
			log := memlogtest.New(1)
			write(log, 50, 3)
			m := begin(t, log, rlmm.Options{All: true}, nil)
			overwrite(t, file, rlmm.EncodeSnapshot(m))
			closeNow(t, m)
		}, "it is of log"},
		{"other number of partitions", rlmm.Options{All: true}, func(_ *memlogtest.Log, file string, raw []byte) {
			binary.BigEndian.PutUint32(raw[12:], 2)
			overwrite(t, file, rlmm.SealSnapshot(raw))
		}, ""},
		{"later format", rlmm.Options{All: true}, func(_ *memlogtest.Log, file string, raw []byte) {
			binary.BigEndian.PutUint32(raw[8:], 2)
			overwrite(t, file, rlmm.SealSnapshot(raw))
		}, "its format has version 2"},
		{"older format", rlmm.Options{All: true}, func(_ *memlogtest.Log, file string, raw []byte) {
			binary.BigEndian.PutUint32(raw[8:], 0)
			overwrite(t, file, rlmm.SealSnapshot(raw))
		}, "its format has version 0"},
		{"damaged", rlmm.Options{All: true}, func(_ *memlogtest.Log, file string, raw []byte) {
			raw[len(raw)/2] ^= 4
			overwrite(t, file, raw)
		}, "it is damaged"},
		{"empty file", rlmm.Options{All: true}, func(_ *memlogtest.Log, file string, _ []byte) { overwrite(t, file, nil) }, "it is damaged"},
		{"a directory", rlmm.Options{All: true}, func(_ *memlogtest.Log, file string, _ []byte) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		{"ahead of the log", rlmm.Options{All: true}, func(log *memlogtest.Log, _ string, _ []byte) {
			mustDo(t, log.Truncate(0, 2))
		}, "the log ends at 2"},
		{"truncated and grown again", rlmm.Options{All: true}, func(log *memlogtest.Log, _ string, _ []byte) {
			mustDo(t, log.Truncate(0, 2))
			write(log, 70, 5)
		}, "truncated"},
		{"behind the head", rlmm.Options{All: true}, func(log *memlogtest.Log, _ string, _ []byte) {
			write(log, 90, 2)
			mustDo(t, log.TrimHead(0, 10))
		}, "the log begins at 10"},
		{"of a manager that had not all", rlmm.Options{}, func(log *memlogtest.Log, _ string, _ []byte) {}, "it has not all partitions"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			log := memlogtest.New(1)
			write(log, 0, 4)
			m := begin(t, log, c.by, []remotelog.TopicIDPartition{other})
			snap := rlmm.EncodeSnapshot(m)
			closeNow(t, m)
			putSnapshot(t, dir, log, snap)
			c.change(log, rlmm.SnapshotFile(dir, log.Identity()), snap)
			var said logLines
			b := begin(t, log, rlmm.Options{All: true, SnapshotDir: dir, SnapshotEvery: -1, Logger: said.logger()}, nil)
			fresh := begin(t, log, rlmm.Options{All: true}, nil)
			if tps := []remotelog.TopicIDPartition{tp, other}; !bytes.Equal(answers(b, t.Context(), tps), answers(fresh, t.Context(), tps)) {
				t.Errorf("the answers are not those of a replay")
			}
			if n, text := said.about("is not used"); n != 1 || !strings.Contains(text, c.says) {
				t.Errorf("want one line with %q, got:\n%s", c.says, text)
			}
			rlmm.StopSnapshots(b)
			closeNow(t, b)
			closeNow(t, fresh)
		})
	}
}

func overwrite(t testing.TB, file string, raw []byte) {
	t.Helper()
	mustDo(t, os.WriteFile(file, raw, 0o600))
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Events that have left the log stay known.
func TestSnapshot_KeepsWhatHasLeftTheLog(t *testing.T) {
	log, dir, tp := memlogtest.New(1), t.TempDir(), kafkaTopic(t, 0)
	m := newManager(t, log, rlmm.Options{SnapshotDir: dir})
	follow(t, m, tp)
	md := seg(tp, 1, 0, 9, 0, 0)
	mustAdd(t, m, md, finished)
	closeNow(t, m)
	mustDo(t, log.TrimHead(0, 2))
	b := newManager(t, log, rlmm.Options{SnapshotDir: dir})
	follow(t, b, tp)
	wantAt(t, b, tp, 0, 5, &md)
	// A partition that is stopped forgets it: it is read from the first offset that there is.
	mustDo(t, b.OnStop([]remotelog.TopicIDPartition{tp}))
	follow(t, b, tp)
	wantAt(t, b, tp, 0, 5, nil)
}

// A partition that the snapshot does not have is loaded beside those that it has.
func TestSnapshot_PartitionThatItLacksIsLoaded(t *testing.T) {
	log, dir := memlogtest.New(1), t.TempDir()
	one, two := kafkaTopic(t, 0), kafkaTopic(t, 1)
	w := newManager(t, log, rlmm.Options{})
	follow(t, w, one, two)
	a, b := seg(one, 1, 0, 9, 0, 0), seg(two, 2, 0, 9, 0, 0)
	mustAdd(t, w, a, finished)
	mustAdd(t, w, b, finished)
	m := newManager(t, log, rlmm.Options{SnapshotDir: dir})
	follow(t, m, one)
	closeNow(t, m)
	n := newManager(t, log, rlmm.Options{SnapshotDir: dir})
	follow(t, n, two, one)
	wantAt(t, n, one, 0, 5, &a)
	wantAt(t, n, two, 0, 5, &b)
	late := kafkaTopic(t, 2) // added behind the place where the snapshot began
	follow(t, n, late)
	wantAt(t, n, late, 0, 5, nil)
}

// The mark of a partition delete survives, and so does the highest offset of an epoch without segments.
func TestSnapshot_HasMarksAndHighestOffsets(t *testing.T) {
	log, dir := memlogtest.New(1), t.TempDir()
	gone, marked := kafkaTopic(t, 0), kafkaTopic(t, 1)
	m := newManager(t, log, rlmm.Options{SnapshotDir: dir, PartitionDelete: true})
	follow(t, m, gone, marked)
	md := seg(marked, 1, 0, 9, 0, 0)
	mustAdd(t, m, md, finished, delStarted, delDone)
	for s := remotelog.DeletePartitionMarked; s.Valid(); s++ {
		mustDo(t, m.PutPartitionDelete(within(t), remotelog.PartitionDelete{TopicIDPartition: gone, State: s}))
	}
	mustDo(t, m.PutPartitionDelete(within(t), remotelog.PartitionDelete{TopicIDPartition: marked, State: remotelog.DeletePartitionMarked}))
	closeNow(t, m)
	mustDo(t, log.TrimHead(0, 7)) // so that the snapshot alone knows
	b := newManager(t, log, rlmm.Options{SnapshotDir: dir, PartitionDelete: true})
	follow(t, b, gone, marked)
	wantErr(t, "Segments of the deleted partition", listErr(b.Segments(t.Context(), gone)), remotelog.ErrNotFound)
	wantErr(t, "Add there", b.Add(within(t), seg(gone, 5, 0, 9, 0, 0)), remotelog.ErrInvalidArgument)
	wantHighest(t, b, marked, 0, 9)
	mustDo(t, b.PutPartitionDelete(within(t), remotelog.PartitionDelete{TopicIDPartition: marked, State: remotelog.DeletePartitionStarted}))
}

func TestSnapshot_IsWrittenAtIntervalsAndAtClose(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T) {
		log, tp := memlogtest.New(2), kafkaTopic(t, 0)
		var written []int64
		m, err := rlmm.New(log, rlmm.Options{SnapshotDir: dir, SnapshotEvery: time.Minute, Hooks: rlmm.Hooks{
			Snapshot: func(_ time.Duration, bytes int64, err error) {
				mustDo(t, err)
				written = append(written, bytes)
			}}})
		mustDo(t, err)
		want := func(n int) {
			t.Helper()
			settle()
			if len(written) != n {
				t.Fatalf("%d snapshots are written, want %d", len(written), n)
			}
		}
		time.Sleep(90 * time.Second)
		want(0) // nothing is followed: an older file stays
		mustDo(t, m.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil))
		mustDo(t, m.WaitReady(t.Context(), tp))
		mustDo(t, m.Add(t.Context(), seg(tp, 1, 0, 9, 0, 0)))
		time.Sleep(time.Minute)
		want(1)
		time.Sleep(10 * time.Minute)
		want(1) // nothing has changed
		mustDo(t, m.Add(t.Context(), seg(tp, 2, 10, 19, 0, 10)))
		mustDo(t, m.Close(t.Context()))
		want(2)
		if info, err := os.Stat(rlmm.SnapshotFile(dir, log.Identity())); err != nil || info.Size() != written[1] {
			t.Errorf("the file: %v, %v, want %d bytes", info, err, written[1])
		}
		mustDo(t, m.Close(t.Context()))
		want(2)
	})
}

// A directory that cannot be written is said to the hook and does not keep Close from ending.
func TestSnapshot_ErrorsAreReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a file")
	overwrite(t, file, nil)
	log, tp := memlogtest.New(1), kafkaTopic(t, 0)
	var failed error
	m := newManager(t, log, rlmm.Options{SnapshotDir: filepath.Join(file, "below"), Hooks: rlmm.Hooks{
		Snapshot: func(_ time.Duration, _ int64, err error) { failed = err }}})
	follow(t, m, tp)
	closeNow(t, m)
	if failed == nil {
		t.Errorf("the hook has no error")
	}
}
