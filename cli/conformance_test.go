package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/conformance"
)

// liar is a driver in memory with mistakes of its choice.
type liar struct {
	backends.Driver
	closesBody bool
	put        func(key string)
	down       error
	gone       func() bool // every call fails from then on; nil: never
}

func (l *liar) away() error {
	if l.gone != nil && l.gone() {
		return backends.Errorf(backends.Unavailable, "nobody answers")
	}
	return l.down
}

func (l *liar) List(ctx context.Context, o backends.ListOptions) (backends.Page, error) {
	if err := l.away(); err != nil {
		return backends.Page{}, err
	}
	return l.Driver.List(ctx, o)
}

func (l *liar) Put(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
	if l.put != nil {
		l.put(key)
	}
	if err := l.away(); err != nil {
		return backends.Info{}, err
	}
	if c, ok := body.(io.Closer); ok && l.closesBody {
		defer c.Close()
	}
	return l.Driver.Put(ctx, key, body, o)
}

// vendor is the registry of a command with one more driver. Its store is space.
func vendor(t *testing.T, space *mem.Space, l liar) *backends.Registry {
	t.Helper()
	reg := registry()
	err := reg.Register(backends.Factory{
		Name: "liar",
		Settings: []backends.Setting{
			{Name: "storage.liar.secret", Type: backends.TypeSecret, Required: true, Doc: "A secret."},
			{Name: "storage.liar.name", Type: backends.TypeString, Doc: "A name."},
		},
		Open: func(_ context.Context, c *backends.Config, env backends.Env) (backends.Driver, error) {
			_ = c.String("storage.liar.name")
			if c.Secret("storage.liar.secret").Reveal() != "planted" {
				return nil, backends.Errorf(backends.InvalidArgument, "the secret is another one")
			}
			d := l
			d.Driver = space.Client(mem.Options{Now: env.Now})
			return &d, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

func propertiesFile(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "store.properties")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func liarFile(t *testing.T) string {
	return propertiesFile(t, "storage.backend=liar", "storage.liar.secret=env:LIAR", "storage.root=/nowhere", "key.prefix=tiered/")
}

func runWith(ctx context.Context, reg *backends.Registry, args ...string) result {
	var out, errs bytes.Buffer
	env := func(name string) (string, bool) { return "planted", name == "LIAR" }
	code := cli.Run(ctx, args, reg, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errs, LookupEnv: env})
	return result{code, out.String(), errs.String()}
}

func TestConformance_OnADirectory(t *testing.T) {
	root := t.TempDir()
	config := propertiesFile(t, "storage.backend=fs", "storage.root="+root, "storage.fs.fsync=false", "key.prefix=tiered/")
	report := filepath.Join(t.TempDir(), "out.json")
	r := must(t, "conformance", "--config", config, "--run", "^(put|get)/[a-m]", "--seed", "11", "--report", report)
	if !strings.Contains(r.out, "fs: ") || !strings.Contains(r.out, " passed, 0 failed, ") || !strings.Contains(r.out, "seed 11") {
		t.Errorf("output: %s", r.out)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 1 { // .tierkit may be there
		t.Errorf("left behind: %v, %v", entries, err)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Driver  string
		Run     string
		Summary struct{ Passed, Failed int }
		Results []struct{ Case, Level, Outcome, Rule string }
	}
	if err := json.Unmarshal(text, &doc); err != nil || doc.Driver != "fs" || doc.Run != "^(put|get)/[a-m]" || doc.Summary.Passed < 20 || len(doc.Results) < doc.Summary.Passed {
		t.Errorf("report: %+v, %v", doc, err)
	}
}

// What somebody needs who has not seen the code is there: on the screen, in both kinds of report.
func TestConformance_AFailureIsExplained(t *testing.T) {
	space := new(mem.Space)
	reg := vendor(t, space, liar{closesBody: true})
	config := liarFile(t)
	for _, kind := range []string{".json", ".md"} {
		report := filepath.Join(t.TempDir(), "out"+kind)
		r := runWith(t.Context(), reg, "conformance", "--config", config, "--run", "^put/(does-not-close-body|one-byte)/driver$", "--seed", "5", "--report", report)
		if r.code != cli.ExitFailed || !strings.Contains(r.err, "1 of 2 cases failed: driver liar does not keep the contract") {
			t.Errorf("exit code %d: %s", r.code, r.err)
		}
		text, err := os.ReadFile(report)
		if err != nil {
			t.Fatal(err)
		}
		for where, text := range map[string]string{"output": r.out, "report" + kind: string(text)} {
			for _, want := range []string{"put/does-not-close-body", "Put never closes the body.", "^put/does-not-close-body/driver$", "5"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s lacks %q:\n%s", where, want, text)
				}
			}
			if strings.Contains(text, "planted") {
				t.Errorf("%s shows the secret:\n%s", where, text)
			}
		}
	}
	if left, err := space.Client(mem.Options{}).List(t.Context(), backends.ListOptions{}); err != nil || len(left.Infos) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A store that is known to fail a case is not the driver's fault; a list that is no longer true is a failure.
func TestConformance_Deviations(t *testing.T) {
	reg := vendor(t, new(mem.Space), liar{closesBody: true})
	list := filepath.Join(t.TempDir(), "known.txt")
	config := liarFile(t)
	try := func(text, report string) result {
		t.Helper()
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return runWith(t.Context(), reg, "conformance", "--config", config, "--run", "^put/(does-not-close-body|one-byte)/driver$", "--seed", "5", "--deviations", list, "--report", report)
	}
	report := filepath.Join(t.TempDir(), "out.md")
	r := try("# of a lie\nput/does-not-close-body it closes bodies\n", report)
	if r.code != cli.ExitOK || !strings.Contains(r.out, "1 passed, 0 failed, 1 known to fail, 0 skipped") || !strings.Contains(r.out, "known: put/does-not-close-body/driver: it closes bodies") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), "| put/does-not-close-body/driver | Put never closes the body. | it closes bodies |") {
		t.Errorf("the report does not tell of it: %v\n%s", err, text)
	}
	r = try("put/does-not-close-body it closes bodies\nput/one-byte it loses it\n", report)
	if r.code != cli.ExitFailed || !strings.Contains(r.out, "the case passes, but is listed as a deviation") || !strings.Contains(r.out, "--deviations "+list+" --run '^put/one-byte/driver$' --seed 5") ||
		!strings.Contains(r.err, "1 of 2 cases pass that --deviations "+list+" lists") {
		t.Errorf("a list that is not true: exit code %d: %s%s", r.code, r.out, r.err)
	}
	if r := try("put/one-bite it loses it\n", report); r.code != cli.ExitUsage || !strings.Contains(r.err, "line 1: there is no case put/one-bite") {
		t.Errorf("a case that there is not: exit code %d: %s", r.code, r.err)
	}
}

// What a vendor says of the driver is used: the dialect brings the cells of the matrix of faults.
func TestConformance_AVendorCompletesTheHarness(t *testing.T) {
	var seen map[string]string
	complete := map[string]func(*conformance.Harness){"liar": func(h *conformance.Harness) {
		seen = h.Settings
		h.Knobs.MissingBucket = map[string]string{"storage.liar.name": "none"}
		h.NoFaults = "nobody may"
	}, "fs": nil}
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), []string{"conformance", "--config", liarFile(t), "--run", "^bucket/missing/driver$", "--json"}, vendor(t, new(mem.Space), liar{}), cli.Stdio{
		In: strings.NewReader(""), Out: &out, Err: &errs, Conformance: complete, Program: "tierkit-liar",
		LookupEnv: func(string) (string, bool) { return "planted", true },
	})
	got := lines(t, out.String())
	if code != cli.ExitFailed || got[0]["outcome"] != "fail" || seen["storage.liar.secret"] != "planted" { // it was run, on a driver that knows no buckets
		t.Errorf("exit code %d: %v, settings %v\n%s", code, got, seen, errs.String())
	}
	if again := fmt.Sprint(got[0]["again"]); !strings.HasPrefix(again, "tierkit-liar conformance --config ") || !strings.Contains(again, " --run '^bucket/missing/driver$' --seed ") {
		t.Errorf("again: %s", again)
	}
}

