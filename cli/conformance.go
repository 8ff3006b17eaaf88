package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	scale, run, seed string
	report           string
	list             bool
}

func (a *app) conformanceCmd() *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "conformance [--scale quick|full] [--run REGEXP] [--seed N] [--report FILE.json|.md] [--list]",
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
	if f.report != "" && !strings.HasSuffix(f.report, ".json") && !strings.HasSuffix(f.report, ".md") {
		return h, usagef("--report: %s ends neither with .json nor with .md", f.report)
	}
	return h, nil
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
func (a *app) target(ctx context.Context, h *conformance.Harness) error {
	if a.config == "" {
		return usagef("--config FILE is required: a broker's server.properties, or the storage.* settings of the store to check")
	}
	file, err := props.Load(a.config)
	if file == nil {
		return asUsage(err)
	}
	o := settings.Options{Getenv: a.LookupEnv, Prefix: file.RSMPrefix}
	choice, perr := a.registry.Parse(file.RSM, o)
	if err := errors.Join(err, perr); err != nil {
		return asUsage(fmt.Errorf("%s: %w", a.config, err))
	}
	for _, n := range file.Notices {
		a.notice(n)
	}
	h.Factory, h.Prefix = &choice.Factory, file.RSM["key.prefix"]
	if h.Settings, err = a.resolved(choice.Factory.Settings, file.RSM); err != nil {
		return err
	}
	h.Knobs = conformance.KnobsOf(choice.Factory)
	h.Dialect = dialectOf(choice)
	return a.reachable(ctx, choice)
}

// reachable finds out before the first case what would fail all of them: wrong credentials, a bucket that is not there.
func (a *app) reachable(ctx context.Context, c *backends.Choice) error {
	s, err := c.Open(ctx, backends.Options{Env: backends.Env{Log: a.log, Now: a.Now}})
	if err == nil {
		err = errors.Join(s.Probe(ctx), s.Close())
	}
	if errors.Is(err, backends.InvalidArgument) {
		return asUsage(err)
	}
	return err
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

// dialectOf knows the protocols of the built-in drivers. A driver without one is HTTP of an unknown kind: cases about its requests are skipped.
func dialectOf(c *backends.Choice) conformance.Dialect {
	switch c.Factory.Name {
	case "s3":
		return dialect.S3{VirtualHost: c.Config.String("storage.s3.endpoint.url") == "" && !c.Config.Bool("storage.s3.path.style.access.enabled")}
	case "gcs":
		return dialect.GCS{}
	case "azure":
		return dialect.Azure{}
	}
	return nil
}

// conformance runs the suite.
func (a *app) conformance(ctx context.Context, h conformance.Harness, f *conformanceFlags) error {
	if err := a.target(ctx, &h); err != nil {
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
	r := &conformanceReport{Driver: h.Factory.Name, Version: a.Version, Config: a.config, Scale: f.scale, Run: f.run, Started: a.Now().UTC(), now: a.Now}
	p := a.newProgress()
	p.show("opening %s", r.Driver)
	err = conformance.Report(ctx, h, func(res conformance.Result) {
		if ctx.Err() != nil && res.Outcome == conformance.Fail {
			return // it was ended in the middle
		}
		r.add(res)
		p.clear()
		a.result(res)
		p.show("%d of %d cases, %d failed: %s", len(r.Results), len(names), r.Summary.Failed, res.Name())
	})
	p.clear()
	r.end(err)
	if err := errors.Join(file.write(r), a.verdict(r)); err != nil {
		return err
	}
	switch {
	case err != nil:
		return err
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
	text := fmt.Sprintf("%s: %d passed, %d failed, %d skipped in %s (scale %s, seed %d)\n", r.Driver, s.Passed, s.Failed, s.Skipped, time.Duration(s.Seconds*float64(time.Second)).Round(100*time.Millisecond), r.Scale, s.Seed)
	for _, why := range slices.Sorted(maps.Keys(s.SkippedBecause)) {
		text += fmt.Sprintf("  %d skipped: %s\n", s.SkippedBecause[why], why)
	}
	return a.printf("%s", text)
}

// printableLines is printable for a text of several lines.
func printableLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
