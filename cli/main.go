package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/tierkit/tierkit/backends"
)

// Main is the command with these drivers, as a whole process: its arguments, standard streams and signals. What it returns is the exit code. The main of
// a vendor is this one call, with the vendor's own driver among the built-in ones:
//
//	func main() { os.Exit(cli.Main(fs.Factory(), s3.Factory(), acme.Factory())) }
func Main(drivers ...backends.Factory) int {
	reg := new(backends.Registry)
	for _, f := range drivers {
		if err := reg.Register(f); err != nil {
			fmt.Fprintln(os.Stderr, "tierkit:", err)
			return ExitFailed
		}
	}
	// The first Ctrl-C stops in order, with clean-up; the second one, no longer caught, ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), endings()...) //nolint:forbidigo // this is main
	defer stop()
	context.AfterFunc(ctx, stop)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	onBrokenPipe(cancel)
	return Run(ctx, os.Args[1:], reg, Stdio{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: version(),
		LookupEnv: os.LookupEnv, //nolint:forbidigo // this is main
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

// onBrokenPipe ends the command in order when nobody reads its output any more (| head). By default the runtime would end the process
// at once; the signal stays caught, since the clean-up may write too.
func onBrokenPipe(end func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	go func() {
		<-broken
		end()
	}()
}

// version is the module's version as the go command recorded it.
func version() string {
	if bi, ok := debug.ReadBuildInfo(); ok && bi.Main.Version != "" {
		return bi.Main.Version
	}
	return "devel"
}
