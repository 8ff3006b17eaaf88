package kafkalog

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// listed is the states of a partition's segments by start offset.
func listed(ctx context.Context, t *testing.T, m remotelog.MetadataReader, tp remotelog.TopicIDPartition) map[int64]remotelog.State {
	t.Helper()
	out := map[int64]remotelog.State{}
	for md, err := range m.Segments(ctx, tp) {
		if err != nil {
			t.Fatal(err)
		}
		out[md.StartOffset] = md.State
	}
	return out
}

// resumed is a manager that begins with the snapshot in dir, and how many events it had to read.
func resumed(ctx context.Context, t *testing.T, f *fake, dir string, tp remotelog.TopicIDPartition) (m *rlmm.Manager, applied *atomic.Int64, warned *lines) {
	t.Helper()
	applied, warned = new(atomic.Int64), new(lines)
	m = manager(t, f.open(Options{}), rlmm.Options{
		SnapshotDir: dir, SnapshotEvery: -1, Logger: slog.New(slog.NewTextHandler(warned, nil)), Hooks: rlmm.Hooks{Applied: func(_ int32, n int) { applied.Add(int64(n)) }},
	})
	if err := errors.Join(m.Reconcile(ctx, []remotelog.TopicIDPartition{tp}), m.WaitReady(ctx, tp)); err != nil {
		t.Fatal(err)
	}
	return m, applied, warned
}

// A snapshot over the topic, end to end: the next manager reads what came after and nothing else. One that is ahead of the topic,
// because the topic was cut, and one of another topic or cluster are passed over with one line, and the answer is the topic's.
func TestSnapshot_OverTheTopic(t *testing.T) {
	const n = 20
	f := withTopic(t, 1)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tp := partition("orders", 0)
	m, _, _ := resumed(ctx, t, f, dir, tp)
	for i := range n {
		if err := m.Add(ctx, segment(tp, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}

	m, applied, warned := resumed(ctx, t, f, dir, tp)
	if got := len(listed(ctx, t, m, tp)); got != n || applied.Load() != 0 || warned.count("level=WARN") != 0 {
		t.Errorf("with a snapshot of everything: %d segments, %d events read, %d lines", got, applied.Load(), warned.count("level=WARN"))
	}
	if err := errors.Join(m.Update(ctx, finish(segment(tp, 3))), m.Close(ctx)); err != nil {
		t.Fatal(err)
	}
	id := m.Status().Log

	t.Run("ahead", func(t *testing.T) {
		f.batches(0, func(bs [][]byte) [][]byte { return bs[:5] })
		m, applied, warned := resumed(ctx, t, f, dir, tp)
		got := listed(ctx, t, m, tp)
		if len(got) != 5 || applied.Load() != 5 || warned.count("level=WARN") != 1 {
			t.Errorf("topic cut to 5 events: %d segments, %d events read, %d lines, want 5, 5, 1", len(got), applied.Load(), warned.count("level=WARN"))
		}
	})
	t.Run("another cluster", func(t *testing.T) {
		other := withTopic(t, 1)
		l := other.open(Options{})
		raw, err := os.ReadFile(rlmm.SnapshotFile(dir, id))
		if err == nil {
			err = os.WriteFile(rlmm.SnapshotFile(dir, l.Identity()), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		m, _, warned := resumed(ctx, t, other, dir, tp)
		if got := listed(ctx, t, m, tp); len(got) != 0 || warned.count("level=WARN") != 1 {
			t.Errorf("an empty topic of another cluster: %v, %d lines, want nothing and one", got, warned.count("level=WARN"))
		}
	})
}

// A topic that was made again: the manager over the old one is replaced by one over the new one while calls go on, which takes over
// the assigned set and no segment of the old topic.
func TestSwappable_OverATopicThatWasReplaced(t *testing.T) {
	f := withTopic(t, 2)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tps := []remotelog.TopicIDPartition{partition("orders", 0), partition("orders", 1)}
	options := rlmm.Options{SnapshotDir: dir, SnapshotEvery: -1}
	first := manager(t, f.open(Options{}), options)
	s := rlmm.NewSwappable(first)
	if err := errors.Join(s.OnLeadershipChange(tps, nil), s.WaitReady(ctx, tps...), s.Add(ctx, segment(tps[0], 0))); err != nil {
		t.Fatal(err)
	}
	f.recreate(2)
	waitFor(t, func() bool { return !s.IsReady(tps[0]) })
	old, err := s.Swap(manager(t, f.open(Options{}), options))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(old.Close(ctx), s.WaitReady(ctx, tps...), s.Add(ctx, segment(tps[1], 7))); err != nil {
		t.Fatal(err)
	}
	if got := listed(ctx, t, s, tps[0]); len(got) != 0 {
		t.Errorf("segments of the old topic in the new one: %v", got)
	}
	if got := listed(ctx, t, s, tps[1]); len(got) != 1 {
		t.Errorf("segments of the new topic: %v, want one", got)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	third := manager(t, f.open(Options{}), options) // its snapshot is that of the new topic
	if err := errors.Join(third.Reconcile(ctx, tps), third.WaitReady(ctx, tps...)); err != nil {
		t.Fatal(err)
	}
	if a, b := listed(ctx, t, third, tps[0]), listed(ctx, t, third, tps[1]); len(a) != 0 || len(b) != 1 {
		t.Errorf("after all that: %v and %v, want nothing and one", a, b)
	}
}
