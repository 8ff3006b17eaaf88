//go:build unix

package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
)

// phase is where a killed command was.
type phase string

const (
	inLog          phase = "inside .log"
	inIndexes      phase = "inside .indexes"
	inManifest     phase = "inside the manifest"
	beforeFinished phase = "between manifest and FINISHED"
	inDelete       phase = "inside a delete"
	elsewhere      phase = "elsewhere"
)

var crashPhases = []phase{inLog, inIndexes, inManifest, beforeFinished, inDelete}

const (
	killsPerPhase = 12
	crashSeed     = 20261130
)

// TestCrash_KilledAtAnyPointTheNextRunRepairs kills `tierkit copy` and `tierkit delete` with SIGKILL and looks what the next run makes
// of it. The command runs in small steps: it is continued for some microseconds and stopped again, and whenever what is seen in its
// directory says that it is in the phase wanted, it may be killed there. Where it really was is found out afterwards.
func TestCrash_KilledAtAnyPointTheNextRunRepairs(t *testing.T) {
	need.Long(t)
	t.Parallel()
	program := builtCommand(t)
	hits, kills := map[phase]int{}, 0
	deadline := time.Now().Add(8 * time.Minute) // a machine so slow that this does not suffice has hung
	for run := uint64(0); slices.ContainsFunc(crashPhases, func(p phase) bool { return hits[p] < killsPerPhase }); run++ {
		if time.Now().After(deadline) {
			break
		}
		rng := seeded(run)
		want := crashPhases[run%uint64(len(crashPhases))]
		if hits[want] >= killsPerPhase {
			continue
		}
		c := newCrash(t, program, rng, want)
		if got := c.kill(); got != "" {
			hits[got]++
			kills++
		}
		c.checkRepaired()
		if t.Failed() {
			t.Fatalf("seed %d, run %d, wanted %q, partition %s", crashSeed, run, want, c.partition)
		}
		_ = os.RemoveAll(c.dir) // hundreds of runs
	}
	t.Logf("%d kills", kills)
	for _, p := range append(crashPhases, elsewhere) {
		t.Logf("%4d %s", hits[p], p)
		if p != elsewhere && hits[p] < killsPerPhase {
			t.Errorf("only %d kills fell %s, want %d", hits[p], p, killsPerPhase)
		}
	}
}

