package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/internal/props"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/serve"
)

// The settings of the plug-in: it starts the daemon by itself, or asks one that runs.
const (
	keyServeCommand = "tierkit.serve.command"
	keyServeURL     = "tierkit.serve.url"
)

func (a *app) doctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor --config FILE",
		Short: "look at everything that tierkit serve needs: settings, keys, memory, directories, each permission in the store",
		Args:  none,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

// findingJSON is the JSON shape of doctor.
type findingJSON struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Text   string `json:"text,omitempty"`
	Do     string `json:"do,omitempty"`
}

// examination prints findings and counts them.
type examination struct {
	app            *app
	failed, warned int
	err            error // of printing
}

func (e *examination) report(f serve.Finding) {
	switch f.Result {
	case serve.Fail:
		e.failed++
	case serve.Warn:
		e.warned++
	case serve.OK:
	}
	var err error
	if e.app.json {
		err = e.app.printJSON(findingJSON{f.Check, string(f.Result), f.Text, f.Do})
	} else {
		line := f.Check
		for _, part := range []struct{ before, text string }{{": ", f.Text}, {"; do this: ", f.Do}} {
			if part.text != "" {
				line += part.before + part.text
			}
		}
		label := string(f.Result)
		if f.Result == serve.Fail {
			label = strings.ToUpper(label)
		}
		err = e.app.printf("%-4s  %s\n", label, line)
	}
	if e.err == nil {
		e.err = err
	}
}

// doctor is tierkit doctor. What is wrong with one thing does not keep it from looking at the others.
func (a *app) doctor(ctx context.Context) error {
	if err := a.needConfig(daemonFile); err != nil {
		return err
	}
	d := a.newDaemon(serve.Standalone)
	d.log = slog.New(slog.DiscardHandler) // the report says it
	e := &examination{app: a}
	file, err := props.Load(a.config)
	if file == nil {
		return err
	}
	if file.RSM[keyServeCommand] != "" {
		d.how = serve.Supervised // its token and its port are new ones at each start
	}
	err = errors.Join(err, d.fromProps(file, ""))
	e.settings(err)
	e.notices(append(file.Notices, d.warnings...))
	e.plugin(file)
	if d.setup != nil {
		err = d.examine(ctx, e, file.RSM[keyServeCommand])
	}
	switch {
	case e.err != nil:
		return e.err
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && e.failed == 0:
		return err
	case e.failed > 0:
		return fmt.Errorf("%s failed, %s: %s", count(e.failed, "check"), count(e.warned, "warning"), e.verdict(d.how, file.HasProviders()))
	}
	return nil
}

// verdict says what it means that checks failed.
func (e *examination) verdict(how serve.Start, providers bool) string {
	switch {
	case how == serve.Supervised && providers:
		return "the broker gives its daemon what config.providers stand for, doctor does not see it; look with a copy of " + e.app.config + " that has file:PATH or env:NAME there"
	case how == serve.Supervised:
		return "the broker and the daemon that it starts cannot run with " + e.app.config + " as it is"
	}
	return "tierkit serve cannot run with " + e.app.config + " as it is"
}

// notices are what commands say of the file once.
func (e *examination) notices(all []string) {
	for _, n := range all {
		e.report(serve.Finding{Check: "settings", Result: serve.Warn, Text: n, Do: "correct " + e.app.config + ", unless it is meant"})
	}
}

func (e *examination) settings(err error) {
	problems := settings.Problems(err)
	for _, p := range problems {
		e.report(serve.Finding{Check: "settings", Result: serve.Fail, Text: p.Error(), Do: "correct " + e.app.config + ", or what it refers to"})
	}
	if len(problems) == 0 {
		e.report(serve.Finding{Check: "settings", Result: serve.OK})
	}
}

// examine opens the store and looks at everything. The disk cache is not opened: its directory would be made, and belong to this user.
func (d *daemon) examine(ctx context.Context, e *examination, command string) (err error) {
	disk := &d.setup.Config.Disk
	disk.Unopened = true
	d.segments, err = d.setup.Open(ctx)
	if err != nil {
		e.report(serve.Finding{Check: "keys, memory and store", Result: serve.Fail, Text: oneLine(err), Do: "correct the setting that is named"})
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	x := serve.Subject{
		Segments: d.segments, Config: d.config, LogDirs: d.logDirs, BrokerID: d.broker, Custom: d.custom, Now: d.app.Now, Report: e.report,
		DiskDir: disk.Own(), Command: command,
	}
	serve.Examine(ctx, x)
	return nil
}