// A pipe in the place of the report would be waited for.
func TestConformance_TheReportIsAFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "dir.md")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	config := liarFile(t)
	for args, want := range map[[2]string]string{
		{"--report", pipe}: "is a named pipe", {"--report", dir}: "is a directory", {"--deviations", pipe}: "is a named pipe", {"--deviations", dir}: "is a directory",
	} {
		r := runWith(t.Context(), vendor(t, new(mem.Space), liar{}), "conformance", "--config", config, args[0], args[1])
		if r.code != cli.ExitUsage || !strings.Contains(r.err, args[0]+": ") || !strings.Contains(r.err, want) {
			t.Errorf("%v: exit code %d: %s", args, r.code, r.err)
		}
	}
}

func TestConformance_JSON(t *testing.T) {
	r := runWith(t.Context(), vendor(t, new(mem.Space), liar{}), "conformance", "--config", liarFile(t), "--json", "--run", "^get/whole/")
	all := lines(t, r.out)
	if r.code != cli.ExitOK || len(all) != 3 || all[0]["outcome"] != "pass" || all[2]["summary"] == nil {
		t.Errorf("exit code %d: %v\n%s", r.code, all, r.err)
	}
}

// Everything is written below the key prefix, in a namespace of the run's own, and Ctrl-C leaves nothing of it.
func TestConformance_Interrupted(t *testing.T) {
	space := new(mem.Space)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int32
	reg := vendor(t, space, liar{put: func(key string) {
		if !strings.HasPrefix(key, "tiered/tk-") {
			t.Errorf("the suite writes %q", key)
		}
		if n.Add(1) == 20 {
			cancel()
		}
	}})
	report := filepath.Join(t.TempDir(), "out.md")
	r := runWith(ctx, reg, "conformance", "--config", liarFile(t), "--run", "^put/", "--report", report)
	if r.code != cli.ExitInterrupted || !strings.HasSuffix(r.err, "tierkit: interrupted\n") || strings.Contains(r.out, "FAIL") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	if left, err := space.Client(mem.Options{}).List(t.Context(), backends.ListOptions{}); err != nil || len(left.Infos) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), "was not checked to the end") {
		t.Errorf("the report does not tell of it: %v\n%s", err, text)
	}
}

