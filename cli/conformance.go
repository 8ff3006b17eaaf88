package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/conformance/dialect"
	"github.com/tierkit/tierkit/internal/props"
	"github.com/tierkit/tierkit/internal/settings"
)

// conformanceFlags are what the command line says of a run.
type conformanceFlags struct {
	scale, run, seed   string
	deviations, report string
	list               bool
}

func (a *app) conformanceCmd() *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "conformance [--scale quick|full] [--run REGEXP] [--seed N] [--deviations STORE|FILE] [--report FILE.json|.md] [--list]",
		Short: "check that a store and its driver keep the contract, case by case, in a namespace of its own",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := f.harness()
			if err != nil {
				return err
			}
			if f.list {
				return a.listCases(h)
			}
			return a.conformance(cmd.Context(), h, &f)
		},
	}
	cmd.Flags().StringVar(&f.scale, "scale", "quick", "how thorough: `SCALE` quick takes about a minute beside the store, full many")
	cmd.Flags().StringVar(&f.run, "run", "", "only cases whose name (group/what-holds/driver or .../store) matches `REGEXP`")
	cmd.Flags().StringVar(&f.seed, "seed", "", "repeat a run: the same `N` gives the same keys, bytes and order")
	cmd.Flags().StringVar(&f.deviations, "deviations", "", "cases that the store is known to fail: `STORE` ("+strings.Join(conformance.KnownStores(), ", ")+") or FILE, with a case and the reason in each line")
	cmd.Flags().StringVar(&f.report, "report", "", "write a report to `FILE`, as its name ends: .json or .md")
	cmd.Flags().BoolVar(&f.list, "list", false, "list the cases and what they demand, and run nothing")
	return cmd
}

// harness reads the flags.
func (f *conformanceFlags) harness() (h conformance.Harness, err error) {
	switch f.scale {
	case "quick":
	case "full":
		h.Scale = conformance.Full
	default:
		return h, usagef("--scale is quick or full, not %q", f.scale)
	}
	if f.run != "" {
		if h.Only, err = regexp.Compile(f.run); err != nil {
			return h, usagef("--run: %v", err)
		}
		if !slices.ContainsFunc(caseNames(), h.Only.MatchString) {
			return h, usagef("--run: no case matches %s; --list shows their names", f.run)
		}
	}
	if f.seed != "" {
		if h.Seed, err = strconv.ParseUint(f.seed, 10, 64); err != nil || h.Seed == 0 {
			return h, usagef("--seed: %q is no whole number above 0", f.seed)
		}
	}
	known, err := f.known()
	if err != nil {
		return h, asUsage(fmt.Errorf("--deviations: %w", err))
	}
	known.Apply(&h)
	if f.report != "" && !strings.HasSuffix(f.report, ".json") && !strings.HasSuffix(f.report, ".md") {
		return h, usagef("--report: %s ends neither with .json nor with .md", f.report)
	}
	return h, nil
}

// known reads the list of deviations. The name of a store that has one goes before that of a file; a file of that name is ./minio.
func (f *conformanceFlags) known() (conformance.Known, error) {
	if f.deviations == "" || slices.Contains(conformance.KnownStores(), f.deviations) {
		if f.deviations == "" {
			return conformance.Known{}, nil
		}
		return conformance.KnownOf(f.deviations)
	}
	info, err := os.Stat(f.deviations)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return conformance.Known{}, fmt.Errorf("%s is no file, and none of the stores with a list: %s", f.deviations, strings.Join(conformance.KnownStores(), ", "))
	case err != nil:
		return conformance.Known{}, err
	case !info.Mode().IsRegular(): // a pipe would be waited for
		return conformance.Known{}, fmt.Errorf("%s is %s, not a file", f.deviations, kindOf(info.Mode()))
	}
	text, err := os.ReadFile(f.deviations)
	if err != nil {
		return conformance.Known{}, err
	}
	known, err := conformance.ParseKnown(string(text))
	if err != nil {
		err = fmt.Errorf("%s: %w", f.deviations, err)
	}
	return known, err
}