// builtCommand returns the command, without the race detector: it is stepped through from its start on, and that is quick then.
func builtCommand(t *testing.T) (program string) {
	t.Helper()
	need.Command(t, "go", "it comes with Go")
	program, err := buildCommand()
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// buildCommand builds it, once for all tests. TestMain removes it.
var buildCommand = sync.OnceValues(func() (string, error) {
	program := filepath.Join(built, "tierkit")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", program, "../cmd/tierkit").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
})

// seeded returns the choices of one run.
func seeded(run uint64) *rand.Rand { return rand.New(rand.NewPCG(crashSeed, run)) }

// crash is one command that is killed.
type crash struct {
	bed
	t         *testing.T
	program   string
	rng       *rand.Rand
	want      phase
	partition string // "orders-0"
	topic     string
	number    string

	out  string            // file with what the command printed
	kept map[string]string // start offset -> segment id that was acknowledged before the kill and must stay
	gone []string          // segment ids whose delete was acknowledged
}

func newCrash(t *testing.T, program string, rng *rand.Rand, want phase) *crash {
	t.Helper()
	partitions := []string{"payments-0", "invoices-0", "orders-0", "orders-3", "blobs-0"}
	c := &crash{t: t, program: program, rng: rng, want: want, partition: partitions[rng.IntN(len(partitions))], kept: map[string]string{}}
	settings := []string{"compression.enabled=true", fmt.Sprintf("chunk.size=%d", 1<<(10+rng.IntN(9)))}
	c.bed = newBed(t, settings, c.partition)
	c.topic, c.number, _ = strings.Cut(c.partition, "-")
	c.out = filepath.Join(c.dir, "out")
	if want == inDelete {
		must(t, "copy", "--config", c.config, c.logs)
		for _, m := range c.list() {
			c.kept[m["startOffset"].(json.Number).String()] = m["segmentId"].(string)
		}
	}
	return c
}

// command is the command line that is killed.
func (c *crash) command() []string {
	if c.want == inDelete {
		return []string{"delete", "--config", c.config, "--json", "--topic", c.topic, "--partition", c.number, "--all"}
	}
	return []string{"copy", "--config", c.config, "--json", c.logs}
}

// kill runs the command in steps and kills it. It returns where the command was, "" if it ended before.
func (c *crash) kill() phase {
	out, err := os.Create(c.out)
	if err != nil {
		c.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(c.program, c.command()...) //nolint:noctx // it is killed below, whatever happens
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	pid, skip := cmd.Process.Pid, c.rng.IntN(12) // how many chances are let pass
	for {
		pause(time.Duration(20+c.rng.IntN(300)) * time.Microsecond)
		if !stop(c.t, pid) {
			return "" // it ended by itself
		}
		if c.seen() == c.want {
			if skip == 0 {
				break
			}
			skip--
		}
		sendSignal(c.t, pid, syscall.SIGCONT)
	}
	sendSignal(c.t, pid, syscall.SIGKILL)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || !ws.Signaled() {
		c.t.Fatalf("the killed command: %v, status %v", err, ws)
	}
	c.acknowledged()
	return c.where()
}

// pause lets the command run. It spins: a timer would take longer than some of the phases.
func pause(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		continue
	}
}

// stop stops the process and waits until it stands; false if it has ended.
func stop(t *testing.T, pid int) bool {
	t.Helper()
	sendSignal(t, pid, syscall.SIGSTOP)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	return ws.Stopped()
}

func sendSignal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// newest returns the suffixes of the objects of the segment that was begun last, and whether a temporary file is there.
func (c *crash) newest() (objects map[string]bool, temp bool) {
	objects = map[string]bool{}
	all, leftovers := c.looseObjects()
	slices.Sort(all)
	if len(all) > 0 {
		last := all[len(all)-1]
		stem := strings.TrimSuffix(last, filepath.Ext(last))
		for _, o := range all {
			if strings.HasPrefix(o, stem) {
				objects[filepath.Ext(o)] = true
			}
		}
	}
	return objects, len(leftovers) > 0
}

// looseObjects is objects for a store that changes under the walk.
func (c *crash) looseObjects() (objects, leftovers []string) {
	_ = filepath.WalkDir(c.store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // it was removed just now
		}
		rel, _ := filepath.Rel(c.store, path)
		switch {
		case strings.HasPrefix(rel, filepath.Join(".tierkit", "tmp")):
			leftovers = append(leftovers, rel)
		case !strings.HasPrefix(rel, ".tierkit"):
			objects = append(objects, rel)
		}
		return nil
	})
	return objects, leftovers
}

// seen guesses from the directory where the stopped command is: good enough to choose the moment.
func (c *crash) seen() phase {
	if c.want == inDelete {
		all, _ := c.looseObjects()
		if len(all)%3 != 0 {
			return inDelete
		}
		return elsewhere
	}
	objects, temp := c.newest()
	whole := objects[".rsm-manifest"] || len(objects) == 0
	switch {
	case whole && temp:
		return inLog
	case objects[".rsm-manifest"]:
		return beforeFinished // or later
	case objects[".indexes"] && temp:
		return inManifest
	case objects[".log"] && !objects[".indexes"] && temp:
		return inIndexes
	}
	return elsewhere
}

// list is ls --json of what the metadata log has; none if there is no log yet.
func (c *crash) list() []map[string]any {
	r := run(c.t, "ls", "--config", c.config, "--json")
	if r.code != 0 {
		if _, err := os.Stat(filepath.Join(c.store, ".tierkit", "metadata")); err == nil && !strings.Contains(r.err, "no metadata log") {
			c.t.Errorf("ls after the kill: exit code %d: %s", r.code, r.err)
		}
		return nil
	}
	return lines(c.t, r.out)
}

