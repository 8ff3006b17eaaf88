package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/localtiered"
	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/golden"
)

// childEnv makes the test binary act as the command: for tests that kill, limit or run it as somebody else.
const childEnv = "TIERKIT_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		if err := holdLock(path); err != nil {
			panic(err)
		}
		return
	}
	if os.Getenv(childEnv) == "" {
		goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
			_ = os.RemoveAll(built)
			os.Exit(code)
		}))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], registry(), cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, LookupEnv: os.LookupEnv})
	stop()
	os.Exit(code)
}

// built is the directory of the command as a program, for the tests that want one.
var built = filepath.Join(os.TempDir(), fmt.Sprintf("tierkit-cli-%d", os.Getpid()))

func registry() *backends.Registry {
	reg := new(backends.Registry)
	for _, f := range []backends.Factory{fs.Factory(), localtiered.Factory()} {
		if err := reg.Register(f); err != nil {
			panic(err)
		}
	}
	return reg
}

// result is what one run of the command gave.
type result struct {
	code     int
	out, err string
}

// run runs one command line in this process.
func run(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), args, registry(), cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errs})
	return result{code, out.String(), errs.String()}
}

// must runs a command line that has to succeed.
func must(t *testing.T, args ...string) result {
	t.Helper()
	r := run(t, args...)
	if r.code != cli.ExitOK {
		t.Fatalf("tierkit %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r
}

// fails runs a command line that has to fail with that code and one line on standard error that holds every one of want.
func fails(t *testing.T, code int, want []string, args ...string) result {
	t.Helper()
	r := run(t, args...)
	checkFailure(t, r, code, want, args)
	return r
}

func checkFailure(t *testing.T, r result, code int, want []string, args []string) {
	t.Helper()
	if r.code != code {
		t.Errorf("tierkit %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.err)
	}
	lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "tierkit: ") {
		t.Errorf("tierkit %s: standard error ends with %q, want one line of the form \"tierkit: ...\"", strings.Join(args, " "), last)
	}
	for _, w := range want {
		if !strings.Contains(last, w) {
			t.Errorf("tierkit %s: the error is %q, want it to name %q", strings.Join(args, " "), last, w)
		}
	}
}

// lines decodes one JSON object a line.
func lines(t *testing.T, out string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(out) {
		dec := json.NewDecoder(strings.NewReader(line))
		dec.UseNumber()
		var m map[string]any
		if err := dec.Decode(&m); err != nil {
			t.Fatalf("not JSON: %q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

// bed is a store with its configuration and a log directory.
type bed struct {
	dir, config, store, logs string
}

// newBed makes a configuration of the embedded default with the further settings and copies golden partitions into a log directory.
func newBed(t *testing.T, settings []string, partitions ...string) bed {
	t.Helper()
	dir := t.TempDir()
	b := bed{dir: dir, config: filepath.Join(dir, "tierkit.properties"), store: filepath.Join(dir, "store"), logs: filepath.Join(dir, "logs")}
	if err := os.Mkdir(b.store, 0o755); err != nil {
		t.Fatal(err)
	}
	b.configure(t, settings...)
	for _, name := range partitions {
		if _, err := golden.CopyPartition(b.logs, name); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// configure writes the configuration anew.
func (b *bed) configure(t *testing.T, settings ...string) {
	t.Helper()
	text := fmt.Sprintf("storage.backend=fs\nstorage.root=%s\n%s\n", b.store, strings.Join(settings, "\n"))
	if err := os.WriteFile(b.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// partition is the directory of one partition.
func (b *bed) partition(name string) string { return filepath.Join(b.logs, name) }

// objects lists the objects in the store and what else lies below it but the metadata log.
func (b *bed) objects(t *testing.T) (objects, leftovers []string) {
	t.Helper()
	err := filepath.WalkDir(b.store, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(b.store, path)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(rel, filepath.Join(".tierkit", "metadata")):
		case strings.HasPrefix(rel, ".tierkit"):
			leftovers = append(leftovers, rel)
		default:
			objects = append(objects, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects, leftovers
}
