package compat

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/golden/aiven"
)

// Outcomes as the table of damaged objects names them.
const (
	correctBytes = "correct bytes"
	wrongBytes   = "NO ERROR, WRONG BYTES"
)

// lastClass takes the root's class out of "A <- B <- C" or "A <- B <- C: message".
func lastClass(chain string) string {
	chain, _, _ = strings.Cut(chain, ": ")
	classes := strings.Split(chain, " <- ")
	return classes[len(classes)-1]
}

func checkDamagedLog(t *testing.T, n *aiven.Negative, got outcome, data, source []byte) {
	t.Helper()
	want := n.Plugin.Log
	switch want.Outcome {
	case correctBytes:
		if got.Stage != "" || !bytes.Equal(data, source) {
			t.Errorf("log: %+v with %d bytes, the plug-in reads it right", got, len(data))
		}
	case wrongBytes:
		if got.Stage != "" || len(data) != want.BytesReturned || bytes.Equal(data, source) {
			t.Errorf("log: %+v with %d bytes, the plug-in reads %d wrong bytes", got, len(data), want.BytesReturned)
		}
	case "error":
		if got.Stage != want.Stage || got.root() != lastClass(want.Exception) {
			t.Errorf("log: %+v, the plug-in fails at %s: %s", got, want.Stage, want.Exception)
		}
		if len(data) != want.BytesBeforeError || !bytes.HasPrefix(source, data) {
			t.Errorf("log: %d bytes before the error, the plug-in gives %d right ones", len(data), want.BytesBeforeError)
		}
	default:
		t.Errorf("outcome %q of the table is unknown", want.Outcome)
	}
}

func checkDamagedIndex(t *testing.T, name, want string, got outcome, data, source []byte) {
	t.Helper()
	switch {
	case want == correctBytes:
		if got.Stage != "" || !bytes.Equal(data, source) {
			t.Errorf("%s: %+v with %d bytes, the plug-in reads it right", name, got, len(data))
		}
	case strings.HasPrefix(want, wrongBytes):
		var n, of int
		if _, err := fmt.Sscanf(strings.TrimPrefix(want, wrongBytes), " (%d of %d)", &n, &of); err != nil {
			t.Fatalf("%s: %q: %v", name, want, err)
		}
		if got.Stage != "" || len(data) != n || len(source) != of || bytes.Equal(data, source) {
			t.Errorf("%s: %+v with %d bytes, the plug-in: %s", name, got, len(data), want)
		}
	default:
		if got.root() != lastClass(want) {
			t.Errorf("%s: %+v, the plug-in: %s", name, got, want)
		}
	}
}

func TestReader_EndsAsThePluginDidWithDamagedObjects(t *testing.T) {
	entries := aiven.Negatives(t)
	jobs := make([]job, 0, len(entries))
	for _, n := range entries {
		jobs = append(jobs, goldenJob(t, n.Name, &n.Case.Segments[0], n.ReadConfig, n.Store(t)))
	}
	results := runReader(t, jobs)
	for i, n := range entries {
		t.Run(n.Name, func(t *testing.T) {
			got, j, source := results[n.Name], jobs[i], sources(t, &n.Case.Segments[0])
			checkDamagedLog(t, n, got["log"], readOutput(t, j, "log"), source["log"])
			seen := 0
			for types, want := range n.Plugin.Indexes {
				for name := range strings.SplitSeq(types, ",") {
					seen++
					checkDamagedIndex(t, name, want, got[name], readOutput(t, j, name), source[name])
				}
			}
			if seen != len(indexTypes) {
				t.Errorf("the table has %d indexes, want %d", seen, len(indexTypes))
			}
		})
	}
}
