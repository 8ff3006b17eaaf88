package rlm

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// lose removes the files of a segment, or empties them.
func (l *builtLog) lose(base string, how func(path string) error) {
	l.t.Helper()
	for _, suffix := range []string{".log", ".index", ".timeindex"} {
		if err := how(l.dir + "/" + base + suffix); err != nil {
			l.t.Fatal(err)
		}
	}
}

func empty(path string) error { return os.Truncate(path, 0) }

// A segment that is lost without a trace is told of where compaction does not explain it.
func TestOffload_GapBehindASegment(t *testing.T) {
	const first, middle = "00000000000000000000", "00000000000000000006"
	cleaned := func(l *builtLog, upTo string) { l.beside("cleaner-offset-checkpoint", "0\n1\nbuilt 0 "+upTo+"\n") }
	for name, c := range map[string]struct {
		change func(l *builtLog)
		notice string // the gap; "": none
	}{
		"nothing is lost":                   {func(*builtLog) {}, ""},
		"the middle one is gone":            {func(l *builtLog) { l.lose(middle, os.Remove) }, "offsets 6 to 8 behind segment 0 "},
		"the middle one is empty":           {func(l *builtLog) { l.lose(middle, empty) }, "offsets 6 to 8 behind segment 6 "},
		"this broker has compacted the log": {func(l *builtLog) { l.lose(middle, os.Remove); cleaned(l, "9") }, ""},
		"compaction has emptied it":         {func(l *builtLog) { l.lose(middle, empty); cleaned(l, "7") }, ""},
		"compaction did not come so far":    {func(l *builtLog) { l.lose(middle, os.Remove); cleaned(l, "6") }, "offsets 6 to 8 behind segment 0 "},
		"another partition was compacted": {func(l *builtLog) {
			l.lose(middle, os.Remove)
			l.beside("cleaner-offset-checkpoint", "0\n1\nother 0 9\n")
		}, "offsets 6 to 8 "},
		"a replica of a log that was: between": {func(l *builtLog) {
			l.lose(middle, os.Remove)
			l.lose(first, os.Remove)
			l.segment(0, []batchSpec{{base: 0}, {base: 4, offsets: []int64{4}}}, nil)
		}, ""},
		"a replica of a log that was: inside": {func(l *builtLog) {
			l.lose(middle, os.Remove)
			l.lose(first, os.Remove)
			l.segment(0, []batchSpec{{base: 0, offsets: []int64{0, 2}}}, nil)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := buildLog(t, lin(0, 0), threes(0, 2), threes(6, 1), threes(9, 1), threes(12, 1))
			c.change(l)
			var notices []string
			tr, _, _ := fakes()
			sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{l.dir}, OffloadOptions{OnNotice: func(n Notice) { notices = append(notices, n.Text) }})
			if err != nil || sum.Copied < 2 {
				t.Errorf("%+v, %v", sum, err)
			}
			if want := min(len(c.notice), 1); len(notices) != want || want == 1 && !strings.HasPrefix(notices[0], c.notice) {
				t.Errorf("notices %q, want %q", notices, c.notice)
			}
		})
	}
}

// What the tier has, and the directory has lost, must not be hidden by a copy that claims its offsets.
func TestOffload_GapThatTheTierHolds(t *testing.T) {
	const middle = "00000000000000000006"
	whole := buildLog(t, lin(0, 0), threes(0, 1), threes(3, 1), threes(6, 1), threes(9, 1))
	tr, meta, _ := fakes()
	if _, err := Offload(t.Context(), tr.mm, tr.sm, []string{whole.dir}, OffloadOptions{}); err != nil {
		t.Fatal(err)
	}
	before := len(meta.events)
	hurt := buildLog(t, lin(0, 0), threes(0, 2), threes(6, 1), threes(9, 1), threes(12, 1)) // another replica, which rolls elsewhere
	hurt.lose(middle, os.Remove)
	sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{hurt.dir}, OffloadOptions{})
	if !errors.Is(err, remotelog.ErrCorrupt) || sum.Copied != 0 || sum.Failed != 1 || !strings.Contains(err.Error(), "offsets 6 to 8") {
		t.Errorf("%+v, %v, want a failure that names offsets 6 to 8", sum, err)
	}
	if got := meta.events[before:]; !slices.Equal(got, []string{"list"}) {
		t.Errorf("events %v, want nothing written", got)
	}
	// The same offsets of another history are no proof.
	other := buildLog(t, lin(1, 0), []batchSpec{{base: 0, epoch: 1}}, []batchSpec{{base: 6, epoch: 1}}, []batchSpec{{base: 9, epoch: 1}})
	if sum, err := Offload(t.Context(), tr.mm, tr.sm, []string{other.dir}, OffloadOptions{}); err != nil || sum.Copied != 2 {
		t.Errorf("another history: %+v, %v", sum, err)
	}
}
