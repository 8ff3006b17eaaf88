package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// copyOfTiered copies what brokers stored with LocalTieredStorage, and returns where it is and where a partition's part of it is.
func copyOfTiered(t *testing.T, partition string) (truth *golden.Truth, root, dir string) {
	t.Helper()
	truth, err := golden.LoadTruth(partition)
	if err != nil {
		t.Fatal(err)
	}
	from, err := golden.Tiered(truth)
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	if err := golden.CopyTree(root, os.DirFS(filepath.Dir(filepath.Dir(from)))); err != nil {
		t.Fatal(err)
	}
	return truth, root, filepath.Join(root, "kafka-tiered-storage", filepath.Base(from))
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
			from, _ := listed[0]["startOffset"].(json.Number).Int64()
			last, _ := listed[len(listed)-1]["endOffset"].(json.Number).Int64()
			checkRecords(t, must(t, append([]string{"read", "--format", "json", "--offset", itoa(from)}, at...)...).out, truth, from, last)
			for i, log := range logs {
				checkFiles(t, at, strings.TrimSuffix(log, ".log"))
				if end, _ := listed[i]["endOffset"].(json.Number).Int64(); i+1 < len(logs) && listed[i+1]["startOffset"] != json.Number(itoa(end+1)) {
					t.Errorf("a segment ends at %d, the next one begins at %v", end, listed[i+1]["startOffset"])
				}
			}
		})
	}
	if seen < 10 {
		t.Errorf("only %d partitions were tiered", seen)
	}
}

// checkFiles compares what fetch and index give of a segment with its files.
func checkFiles(t *testing.T, at []string, base string) {
	t.Helper()
	of := append(at[:len(at):len(at)], "--segment", filepath.Base(base)[21:])
	for ending, command := range map[string][]string{
		".log": {"fetch"}, ".index": {"index", "--type", "offset"}, ".timeindex": {"index", "--type", "timestamp"},
		".snapshot": {"index", "--type", "producer-snapshot"}, ".leader_epoch_checkpoint": {"index", "--type", "leader-epoch"},
		".txnindex": {"index", "--type", "transaction"},
	} {
		want, err := os.ReadFile(base + ending)
		if errors.Is(err, fs.ErrNotExist) && ending == ".txnindex" {
			fails(t, cli.ExitFailed, []string{"no such index"}, append(command, of...)...)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := must(t, append(command, of...)...).out; got != string(want) {
			t.Errorf("%v: %d bytes that are not those of the file, %d", command, len(got), len(want))
		}
	}
}

// A segment of which compaction left nothing is listed, fetched and read over.
func TestLocalTieredStorage_EmptiedSegment(t *testing.T) {
	truth, root, dir := copyOfTiered(t, "catalog-0")
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) != 2 {
		t.Fatalf("%v, %v", logs, err)
	}
	base := strings.TrimSuffix(logs[0], ".log")
	for _, ending := range []string{".log", ".index", ".timeindex"} {
		if err := os.Truncate(base+ending, 0); err != nil {
			t.Fatal(err)
		}
	}
	at := []string{"--config", newTiered(t, root), "--from-store", "--topic", "catalog", "--partition", "0"}
	checkFiles(t, at, base)
	checkRecords(t, must(t, append([]string{"read", "--format", "json", "--offset", "0"}, at...)...).out, truth, 330, 353)
}

// Nothing is ever written there.
func TestLocalTieredStorage_IsReadOnly(t *testing.T) {
	_, root, _ := copyOfTiered(t, "orders-0")
	b := newBed(t, nil, "orders-1")
	fails(t, cli.ExitFailed, []string{"read only"}, "copy", "--config", newTiered(t, root), b.logs)
	if entries, err := os.ReadDir(root); err != nil || len(entries) != 1 {
		t.Errorf("after the refused copy: %v, %v", entries, err)
	}
}
