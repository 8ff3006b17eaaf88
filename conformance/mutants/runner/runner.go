// Package runner is the program that runs cases of the suite on one of many drivers: what the test of package mutants builds, together with the copies of
// drivers that it has put a bug into.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance"
)

// Subject makes the harness of one driver. What done returns ends what it started.
type Subject func() (h conformance.Harness, done func())

// Client opens a driver over one space.
type Client func(now func() time.Time) backends.Driver

// Memory is a driver in memory: each namespace is a space of its own.
func Memory(space func() Client) Subject {
	return func() (conformance.Harness, func()) {
		var mu sync.Mutex
		spaces := make(map[string]Client)
		open := func(_ context.Context, o conformance.OpenOptions) (backends.Driver, error) {
			mu.Lock()
			defer mu.Unlock()
			if spaces[o.Namespace] == nil {
				spaces[o.Namespace] = space()
			}
			return spaces[o.Namespace](o.Env.Now), nil
		}
		return conformance.Harness{Open: open}, func() {}
	}
}

// HTTP is the driver of the example with its server. complete is what a vendor's command would do.
func HTTP(f backends.Factory, server func() http.Handler, complete func(*conformance.Harness)) Subject {
	return func() (conformance.Harness, func()) {
		srv := httptest.NewServer(server())
		h := conformance.Harness{
			Factory: &f, Knobs: conformance.KnobsOf(f),
			Settings: map[string]string{
				"storage.acme.url": srv.URL, "storage.acme.bucket": "segments", "storage.acme.key.id": "key", "storage.acme.secret": "secret",
				"storage.acme.max.retry.delay": "5ms",
			},
		}
		complete(&h)
		h.Knobs.Checksums = map[string]conformance.ChecksumMode{"always": {Header: "Acme-Crc32c"}}
		return h, srv.Close
	}
}

// Result is one line of the output.
type Result struct {
	Case, Level string
	Outcome     conformance.Outcome
	Why         string
	Detail      []string
	Took        time.Duration
}

// Main runs the program with its arguments, without its name, and returns its exit code: 0 whatever the outcomes are.
func Main(subjects map[string]Subject, args []string) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	name := flags.String("subject", "", "which driver")
	run := flags.String("run", "", "which cases, a regular expression of their names")
	full := flags.Bool("full", false, "at the scale full")
	prompt := flags.Duration("prompt", 0, "how late something that happens at once may come; 0 for the suite's default")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	scale := conformance.Quick
	if *full {
		scale = conformance.Full
	}
	if err := report(subjects, *name, *run, scale, *prompt, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err) // there is nobody else to tell
		return 1
	}
	return 0
}

func report(subjects map[string]Subject, name, run string, scale conformance.Scale, prompt time.Duration, out io.Writer) error {
	subject, ok := subjects[name]
	if !ok {
		return fmt.Errorf("no subject %q; there are: %v", name, maps.Keys(subjects))
	}
	only, err := regexp.Compile(run)
	if err != nil {
		return err
	}
	h, done := subject()
	defer done()
	h.Only, h.Seed, h.Scale = only, 1, scale
	h.Limits.OpTimeout, h.Limits.CaseTimeout, h.Limits.HugeBytes = prompt, time.Minute, 64<<20
	enc := json.NewEncoder(out)
	var failed error
	n := 0
	err = conformance.Report(context.Background(), h, func(r conformance.Result) { //nolint:forbidigo // of a whole program
		n++
		if err := enc.Encode(Result{r.Case, r.Level.String(), r.Outcome, r.Why, r.Detail, r.Took}); err != nil {
			failed = err
		}
	})
	if err != nil && n > 0 { // what the suite finds when all cases are over
		return enc.Encode(Result{Outcome: conformance.Fail, Detail: []string{err.Error()}})
	}
	return errors.Join(err, failed)
}
