package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/tierkit/tierkit/internal/durable"
)

// leastFree is the room on the disk of the state directory below which a warning is due.
const leastFree = 1 << 30

// keyCommand is the setting of the plug-in that names the program.
const keyCommand = keyAll + "serve.command"

// The bits of access(2).
const (
	mayWrite  = 2
	maySearch = 1
)

// stateDir looks whether the daemon can have its directory, and whether one runs.
func (x *Subject) stateDir() {
	if x.Config.StateDir == "" {
		return // a mistake in the settings, and reported as one
	}
	dir := stateDir(x.Config.StateDir, x.BrokerID)
	at, ok := x.directory("state directory: access", dir, []string{"lock", "deletes", "copies", "spool"},
		"make "+x.Config.StateDir+" a directory that the daemon's user may write, or set "+keyStateDir)
	if !ok {
		return
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(at, &st); err == nil {
		if free := int64(st.Bavail) * int64(st.Bsize); free < leastFree { //nolint:unconvert // of another size on darwin
			x.Report(Finding{Check: "state directory: free space", Result: Warn, Text: fmt.Sprintf("%d MiB are free", free>>20), Do: "make room, or set " + keyStateDir})
		} else {
			x.Report(Finding{Check: "state directory: free space", Result: OK})
		}
	}
	if at == dir {
		x.locked("state directory", dir)
		x.journal(DeletesDir(x.Config.StateDir, x.BrokerID))
	}
}

// leastOld is the age of an order to delete above which a warning is due; the alert in docs/kafka has the same.
const leastOld = time.Hour

// journal looks for orders to delete that are not worked off.
func (x *Subject) journal(dir string) {
	const what = "journal of deletes"
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.check(what, err, "let the daemon's user read it")
		return
	}
	aside, old := 0, 0
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		switch filepath.Ext(e.Name()) {
		case badSuffix:
			aside++
		case journalSuffix:
			if fi, err := e.Info(); err == nil && x.Now().Sub(fi.ModTime()) > leastOld {
				old++
			}
		}
	}
	var text, do []string
	if aside > 0 {
		text = append(text, fmt.Sprintf("%d files that are no orders were set aside", aside))
		do = append(do, "look at the "+badSuffix+" files in "+dir+": delete what they name with tierkit delete, then remove them")
	}
	if old > 0 {
		text = append(text, fmt.Sprintf("%d orders are older than %v", old, leastOld))
		do = append(do, "see that a daemon runs and can delete in the store; its log says what fails")
	}
	if text == nil {
		x.check(what, nil, "")
		return
	}
	x.Report(Finding{Check: what, Result: Warn, Text: strings.Join(text, ", "), Do: strings.Join(do, "; ")})
}

// diskCache looks whether the disk cache can have its directory.
func (x *Subject) diskCache() {
	if x.DiskDir == "" {
		return
	}
	at, ok := x.directory("disk cache: access", x.DiskDir, []string{"lock", "tmp"}, "let the daemon's user write "+filepath.Dir(x.DiskDir))
	if ok && at == x.DiskDir {
		x.locked("disk cache", at)
	}
}

// directory checks that dir can be written and what is in it, or that it can be made. It returns the directory that was looked at.
func (x *Subject) directory(what, dir string, inside []string, do string) (at string, ok bool) {
	at, fi, err := nearest(dir)
	if err == nil {
		err = access(at)
	}
	for _, name := range inside {
		if aerr := access(filepath.Join(dir, name)); err == nil && !errors.Is(aerr, fs.ErrNotExist) {
			err = aerr
		}
	}
	if err != nil {
		return at, x.check(what, err, do)
	}
	f := Finding{Check: what, Result: OK}
	if at != dir {
		f.Text = dir + " is not there yet; the daemon makes it in " + at
	}
	if text := foreign(fi, os.Geteuid(), dir, at); text != "" {
		f.Result, f.Text, f.Do = Warn, text, "run doctor as the daemon's user"
	}
	x.Report(f)
	return at, true
}

// foreign says what root cannot find out about dir, or about at above it, which is there: root may write everywhere.
func foreign(fi fs.FileInfo, self int, dir, at string) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	switch {
	case !ok || self != 0:
		return ""
	case at != dir:
		return dir + " is not there yet, and root cannot find out whether the daemon's user can make it in " + at + ", nor makes it, since it would be root's"
	case st.Uid != 0:
		return fmt.Sprintf("it belongs to user %d, and root cannot find out what that user can do", st.Uid)
	}
	return ""
}

// nearest returns dir, or what is above it and there.
func nearest(dir string) (string, fs.FileInfo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return dir, nil, err
	}
	for {
		fi, err := os.Stat(dir)
		if err == nil && !fi.IsDir() {
			err = &fs.PathError{Op: "stat", Path: dir, Err: syscall.ENOTDIR}
		}
		if !errors.Is(err, fs.ErrNotExist) || filepath.Dir(dir) == dir {
			return dir, fi, err
		}
		dir = filepath.Dir(dir)
	}
}

// access says why a file or directory cannot be written.
func access(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	mode := uint32(mayWrite)
	if fi.IsDir() {
		mode |= maySearch
	}
	if err := syscall.Access(path, mode); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func (x *Subject) locked(what, dir string) {
	err := durable.Locked(dir)
	if errors.Is(err, durable.ErrLocked) {
		x.Report(Finding{Check: what + ": lock", Result: OK, Text: oneLine(err.Error())})
		return
	}
	x.check(what+": lock", err, "put it on a local file system")
}

// command looks for the program that the plug-in starts.
func (x *Subject) command() {
	if x.Command == "" {
		return
	}
	const what = "command of the plug-in"
	name := firstWord(x.Command)
	path, err := exec.LookPath(name)
	if err == nil && path != name {
		x.Report(Finding{Check: what, Result: Warn, Text: name + " is " + path + " here; the broker may have another PATH", Do: "give " + keyCommand + " the whole path"})
		return
	}
	x.check(what, err, "correct "+keyCommand+", and let the broker's user run the program")
}

// firstWord is the program in a command as the plug-in reads it: words are separated by blanks, or in double quotes.
func firstWord(command string) string {
	var word strings.Builder
	quoted := false
	for _, r := range strings.TrimSpace(command) {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && unicode.IsSpace(r):
			return word.String()
		default:
			word.WriteRune(r)
		}
	}
	return word.String()
}