// where finds out from metadata and objects where the command was killed.
func (c *crash) where() phase {
	all, leftovers := c.looseObjects()
	for _, m := range c.list() {
		has := func(suffix string) bool {
			return slices.ContainsFunc(all, func(o string) bool { return strings.HasSuffix(o, m["segmentId"].(string)+suffix) })
		}
		switch m["state"] {
		case "DELETE_SEGMENT_STARTED":
			return inDelete
		case "COPY_SEGMENT_STARTED":
			switch {
			case has(".rsm-manifest"):
				return beforeFinished
			case len(leftovers) == 0:
				return elsewhere
			case has(".indexes"):
				return inManifest
			case has(".log"):
				return inIndexes
			}
			return inLog
		}
	}
	return elsewhere
}

// acknowledged reads what the command had printed: what it said to be done must stay done.
func (c *crash) acknowledged() {
	b, err := os.ReadFile(c.out)
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var m struct {
			SegmentID   string      `json:"segmentId"`
			StartOffset json.Number `json:"startOffset"`
			Result      string      `json:"result"`
		}
		if !strings.HasSuffix(line, "}\n") || json.Unmarshal([]byte(line), &m) != nil {
			continue // the line that was cut, or a notice
		}
		switch m.Result {
		case "copied":
			c.kept[m.StartOffset.String()] = m.SegmentID
		case "deleted":
			delete(c.kept, m.StartOffset.String())
			c.gone = append(c.gone, m.SegmentID)
		}
	}
}

// checkRepaired runs the command again and checks that everything is as if it had never been killed.
func (c *crash) checkRepaired() {
	c.t.Helper()
	if c.want == inDelete {
		c.checkDeleted()
	}
	must(c.t, "copy", "--config", c.config, c.logs)
	listed := c.list()
	for start, id := range c.kept {
		if c.want != inDelete && !slices.ContainsFunc(listed, func(m map[string]any) bool { return m["segmentId"] == id && m["startOffset"] == json.Number(start) }) {
			c.t.Errorf("segment %s at offset %s was acknowledged and is not there any more", id, start)
		}
	}
	inStore := lines(c.t, must(c.t, "ls", "--config", c.config, "--json", "--from-store").out)
	if len(inStore) != len(listed) {
		c.t.Errorf("the metadata have %d segments, the store %d", len(listed), len(inStore))
	}
	logs, err := filepath.Glob(filepath.Join(c.logs, c.partition, "*.log"))
	if err != nil || len(listed) != len(logs)-1 { // all but the active one
		c.t.Errorf("%d segments are tiered, want %d (%v)", len(listed), len(logs)-1, err)
	}
	for _, m := range listed {
		if m["state"] != "COPY_SEGMENT_FINISHED" {
			c.t.Errorf("segment %v is %v", m["segmentId"], m["state"])
		}
		got := must(c.t, "fetch", "--config", c.config, "--topic", c.topic, "--partition", c.number, "--segment", m["segmentId"].(string)).out
		name := fmt.Sprintf("%020s.log", m["startOffset"])
		if want, err := os.ReadFile(filepath.Join(c.logs, c.partition, name)); err != nil || got != string(want) {
			c.t.Errorf("%s: %d bytes come back, want %d (%v)", name, len(got), len(want), err)
		}
	}
	if objects, leftovers := c.objects(c.t); len(objects) != 3*len(listed) || len(leftovers) > 0 {
		c.t.Errorf("%d objects for %d segments; left over: %v", len(objects), len(listed), leftovers)
	}
}

// checkDeleted deletes again: what is left must be whole before, and gone afterwards.
func (c *crash) checkDeleted() {
	c.t.Helper()
	for _, m := range c.list() {
		if slices.Contains(c.gone, m["segmentId"].(string)) {
			c.t.Errorf("segment %v was deleted and is there again", m["segmentId"])
		}
		if m["state"] == "COPY_SEGMENT_FINISHED" {
			must(c.t, "fetch", "--config", c.config, "--topic", c.topic, "--partition", c.number, "--segment", m["segmentId"].(string))
		}
	}
	if len(c.list()) > 0 {
		must(c.t, "delete", "--config", c.config, "--topic", c.topic, "--partition", c.number, "--all")
	}
	if objects, leftovers := c.objects(c.t); len(objects)+len(leftovers) > 0 {
		c.t.Errorf("after the second delete: %v, %v", objects, leftovers)
	}
}
