package conformance

import (
	"io"
	"log" //nolint:depguard // it looks for drivers that use the global logger
	"os"
)

// divert sends what goes to the process's output and its global logger to f, until the function that it returns is called.
func divert(f *os.File) (restore func()) {
	out, err, logger := os.Stdout, os.Stderr, log.Writer()
	os.Stdout, os.Stderr = f, f
	log.SetOutput(f)
	return func() {
		os.Stdout, os.Stderr = out, err
		log.SetOutput(logger)
	}
}

// quiet is for servers of cases whose clients behave badly.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
