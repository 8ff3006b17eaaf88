package aiven

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// Negative is a golden case with one defect.
type Negative struct {
	Name       string            `json:"name"`
	Base       string            `json:"base"`
	Defect     string            `json:"defect"`
	Changed    []string          `json:"changed"` // "<name>/<key>"
	Removed    []string          `json:"removed"` // keys
	ReadConfig map[string]string `json:"readConfig"`
	Plugin     struct {
		Log struct {
			Outcome          string `json:"outcome"`   // "correct bytes", "error", "NO ERROR, WRONG BYTES"
			Stage            string `json:"stage"`     // "open", "read"
			Exception        string `json:"exception"` // class names from the outermost to the root
			BytesBeforeError int    `json:"bytesBeforeError"`
			BytesReturned    int    `json:"bytesReturned"` // wrong ones
		} `json:"log"`
		Indexes map[string]string `json:"indexes"`
	} `json:"plugin"`
	Case *Case `json:"-"`
}

// Negatives returns the 82 damaged cases in the order of the table.
func Negatives(tb testing.TB) []*Negative {
	tb.Helper()
	var table struct {
		Entries []*Negative `json:"entries"`
	}
	readJSON(tb, filepath.Join(Dir(tb), "negative", "table.json"), &table)
	const want = 82
	if len(table.Entries) != want {
		tb.Fatalf("golden/aiven: %d negative entries, want %d", len(table.Entries), want)
	}
	byName := map[string]*Case{}
	for _, c := range Cases(tb) {
		byName[c.Name] = c
	}
	for _, n := range table.Entries {
		if n.Case = byName[n.Base]; n.Case == nil {
			tb.Fatalf("golden/aiven: %s: no base %q", n.Name, n.Base)
		}
		if n.ReadConfig == nil {
			n.ReadConfig = n.Case.ReadConfig
		} else {
			n.ReadConfig = absolute(tb, n.ReadConfig)
		}
	}
	return table.Entries
}

// Store returns the objects of the entry by their keys.
func (n *Negative) Store(tb testing.TB) map[string][]byte {
	tb.Helper()
	objects := n.Case.Store(tb)
	for _, c := range n.Changed {
		key, ok := strings.CutPrefix(c, n.Name+"/")
		if !ok || objects[key] == nil {
			tb.Fatalf("%s: %q is no object of %s", n.Name, c, n.Base)
		}
		objects[key] = read(tb, filepath.Join(Dir(tb), "negative", filepath.FromSlash(c)))
	}
	for _, key := range n.Removed {
		delete(objects, key)
	}
	return objects
}

// WriteStore lays objects down as files below dir, as Aiven's file system storage and backends/fs have them. Not every file system
// can hold all cases: see Case.Layout.
func WriteStore(tb testing.TB, dir string, objects map[string][]byte) {
	tb.Helper()
	for key, data := range objects {
		path := filepath.Join(dir, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			tb.Fatal(err)
		}
	}
}

func sortEpochs(epochs []remotelog.LeaderEpoch) {
	slices.SortFunc(epochs, func(a, b remotelog.LeaderEpoch) int { return cmp.Compare(a.Epoch, b.Epoch) })
}
