package conformance

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// labelKey is the pprof label that goroutines inherit from the run that started them.
const labelKey = "tierkit_conformance"

// grace is how long a run's goroutines and descriptors may take to go: connections close behind the scenes.
const grace = 2 * time.Second

// goroutines returns the stacks of those that carry the label, as the goroutine profile groups them.
func goroutines(label string) []string {
	var buf bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&buf, 1); err != nil {
		return []string{err.Error()}
	}
	want := fmt.Sprintf("%q:%q", labelKey, label)
	var out []string
	for group := range strings.SplitSeq(buf.String(), "\n\n") {
		if strings.Contains(group, want) && !strings.Contains(group, "conformance.goroutines") { // not the one that looks
			out = append(out, strings.TrimSpace(group))
		}
	}
	return out
}

// descriptors returns what is open, file name or kind to count; nil where the system does not tell.
func descriptors() map[string]int {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	out := make(map[string]int)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil { // else it is that of ReadDir
			kind, _, _ := strings.Cut(to, ":[") // a socket that was replaced is no leak
			out[kind]++
		}
	}
	return out
}

// poller are descriptors that the runtime opens when it first needs them, and keeps: pipes are what it copies between two sockets with (splice), as
// the suite's own proxy does.
func poller(target string) bool {
	return strings.HasPrefix(target, "anon_inode:") || target == "pipe" || target == "/dev/null" || target == "/dev/urandom"
}

// opened returns what is open in after and was not in before.
func opened(before, after map[string]int) []string {
	var out []string
	for _, to := range slices.Sorted(maps.Keys(after)) {
		if after[to] > before[to] && !poller(to) {
			out = append(out, to)
		}
	}
	return out
}

// files lists what is in a directory.
func files(dir string) []string {
	if dir == "" {
		return nil
	}
	var out []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// settles polls until look finds nothing or the grace has passed, and returns what it found last.
func settles(ctx context.Context, wait time.Duration, look func() []string) []string {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	pause := 10 * time.Millisecond // longer each time: to look costs more than to wait
	tick := time.NewTimer(pause)
	defer tick.Stop()
	for {
		found := look()
		if len(found) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return found
		case <-tick.C:
			pause = min(2*pause, 100*time.Millisecond)
			tick.Reset(pause)
		}
	}
}

// process is the state of the process that runs one at a time are compared with.
type process struct {
	fds  map[string]int
	temp []string
}

func (h *Harness) process() process { return process{descriptors(), files(h.TempDir)} }

// changes tells what is there now and was not before.
func (h *Harness) changes(ctx context.Context, before process) []string {
	return settles(ctx, grace, func() []string {
		var out []string
		now := h.process()
		for _, to := range opened(before.fds, now.fds) {
			out = append(out, "a descriptor is still open: "+to)
		}
		for _, name := range now.temp {
			if !slices.Contains(before.temp, name) {
				out = append(out, "a temp file is left: "+name)
			}
		}
		return out
	})
}
