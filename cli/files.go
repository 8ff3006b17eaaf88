package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// exactly is a cobra check for n arguments that says what they are.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%d arguments, want %d: %s", len(args), n, what)
		}
		return nil
	}
}

// none is a cobra check for commands without arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, only flags: %q", cmd.Name(), args[0])
	}
	return nil
}

// output streams src to a file, or to standard output if path is empty, and closes src. The file appears under its name only
// when it is complete and durable: a failed command leaves nothing, and an older file stays as it was.
func (a *app) output(path string, src io.ReadCloser) (err error) {
	defer func() { err = errors.Join(err, src.Close()) }()
	if path == "" {
		_, err := io.Copy(a.Out, src)
		return err
	}
	return writeFile(path, func(w io.Writer) error {
		_, err := io.Copy(w, src)
		return err
	})
}

// writeFile makes a file of what write writes: in a temporary file beside it, renamed when it is complete.
func writeFile(path string, write func(io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreGone(tmp.Close()), ignoreGone(os.Remove(tmp.Name())))
		}
	}()
	if err := write(tmp); err != nil {
		return err
	}
	if err := errors.Join(tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(tmp.Name(), path)
}

// ignoreGone drops the errors of a clean-up that has nothing to do.
func ignoreGone(err error) error {
	if errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
