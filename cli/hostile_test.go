package cli_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// Whatever lies in a log directory under a name of Kafka's: a pipe must not hold the command.
func TestCopy_PipesInALogDirectoryAreRefused(t *testing.T) {
	for _, name := range []string{
		".lock", "meta.properties", "replication-offset-checkpoint", "log-start-offset-checkpoint", "orders-0/partition.metadata",
		"orders-0/leader-epoch-checkpoint", "orders-0/00000000000000000080.snapshot", "orders-0/00000000000000000000.index",
		"orders-0/00000000000000000000.timeindex", "orders-0/00000000000000000000.txnindex", "orders-0/00000000000000000000.log",
	} {
		b := newBed(t, nil, "orders-0")
		path := filepath.Join(b.logs, filepath.FromSlash(name))
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if r := run(t, "copy", "--config", b.config, b.logs); r.code == cli.ExitOK || !strings.Contains(r.err, filepath.Base(name)) {
			t.Errorf("%s: exit code %d\n%s%s", name, r.code, r.out, r.err)
		}
		if objects, left := b.objects(t); len(objects)+len(left) != 0 {
			t.Errorf("%s: left in the store: %q %q", name, objects, left)
		}
	}
}

func TestLs_AMetadataLogThatIsAPipeIsRefused(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	path := filepath.Join(b.store, ".tierkit", "metadata", "partition-0.log")
	remove(t, path)
	if err := syscall.Mkfifo(path, 0o644); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitFailed, []string{"not a regular file"}, "ls", "--config", b.config)
	fails(t, cli.ExitFailed, []string{"partition-0.log"}, "copy", "--config", b.config, b.logs)
}

func TestBadInput_APrefixThatTheStoreCannotHaveIsAMistakeInTheConfiguration(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	for _, prefix := range []string{"/abs/", "../x/", "a//b/", ".tierkit/", ".tierkit/metadata/", strings.Repeat("y", 256) + "/", "a/./"} {
		b.configure(t, "key.prefix="+prefix)
		fails(t, cli.ExitUsage, []string{"key.prefix: "}, "copy", "--config", b.config, b.logs)
		fails(t, cli.ExitUsage, []string{"key.prefix: "}, "ls", "--from-store", "--config", b.config)
	}
	if left, err := os.ReadDir(b.store); err != nil || len(left) != 0 {
		t.Errorf("the store was touched: %v, %v", left, err)
	}
}

// fetch -o puts a file under a name; what is no file must survive that, /dev/null above all.
func TestFetch_OutputToWhatIsNoFile(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	first := lines(t, must(t, "ls", "--config", b.config, "--json").out)[0]
	fetch := func(out string) []string {
		return []string{
			"fetch", "--config", b.config, "--topic", "orders", "--partition", "0", "--segment", first["segmentId"].(string), "-o", out,
		}
	}
	want, err := os.ReadFile(filepath.Join(b.partition("orders-0"), "00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(b.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		data, err := os.ReadFile(pipe)
		got <- fmt.Sprint(string(data), err)
	}()
	must(t, fetch(pipe)...)
	if text := <-got; text != fmt.Sprint(string(want), nil) {
		t.Errorf("the pipe got %d bytes, want %d", len(text), len(want))
	}
	if fi, err := os.Lstat(pipe); err != nil || fi.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe became %v, %v", fi, err)
	}

	file, link := filepath.Join(b.dir, strings.Repeat("f", 255)), filepath.Join(b.dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	must(t, fetch(link)...)
	if data, err := os.ReadFile(file); err != nil || string(data) != string(want) {
		t.Errorf("behind the link: %d bytes, %v", len(data), err)
	}
	if fi, err := os.Lstat(link); err != nil || fi.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link became %v, %v", fi, err)
	}

	fails(t, cli.ExitUsage, []string{"is a directory"}, fetch(b.dir)...)
}

// Kafka has no such topics, so a directory named like one is not a partition's. Where a store or log has them, they do not reach the
// terminal as they are.
func TestCopy_NamesThatNoTopicHasAreRefused(t *testing.T) {
	for _, topic := range []string{"a\nb", "\x1b[31mred", "..", "sp ace", strings.Repeat("t", 250)} {
		b := newBed(t, nil, "orders-0")
		if err := os.Rename(b.partition("orders-0"), b.partition(topic+"-0")); err != nil {
			t.Fatal(err)
		}
		r := fails(t, cli.ExitFailed, []string{"no topic name that Kafka allows"}, "copy", "--config", b.config, b.logs)
		if strings.Count(r.err, "\n") != 1 || strings.Contains(r.err, "\x1b") {
			t.Errorf("%q: standard error is %q", topic, r.err)
		}
	}
}

func TestLs_ControlCharactersOfKeysStayOnTheirLine(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	objects, _ := b.objects(t)
	topic, _, _ := strings.Cut(objects[0], string(filepath.Separator))
	odd := filepath.Join(b.store, topic, "0", "\x1b[2Jx\ny.rsm-manifest")
	if err := os.WriteFile(odd, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := must(t, "ls", "--config", b.config, "--from-store")
	for line := range strings.Lines(r.err) {
		if !strings.HasPrefix(line, "tierkit: ") || !strings.Contains(line, "passed over") || strings.Contains(line, "\x1b") {
			t.Errorf("standard error has %q", line)
		}
	}
}
