package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/remotelog"
)

// The exit codes. Scripts rely on them.
const (
	ExitOK          = 0
	ExitFailed      = 1   // the command did not do what it was asked
	ExitUsage       = 2   // wrong usage or configuration; nothing was touched
	ExitDamage      = 3   // stored data is damaged (remotelog.ErrCorrupt)
	ExitInterrupted = 130 // Ctrl-C, as a shell reports SIGINT
)

// Stdio is what a command may touch of its process.
type Stdio struct {
	In        io.Reader
	Out, Err  io.Writer
	LookupEnv func(string) (string, bool) // os.LookupEnv, for secrets of the form env:NAME; nil: they are refused
	Now       func() time.Time            // nil: time.Now
	Program   string                      // by what name it was started; "" is "tierkit"
	Build     *debug.BuildInfo            // what the command `version` shows; nil: not known
	// Conformance is that of Options.
	Conformance map[string]func(h *conformance.Harness)
	// HoldSignals is called by a command that decides for itself when a signal ends it: from then on signals that come again must not end
	// the process. Nil: it is not told.
	HoldSignals func()
}

// Run executes one command line (without the program's name) and returns its exit code. It returns only when everything that it
// started has ended. When ctx is cancelled the command stops, cleans up and returns ExitInterrupted.
func Run(ctx context.Context, args []string, reg *backends.Registry, std Stdio) int {
	a := newApp(reg, std)
	root := a.root() //nolint:contextcheck // commands get the context of ExecuteContext
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if a.nobodyReads(err) {
		return ExitInterrupted
	}
	code := exitCode(ctx, err)
	if code == ExitInterrupted {
		a.notice("interrupted")
		return code
	}
	a.notice(oneLine(err))
	return code
}

// nobodyReads reports whether a command ended because its standard output was closed, as by | head: its reader has what it wanted.
func (a *app) nobodyReads(err error) bool {
	out, ok := a.Out.(interface{ Name() string })
	pe, failed := errors.AsType[*fs.PathError](err)
	return ok && failed && pe.Path == out.Name() && errors.Is(pe, syscall.EPIPE)
}

// app is the state of one Run: what all commands share.
type app struct {
	Stdio
	registry *backends.Registry
	log      *slog.Logger // notices and warnings, for people, on standard error

	// global flags
	config string
	json   bool

	version versionJSON
}

func newApp(reg *backends.Registry, std Stdio) *app {
	if std.Now == nil {
		std.Now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	if std.Program == "" {
		std.Program = "tierkit"
	}
	return &app{Stdio: std, registry: reg, log: slog.New(&lineHandler{w: std.Err}), version: versionOf(std.Build)}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "tierkit",
		Short:         "Kafka tiered storage (KIP-405): copy, list, read, check and delete remote log segments",
		Version:       a.version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand("", args[:1], cmd)
			}
			_ = cmd.Help() // writes to Out, whose errors nobody can be told
			return usagef("a command is needed")
		},
	}
	root.SetHelpCommand(a.helpCmd())
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		problem := flagProblem(err)
		if cmd.HasParent() {
			problem = cmd.Name() + ": " + problem
		}
		return usagef("%s; see %s --help", problem, cmd.CommandPath())
	})
	root.PersistentFlags().StringVar(&a.config, "config", "", "properties `FILE`: a broker's server.properties, or bare settings")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object per line")
	for _, c := range []*cobra.Command{
		a.demoCmd(), a.copyCmd(), a.lsCmd(), a.fetchCmd(), a.indexCmd(), a.readCmd(), a.deleteCmd(), a.inspectCmd(), a.metadataCmd(),
		a.serveCmd(), a.doctorCmd(), a.conformanceCmd(), a.configCmd(), a.versionCmd(),
	} {
		root.AddCommand(c)
	}
	return root
}

// helpCmd is cobra's, but that a command that there is not is an error.
func (a *app) helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			to := cmd.Root()
			for i, name := range args {
				next := slices.IndexFunc(to.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
				if next < 0 {
					return unknownCommand("help: ", args[:i+1], to)
				}
				to = to.Commands()[next]
			}
			return to.Help()
		},
	}
}

// flagProblem is what is wrong with a flag, for people: a number that is none without the name of the function that found out.
func flagProblem(err error) string {
	var number *strconv.NumError
	text := err.Error()
	switch {
	case !errors.As(err, &number):
		return text
	case errors.Is(number, strconv.ErrRange):
		return strings.TrimSuffix(text, number.Error()) + "it is out of range"
	default:
		return strings.TrimSuffix(text, number.Error()) + "it must be a whole number"
	}
}

// unknownCommand says which of the commands of cmd could be meant by the last of words.
func unknownCommand(before string, words []string, cmd *cobra.Command) error {
	names, name := commandNames(cmd), strings.Join(words, " ")
	if near := settings.Nearest(words[len(words)-1], names); near != "" {
		return usagef("%sunknown command %q, did you mean %s? The commands are: %s", before, name, near, strings.Join(names, " "))
	}
	return usagef("%sunknown command %q; the commands are: %s", before, name, strings.Join(names, " "))
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// usageError is a mistake in the arguments or the configuration: exit code 2, nothing was touched.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// asUsage marks err as a mistake of the caller; nil stays nil.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// exitCode classifies the error of a command.
func exitCode(ctx context.Context, err error) int {
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return ExitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, remotelog.ErrCorrupt):
		return ExitDamage
	default:
		return ExitFailed
	}
}

// oneLine folds an error (joined ones have several lines) into one line. What several parts say alike, as when every partition of a
// log directory meets the same lock, it says once.
func oneLine(err error) string {
	var parts []string
	seen := map[string]bool{}
	for part := range strings.FieldsFuncSeq(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if !seen[part] {
			seen[part] = true
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}