// kindOf is what stands at a path in place of a file.
func kindOf(m os.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&os.ModeNamedPipe != 0:
		return "a named pipe"
	case m&os.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// again is the command line that runs a case once more.
func (f *conformanceFlags) again(a *app, name string, seed uint64) string {
	args := []string{a.Program, "conformance", "--config", quoted(a.config)}
	if f.scale != "quick" {
		args = append(args, "--scale", f.scale)
	}
	if f.deviations != "" {
		args = append(args, "--deviations", quoted(f.deviations))
	}
	return strings.Join(append(args, "--run", "'^"+name+"$'", "--seed", strconv.FormatUint(seed, 10)), " ")
}

// quoted is a word as a shell takes it.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%=", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// levels are those that a case runs on.
func levels(c *conformance.Case) []conformance.Level {
	if c.Level == conformance.Both {
		return []conformance.Level{conformance.Driver, conformance.Store}
	}
	return []conformance.Level{c.Level}
}

func caseNames() (names []string) {
	for _, c := range conformance.Cases() {
		for _, l := range levels(&c) {
			names = append(names, c.ID+"/"+l.String())
		}
	}
	return names
}

// caseJSON is the JSON shape of conformance --list.
type caseJSON struct {
	Case  string `json:"case"`
	Level string `json:"level"`
	Scale string `json:"scale"`
	Rule  string `json:"rule"`
}

func (a *app) listCases(h conformance.Harness) error {
	t := newTable(a.Out, "CASE", "SCALE", "WHAT MUST HOLD")
	for _, c := range conformance.Cases() {
		for _, l := range levels(&c) {
			row := caseJSON{c.ID, l.String(), "quick", c.Rule}
			if c.Scale == conformance.Full {
				row.Scale = "full"
			}
			name := row.Case + "/" + row.Level
			if c.Scale > h.Scale && h.Scale == conformance.Full || h.Only != nil && !h.Only.MatchString(name) {
				continue
			}
			if !a.json {
				t.row(name, row.Scale, row.Rule)
				continue
			}
			if err := a.printJSON(row); err != nil {
				return err
			}
		}
	}
	if a.json {
		return nil
	}
	return t.flush()
}

// target completes a harness with the store that the configuration names.
func (a *app) target(ctx context.Context, h *conformance.Harness) (*backends.Choice, error) {
	if a.config == "" {
		return nil, usagef("--config FILE is required: a broker's server.properties, or the storage.* settings of the store to check")
	}
	file, err := props.Load(a.config)
	if file == nil {
		return nil, asUsage(err)
	}
	o := settings.Options{Getenv: a.LookupEnv, Prefix: file.RSMPrefix}
	choice, perr := a.registry.Parse(file.RSM, o)
	if err := errors.Join(err, perr); err != nil {
		return nil, asUsage(fmt.Errorf("%s: %w", a.config, err))
	}
	for _, n := range file.Notices {
		a.notice(n)
	}
	h.Factory, h.Prefix = &choice.Factory, file.RSM["key.prefix"]
	if h.Settings, err = a.resolved(choice.Factory.Settings, file.RSM); err != nil {
		return nil, err
	}
	h.Knobs = conformance.KnobsOf(choice.Factory)
	a.suite(h, choice)
	// Before the first case comes what would fail all of them: wrong credentials, a bucket that is not there.
	if err = a.probe(ctx, choice, a.log); errors.Is(err, backends.InvalidArgument) {
		err = asUsage(err)
	}
	return choice, err
}

// probe finds out whether the store can be used.
func (a *app) probe(ctx context.Context, c *backends.Choice, log *slog.Logger) error {
	s, err := c.Open(ctx, backends.Options{Env: backends.Env{Log: log, Now: a.Now}})
	if err != nil {
		return err
	}
	return errors.Join(s.Probe(ctx), s.Close())
}

// answersWithin is how long a store may take for a probe when a case has failed.
const answersWithin = 30 * time.Second

// gone finds out, when a case has failed, whether the store has gone away: then all that follow would fail too, and none would say anything
// about the driver.
func (a *app) gone(ctx context.Context, h *conformance.Harness, c *backends.Choice, name string) error {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	err := a.probe(ctx, c, slog.New(slog.DiscardHandler)) // it was said already
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it does not answer within %s", answersWithin)
	}
	return fmt.Errorf("the store cannot be used any more, found out when %s failed: %w; the run was ended, and what it wrote below %stk-* may still be there", name, err, h.Prefix)
}

// resolved are the settings of one driver, with the secrets that the environment holds: the suite opens drivers without it.
func (a *app) resolved(table []backends.Setting, all map[string]string) (map[string]string, error) {
	out := make(map[string]string)
	for _, s := range table {
		text, given := all[s.Name]
		if !given {
			continue
		}
		name, env := strings.CutPrefix(strings.TrimSpace(text), "env:")
		if s.Type == backends.TypeSecret && env {
			text, given = a.LookupEnv(name)
			if !given { // Parse has found it a moment ago
				return nil, usagef("%s: there is no %s in the environment", s.Name, name)
			}
		}
		out[s.Name] = text
	}
	return out, nil
}