// A store that cannot be used at all is one error, not hundreds of failed cases.
func TestConformance_OfNoStore(t *testing.T) {
	for down, want := range map[error]int{
		backends.Errorf(backends.Unauthenticated, "who are you?"):       cli.ExitFailed,
		backends.Errorf(backends.InvalidArgument, "there is no bucket"): cli.ExitUsage,
	} {
		r := runWith(t.Context(), vendor(t, new(mem.Space), liar{down: down}), "conformance", "--config", liarFile(t))
		if r.code != want || r.out != "" || !strings.Contains(r.err, " probe: ") {
			t.Errorf("%v: exit code %d, want %d: %s%s", down, r.code, want, r.out, r.err)
		}
	}
}

// It is the same for one that goes away in the middle: what fails from then on says nothing about the driver.
func TestConformance_OfAStoreThatGoesAway(t *testing.T) {
	var puts atomic.Int32
	reg := vendor(t, new(mem.Space), liar{put: func(string) { puts.Add(1) }, gone: func() bool { return puts.Load() > 20 }})
	report := filepath.Join(t.TempDir(), "out.md")
	r := runWith(t.Context(), reg, "conformance", "--config", liarFile(t), "--report", report)
	for _, want := range []string{"the store cannot be used any more", "nobody answers", "below tiered/tk-* may still be there"} {
		if r.code != cli.ExitFailed || !strings.Contains(r.err, want) {
			t.Errorf("exit code %d, want %d and %q: %s", r.code, cli.ExitFailed, want, r.err)
		}
	}
	if !strings.Contains(r.out, " 0 failed,") || !strings.Contains(r.out, " not run ") || strings.Contains(r.out, "FAIL") {
		t.Errorf("got %s\nwant no case that failed", r.out)
	}
	if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), "was not checked to the end") || !strings.Contains(string(text), "nobody answers") {
		t.Errorf("the report does not tell of it: %v\n%s", err, text)
	}
}

func TestConformance_Usage(t *testing.T) {
	config := propertiesFile(t, "storage.backend=fs", "storage.root="+t.TempDir())
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"--config FILE is required", nil},
		{"--scale is quick or full", []string{"--config", config, "--scale", "huge"}},
		{"--run: ", []string{"--config", config, "--run", "("}},
		{"no case matches", []string{"--config", config, "--run", "^nothing$"}},
		{"--seed: ", []string{"--config", config, "--seed", "-1"}},
		{"minio", []string{"--config", config, "--deviations", "minnow"}},
		{"--report: ", []string{"--config", config, "--report", "out.pdf"}},
		{"--report: ", []string{"--config", config, "--report", filepath.Join(t.TempDir(), "none", "out.md")}},
		{"storage.rooot", []string{"--config", propertiesFile(t, "storage.backend=fs", "storage.rooot=/x")}},
		{"does not exist", []string{"--config", propertiesFile(t, "storage.backend=fs", "storage.root=/does/not/exist")}},
	} {
		fails(t, cli.ExitUsage, []string{tt.want}, append([]string{"conformance"}, tt.args...)...)
	}
}

func TestConformance_List(t *testing.T) {
	all := lines(t, must(t, "conformance", "--list", "--json").out)
	if len(all) < len(conformance.Cases()) || all[0]["rule"] == "" {
		t.Errorf("%d lines for %d cases: %v", len(all), len(conformance.Cases()), all[:1])
	}
	r := must(t, "conformance", "--list", "--run", "^get/whole/store$")
	if got := strings.Count(r.out, "\n"); got != 2 || !strings.Contains(r.out, "get/whole/store") {
		t.Errorf("list of one case:\n%s", r.out)
	}
}
