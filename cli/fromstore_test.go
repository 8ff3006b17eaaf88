package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/cli"
)

// A store whose metadata are lost is read from its manifests alone, with the same answers.
func TestFromStore_SameAnswersWithoutMetadata(t *testing.T) {
	b := newBed(t, []string{"compression.enabled=true", "custom.metadata.fields.include=REMOTE_SIZE", "key.prefix=tiered/"}, "payments-0", "orders-0", "events-0")
	must(t, "copy", "--config", b.config, b.logs)
	fromLog := lines(t, must(t, "ls", "--config", b.config, "--json").out)
	read := func(more ...string) string {
		return must(t, append([]string{"read", "--config", b.config, "--topic", "payments", "--partition", "0", "--offset", "0", "--isolation", "read_committed", "--json"}, more...)...).out
	}
	records := read()
	if err := os.RemoveAll(filepath.Join(b.store, ".tierkit", "metadata")); err != nil {
		t.Fatal(err)
	}
	fromStore := lines(t, must(t, "ls", "--config", b.config, "--json", "--from-store").out)
	if len(fromStore) != len(fromLog) {
		t.Fatalf("--from-store lists %d segments, the metadata had %d", len(fromStore), len(fromLog))
	}
	for i, want := range fromLog {
		got := fromStore[i]
		if got["state"] != "IN_STORE" || got["customMetadata"] != nil {
			t.Errorf("segment %d: state %v, custom metadata %v, want IN_STORE and null", i, got["state"], got["customMetadata"])
		}
		for _, f := range []string{"topic", "topicId", "partition", "segmentId", "startOffset", "endOffset", "maxTimestampMs", "segmentSizeInBytes", "brokerId", "txnIdxEmpty", "storedBytes", "objectKey"} {
			if got[f] != want[f] {
				t.Errorf("segment %d: %s is %v, want %v", i, f, got[f], want[f])
			}
		}
	}
	if got := read("--from-store"); got != records {
		t.Errorf("--from-store reads other records: %d bytes, want %d", len(got), len(records))
	}
	id := fromStore[0]["segmentId"].(string)
	topic, partition := fromStore[0]["topic"].(string), fromStore[0]["partition"].(json.Number).String()
	got := must(t, "fetch", "--config", b.config, "--from-store", "--topic", topic, "--partition", partition, "--segment", id).out
	if want, err := os.ReadFile(filepath.Join(b.logs, topic+"-"+partition, "00000000000000000000.log")); err != nil || got != string(want) {
		t.Errorf("fetch --from-store: %d bytes, want %d (%v)", len(got), len(want), err)
	}
	fails(t, cli.ExitUsage, []string{"base64"}, "fetch", "--config", b.config, "--from-store", "--topic", topic, "--partition", partition, "--segment", id, "--custom-metadata", "?")
	fails(t, cli.ExitUsage, []string{"--from-store"}, "fetch", "--config", b.config, "--topic", topic, "--partition", partition, "--segment", id, "--custom-metadata", "AAAA")
}

// A wrong prefix looks like an empty store: where it was looked is said.
func TestFromStore_NothingFoundNamesThePrefix(t *testing.T) {
	b := newBed(t, []string{"key.prefix=tiered/"}, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	if r := must(t, "ls", "--config", b.config, "--from-store"); r.err != "" {
		t.Errorf("notice %q", r.err)
	}
	b.configure(t, "key.prefix=teired/")
	for _, args := range [][]string{{}, {"--json"}, {"--topic", "orders"}} {
		r := must(t, append([]string{"ls", "--config", b.config, "--from-store"}, args...)...)
		if !strings.Contains(r.err, `key.prefix="teired/"`) || !strings.Contains(r.err, "check") {
			t.Errorf("%v: notice %q, want the prefix and what to check", args, r.err)
		}
	}
}

// A damaged manifest hides its segment with a notice; the others are there.
func TestFromStore_PassesOverADamagedManifest(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	listed := lines(t, must(t, "ls", "--config", b.config, "--json").out)
	key := listed[0]["objectKey"].(string)
	if err := os.WriteFile(filepath.Join(b.store, key+".rsm-manifest"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := must(t, "ls", "--config", b.config, "--json", "--from-store")
	if got := lines(t, r.out); len(got) != len(listed)-1 {
		t.Errorf("%d segments, want %d", len(got), len(listed)-1)
	}
	if !strings.Contains(r.err, key) {
		t.Errorf("no notice names %s: %q", key, r.err)
	}
}

// One topic name under two ids: every command that is given the name alone lists them.
func TestTopicID_OneNameWithTwoIDs(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	// The topic is deleted and made again: another id, the same files.
	meta := filepath.Join(b.partition("orders-0"), "partition.metadata")
	if err := os.WriteFile(meta, []byte("version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "copy", "--config", b.config, b.logs)
	ids := []string{"AAECAwQFBgcICQoLDA0ODw", "bkbWW1WVTeCuqpixZxbxVA"}
	for _, more := range [][]string{nil, {"--from-store"}} {
		fails(t, cli.ExitUsage, append(ids, "--topic-id"), append([]string{"ls", "--config", b.config, "--topic", "orders"}, more...)...)
		fails(t, cli.ExitUsage, append(ids, "--topic-id"), append([]string{"read", "--config", b.config, "--topic", "orders", "--partition", "0", "--offset", "0"}, more...)...)
		one := must(t, append([]string{"ls", "--config", b.config, "--json", "--topic", "orders", "--topic-id", ids[0]}, more...)...)
		if got := lines(t, one.out); len(got) != 3 || got[0]["topicId"] != ids[0] {
			t.Errorf("--topic-id: %d segments of %v, want 3 of %s", len(got), got[0]["topicId"], ids[0])
		}
	}
	fails(t, cli.ExitUsage, []string{"--topic-id"}, "delete", "--config", b.config, "--topic", "orders", "--partition", "0", "--all")
	must(t, "delete", "--config", b.config, "--topic", "orders", "--partition", "0", "--all", "--topic-id", ids[0])
	if got := lines(t, must(t, "ls", "--config", b.config, "--json").out); len(got) != 3 || got[0]["topicId"] != ids[1] {
		t.Errorf("after the delete of one: %v", got)
	}
}