// suite completes the harness by what the command was made with, or by what is known of a built-in driver.
func (a *app) suite(h *conformance.Harness, c *backends.Choice) {
	if complete := a.Conformance[c.Factory.Name]; complete != nil {
		complete(h)
		return
	}
	switch c.Factory.Name {
	case "s3":
		h.Dialect = dialect.S3{VirtualHost: c.Config.String("storage.s3.endpoint.url") == "" && !c.Config.Bool("storage.s3.path.style.access.enabled")}
		s3Credentials(h)
	case "gcs":
		h.Dialect = dialect.GCS{}
	case "azure":
		h.Dialect = dialect.Azure{}
		azureCredentials(h)
		h.Knobs.Endpoint = behind(h.Knobs.Endpoint, c.Config.String("storage.azure.endpoint.url"))
	}
}

// behind keeps the path of a URL in those that take its place: the account is in Azurite's.
func behind(endpoint func(string) map[string]string, at string) func(string) map[string]string {
	u, err := url.Parse(at)
	if endpoint == nil || err != nil || u.Path == "" {
		return endpoint
	}
	return func(url string) map[string]string { return endpoint(url + u.Path) }
}

// conformance runs the suite.
func (a *app) conformance(ctx context.Context, h conformance.Harness, f *conformanceFlags) error {
	choice, err := a.target(ctx, &h)
	if err != nil {
		return err
	}
	file, err := openReport(f.report)
	if err != nil {
		return err
	}
	names := caseNames() //nolint:contextcheck // a case takes its context when it runs
	if h.Only != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !h.Only.MatchString(name) })
	}
	r := &conformanceReport{Driver: h.Factory.Name, Version: a.version.Version, Config: a.config, Scale: f.scale, Run: f.run, Started: a.Now().UTC(), now: a.Now}
	r.Go, r.Platform, r.Settings, r.Prefix = a.version.Go, a.version.Platform, shownSettings(choice.Config, h.Settings), h.Prefix
	r.Deviations, r.Cases, r.Summary.Seed = f.deviations, len(names), h.Seed
	p := a.newProgress()
	p.show("opening %s", r.Driver)
	run, end := context.WithCancelCause(ctx)
	defer end(nil)
	err = conformance.Report(run, h, func(res conformance.Result) {
		if run.Err() != nil && res.Outcome == conformance.Fail {
			return // it was ended in the middle
		}
		if res.Outcome == conformance.Fail {
			if gone := a.gone(run, &h, choice, res.Name()); gone != nil {
				end(gone)
				return
			}
			res.Again = f.again(a, res.Name(), res.Seed)
		}
		r.add(res)
		p.clear()
		a.result(res)
		p.show("%d of %d cases, %d failed: %s", len(r.Results), len(names), r.Summary.Failed, res.Name())
	})
	p.clear()
	r.end(err, names)
	if err := errors.Join(file.write(r), a.verdict(r)); err != nil {
		return err
	}
	switch {
	case err != nil:
		return err
	case r.outdated():
		return fmt.Errorf("%d of %d cases pass that --deviations %s lists as known to fail: take them off the list", r.Summary.Failed, len(r.Results), f.deviations)
	case r.Summary.Failed > 0:
		return fmt.Errorf("%d of %d cases failed: driver %s does not keep the contract with this store", r.Summary.Failed, len(r.Results), r.Driver)
	}
	return nil
}

// result shows one result as it comes: for people only what is not as it should be.
func (a *app) result(res conformance.Result) {
	switch {
	case a.json:
		_ = a.printJSON(caseResultOf(res)) // verdict writes too, and reports it
	case res.Outcome == conformance.Fail:
		_ = a.printf("%s\n", printableLines(res.String())) // the same
	}
}

// verdict is the end of the output.
func (a *app) verdict(r *conformanceReport) error {
	if a.json {
		return a.printJSON(map[string]any{"summary": r.Summary})
	}
	s := r.Summary
	text := fmt.Sprintf("%s: %d passed, %d failed, %s%d skipped%s in %s (scale %s, seed %d)\n", r.Driver, s.Passed, s.Failed, deviating(s.Deviating), s.Skipped, notRun(s.NotRun), time.Duration(s.Seconds*float64(time.Second)).Round(100*time.Millisecond), r.Scale, s.Seed)
	for i := range r.Results {
		if res := &r.Results[i]; res.Outcome == string(conformance.Deviates) {
			text += fmt.Sprintf("  known: %s/%s: %s\n", res.Case, res.Level, printable(res.Why))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(s.SkippedBecause)) {
		text += fmt.Sprintf("  %d skipped: %s\n", s.SkippedBecause[why], why)
	}
	return a.printf("%s", text)
}

func deviating(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d known to fail, ", n)
}

func notRun(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d not run", n)
}

// printableLines is printable for a text of several lines.
func printableLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
