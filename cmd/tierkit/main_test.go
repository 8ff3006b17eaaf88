package main

import (
	"bufio"
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

// The shape is tierkit demo | head -1.
func TestRun_CleansUpWhenNobodyReadsItsOutput(t *testing.T) {
	tmp := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "demo")
	cmd.Env = append(os.Environ(), childEnv+"=1", "TMPDIR="+tmp)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Error(err)
	}
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
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
