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

// targetOf is the regular file that path names, through symbolic links. stream: what is there is none (a device, a pipe), and is written
// to as it is; a rename would replace /dev/null for the whole machine.
func targetOf(path string) (target string, stream bool, err error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return path, false, nil // a link to nowhere is replaced
	case err != nil:
		return "", false, err
	case fi.IsDir():
		return "", false, usagef("%s is a directory: name a file in it", path)
	case !fi.Mode().IsRegular():
		return path, true, nil
	}
	target, err = filepath.EvalSymlinks(path)
	return target, false, err
}

// writeStream writes to what is no regular file.
func writeStream(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// writeFile makes a file of what write writes: in a temporary file beside it, renamed when it is complete.
func writeFile(path string, write func(io.Writer) error) (err error) {
	path, stream, err := targetOf(path)
	switch {
	case err != nil:
		return err
	case stream:
		return writeStream(path, write)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".tierkit-*.tmp")
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
