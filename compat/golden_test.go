package compat

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/golden/aiven"
)

// partNames are the parts of a segment as the reader names them, and as the golden data does.
var partNames = map[string]string{
	"log": "log", "OFFSET": "offset", "TIMESTAMP": "timestamp", "PRODUCER_SNAPSHOT": "producerSnapshot",
	"LEADER_EPOCH": "leaderEpoch", "TRANSACTION": "transaction",
}

// sources returns every part of a segment by the reader's name of it, nil for an index that the segment does not have.
func sources(t *testing.T, s *aiven.Segment) map[string][]byte {
	t.Helper()
	parts := map[string][]byte{}
	for name, golden := range partNames {
		if data, ok := s.Part(t, golden); ok {
			parts[name] = append([]byte{}, data...)
		}
	}
	return parts
}

// goldenJob reads a golden segment with the given settings and objects.
func goldenJob(t *testing.T, id string, s *aiven.Segment, config map[string]string, objects map[string][]byte) job {
	t.Helper()
	j := newJob(t, id, s.Metadata(t), config, objects)
	j.Locale = s.Case.JVMLocale
	return j
}

// someRanges picks parts of a log of n bytes: both ends, and a few from a seed.
func someRanges(n int64, seed uint64) [][2]int64 {
	if n == 0 {
		return nil
	}
	ranges := [][2]int64{{0, 0}, {n - 1, n - 1}, {0, n - 1}}
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 5 {
		from := rnd.Int64N(n)
		ranges = append(ranges, [2]int64{from, from + rnd.Int64N(n-from)})
	}
	return ranges
}

// checkWhole compares everything that the reader made of a segment with its sources.
func checkWhole(t *testing.T, j job, results map[string]outcome, want map[string][]byte) {
	t.Helper()
	checkPart(t, j, "log", results["log"], want["log"])
	for i, r := range j.Ranges {
		name := "range-" + strconv.Itoa(i)
		checkPart(t, j, name, results[name], want["log"][r[0]:r[1]+1])
	}
	for _, index := range indexTypes {
		if want[index] != nil {
			checkPart(t, j, index, results[index], want[index])
		} else if o := results[index]; o.root() != "RemoteResourceNotFoundException" {
			t.Errorf("%s: %+v, want RemoteResourceNotFoundException", index, o)
		}
	}
}

func checkPart(t *testing.T, j job, name string, o outcome, want []byte) {
	t.Helper()
	if o.Stage != "" {
		t.Errorf("%s: %+v", name, o)
		return
	}
	if got := readOutput(t, j, name); !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, not equal to the %d of the source", name, len(got), len(want))
	}
}

func TestReader_ReadsEverythingThatThePluginWrote(t *testing.T) {
	var segments []*aiven.Segment
	var jobs []job
	for _, c := range aiven.Cases(t) {
		objects := c.Store(t)
		for i := range c.Segments {
			s := &c.Segments[i]
			j := goldenJob(t, fmt.Sprintf("%s/%d", c.Name, i), s, c.ReadConfig, objects)
			j.Ranges = someRanges(s.SizeInBytes, uint64(len(jobs)))
			segments, jobs = append(segments, s), append(jobs, j)
		}
	}
	results := runReader(t, jobs)
	for i, s := range segments {
		t.Run(jobs[i].ID, func(t *testing.T) {
			if s.PluginReadResult == "" {
				checkWhole(t, jobs[i], results[jobs[i].ID], sources(t, s))
				return
			}
			want := strings.Split(s.PluginReadResult, " <- ")
			if got := results[jobs[i].ID]["log"]; got.Stage != "open" || got.root() != want[len(want)-1] {
				t.Errorf("log: %+v, the plug-in: %s", got, s.PluginReadResult)
			}
		})
	}
}
