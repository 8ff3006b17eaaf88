// Command tierkit is the storage side of Kafka tiered storage on the command line, with the built-in drivers. A vendor's main is
// this one with one more registration.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/gcs"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/cli"
)

func main() { os.Exit(run()) }

func run() int {
	reg, err := drivers()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tierkit:", err)
		return cli.ExitFailed
	}
	// The first Ctrl-C stops in order, with clean-up; the second one, no longer caught, ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	context.AfterFunc(ctx, stop)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	onBrokenPipe(cancel)
	return cli.Run(ctx, os.Args[1:], reg, cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, LookupEnv: os.LookupEnv, Version: version()})
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

// drivers are the built-in ones.
func drivers() (*backends.Registry, error) {
	reg := new(backends.Registry)
	for _, f := range []backends.Factory{fs.Factory(), s3.Factory(), gcs.Factory(), azure.Factory()} {
		if err := reg.Register(f); err != nil {
			return nil, err
		}
	}
	return reg, nil
}

// version is the module's version as the go command recorded it.
func version() string {
	if bi, ok := debug.ReadBuildInfo(); ok && bi.Main.Version != "" {
		return bi.Main.Version
	}
	return "devel"
}
