package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/golden"
)

// newTiered makes a configuration of the directory that Kafka's LocalTieredStorage left.
func newTiered(t *testing.T, root string) (config string) {
	t.Helper()
	config = filepath.Join(t.TempDir(), "tierkit.properties")
	if err := os.WriteFile(config, fmt.Appendf(nil, "storage.backend=localtiered\nstorage.root=%s\n", root), 0o644); err != nil {
		t.Fatal(err)
	}
	return config
}

// What real brokers stored with LocalTieredStorage is listed and read like any other store, every record as consumers of the brokers
// got it.
func TestLocalTieredStorage_EveryRecordEqualsTheTruth(t *testing.T) {
	seen := 0
	for _, name := range golden.Partitions() {
		truth, err := golden.LoadTruth(name)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := golden.Tiered(truth)
		if err != nil || len(truth.Records) == 0 {
			continue // nothing of it was tiered
		}
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		if len(logs) == 0 {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			config := newTiered(t, filepath.Dir(filepath.Dir(dir)))
			at := []string{"--config", config, "--from-store", "--topic", truth.Topic, "--partition", itoa(int64(truth.Partition))}
			listed := lines(t, must(t, append([]string{"ls", "--json"}, at...)...).out)
			if len(listed) != len(logs) {
				t.Fatalf("%d segments, the directory has %d", len(listed), len(logs))
			}
			first := listed[0]
			if name == "catalog-0" { // compacted: see the package's Layout
				first = listed[len(listed)-1]
			}
			from, _ := first["startOffset"].(json.Number).Int64()
			last, _ := listed[len(listed)-1]["endOffset"].(json.Number).Int64()
			checkRecords(t, must(t, append([]string{"read", "--format", "json", "--offset", itoa(from)}, at...)...).out, truth, from, last)
			log, err := os.ReadFile(logs[0])
			if err != nil {
				t.Fatal(err)
			}
			id := strings.TrimSuffix(filepath.Base(logs[0])[21:], ".log")
			if got := must(t, append([]string{"fetch", "--segment", id}, at...)...).out; got != string(log) {
				t.Errorf("fetch: %d bytes that are not those of the file, %d", len(got), len(log))
			}
			epochs, err := os.ReadFile(strings.TrimSuffix(logs[0], ".log") + ".leader_epoch_checkpoint")
			if err != nil {
				t.Fatal(err)
			}
			if got := must(t, append([]string{"index", "--segment", id, "--type", "leader-epoch"}, at...)...).out; got != string(epochs) {
				t.Errorf("index: %q, want %q", got, epochs)
			}
		})
	}
	if seen < 10 {
		t.Errorf("only %d partitions were tiered", seen)
	}
}

// Nothing is ever written there.
func TestLocalTieredStorage_IsReadOnly(t *testing.T) {
	truth, err := golden.LoadTruth("orders-0")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := golden.Tiered(truth)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := golden.CopyTree(root, os.DirFS(filepath.Dir(filepath.Dir(dir)))); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, nil, "orders-1")
	fails(t, cli.ExitFailed, []string{"read only"}, "copy", "--config", newTiered(t, root), b.logs)
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 1 {
		t.Errorf("after the refused copy: %v, %v", entries, err)
	}
}
