package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance"
)

// Options are what a vendor's command is made of.
type Options struct {
	Drivers []backends.Factory

	// Conformance has, by the name of a driver, what `conformance` cannot find out by itself: it completes a Harness that has the Factory, the Settings of
	// the configuration file, the Prefix and the Knobs of KnobsOf. Above all it sets the Dialect, without which an HTTP driver is not tested with faults. The
	// built-in drivers need none.
	Conformance map[string]func(h *conformance.Harness)
}

// Main is the command with these drivers, as a whole process: its arguments, standard streams and signals. What it returns is the exit code. The main of
// a vendor is this one call, with the vendor's own driver among the built-in ones:
//
//	func main() {
//		os.Exit(cli.Main(cli.Options{
//			Drivers:     []backends.Factory{acme.Factory(), fs.Factory(), s3.Factory()},
//			Conformance: map[string]func(*conformance.Harness){"acme": suite.Complete},
//		}))
//	}
func Main(o Options) int {
	reg := new(backends.Registry)
	for _, f := range o.Drivers {
		if err := reg.Register(f); err != nil {
			fmt.Fprintln(os.Stderr, "tierkit:", err)
			return ExitFailed
		}
	}
	// The first Ctrl-C stops in order, with clean-up; the second one, no longer caught, ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), endings()...) //nolint:forbidigo // this is main
	defer stop()
	var held atomic.Bool
	context.AfterFunc(ctx, func() {
		if !held.Load() {
			stop()
		}
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Ignored, the signal ends nobody, and a write is told: of a socket to who writes to it, of standard output to the command.
	signal.Ignore(syscall.SIGPIPE)
	return Run(ctx, os.Args[1:], reg, Stdio{
		In: os.Stdin, Out: &watched{os.Stdout, cancel}, Err: os.Stderr, Program: filepath.Base(os.Args[0]), Build: build(), Conformance: o.Conformance,
		LookupEnv:   os.LookupEnv, //nolint:forbidigo // this is main
		HoldSignals: func() { held.Store(true) },
	})
}

// endings are the signals that end the command in order: also the one of a terminal that is closed, unless nohup asked for it to be ignored.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// watched is a standard output that ends the command in order when nobody reads it any more (| head). The signal that says so cannot be
// used: it comes for every connection that somebody closed, too.
type watched struct {
	f   *os.File
	end func()
}

// Name is the file's: a command finds out by it that a write that failed was one of its output.
func (w *watched) Name() string { return w.f.Name() }

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		w.end()
	}
	return n, err
}

// build is what the go command recorded of this program.
func build() *debug.BuildInfo {
	bi, _ := debug.ReadBuildInfo()
	return bi
}
