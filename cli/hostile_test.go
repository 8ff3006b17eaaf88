package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/golden"
)

// A topic whose name is too long for file names fails alone: nothing of it stays between two phases, and the next copy works.
func TestCopy_ATopicThatTheStoreCannotHoldStopsNobodyElse(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	long := strings.Repeat("t", 249) + "-0"
	if err := os.Rename(b.partition("orders-0"), b.partition(long)); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitFailed, []string{"272 bytes", "storage.backend"}, "copy", "--config", b.config, b.logs)
	if r := must(t, "ls", "--config", b.config, "--json"); r.out != "" {
		t.Errorf("the metadata still have\n%s", r.out)
	}
	if _, err := golden.CopyPartition(b.logs, "orders-1"); err != nil {
		t.Fatal(err)
	}
	must(t, "copy", "--config", b.config, b.partition("orders-1"))
}

// What cannot be cleaned up is reported at every copy, which does the rest of its work.
func TestCopy_GoesOnWhenTheCleanUpOfAnotherSegmentFails(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	objects, _ := b.objects(t)
	topic, _, _ := strings.Cut(objects[0], string(filepath.Separator))
	must(t, "delete", "--config", b.config, "--topic", "orders", "--partition", "0", "--all")
	if err := os.Symlink(t.TempDir(), filepath.Join(b.store, topic)); err != nil { // neither written nor removed through
		t.Fatal(err)
	}
	fails(t, cli.ExitFailed, []string{"removing the failed copy"}, "copy", "--config", b.config, b.logs)
	if _, err := golden.CopyPartition(b.logs, "payments-0"); err != nil {
		t.Fatal(err)
	}
	r := fails(t, cli.ExitFailed, []string{"deleting orders-0/"}, "copy", "--config", b.config, b.partition("payments-0"))
	if !strings.Contains(r.out, "6 segments copied") {
		t.Errorf("payments-0 was not copied:\n%s%s", r.out, r.err)
	}
}
