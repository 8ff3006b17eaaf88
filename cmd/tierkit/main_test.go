package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/testbed"
)

// childEnv makes the test binary act as the command.
const childEnv = "TIERKIT_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(run())
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(testbed.Exit))
}

// As tierkit demo | head -1, whose reader has left before the first line: it might let all of the output through before it does.
func TestRun_CleansUpWhenNobodyReadsItsOutput(t *testing.T) {
	tmp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "demo")
	cmd.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+tmp)
	var errs strings.Builder
	cmd.Stderr = &errs
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	exit, ok := errors.AsType[*exec.ExitError](cmd.Run())
	if !ok || exit.ExitCode() != cli.ExitInterrupted {
		t.Errorf("exit: %v, want code %d; standard error:\n%s", exit, cli.ExitInterrupted, errs.String())
	}
	if strings.Contains(errs.String(), "broken pipe") {
		t.Errorf("standard error: %s", errs.String())
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
