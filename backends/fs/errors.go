package fs

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/tierkit/tierkit/backends"
)

func errClosed() error { return backends.Errorf(backends.Closed, "the driver was closed") }

// classify is the one place where errors of the operating system get their code.
func classify(err error) *backends.Error {
	if e, ok := errors.AsType[*backends.Error](err); ok {
		return e
	}
	out := &backends.Error{Err: err}
	switch errno, ok := errors.AsType[syscall.Errno](err); {
	case ok:
		out.Code = codeOf(errno)
	case errors.Is(err, os.ErrClosed):
		out.Code = backends.Closed
	case errors.Is(err, io.ErrUnexpectedEOF):
		out.Code = backends.Unavailable
	}
	return out
}

func codeOf(errno syscall.Errno) backends.Code {
	switch errno { // what is not named is Unknown
	case syscall.ENOENT:
		return backends.NotFound
	case syscall.EEXIST:
		return backends.Exists
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return backends.Denied
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return backends.Exhausted
	case syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL:
		return backends.InvalidArgument
	case syscall.EIO, syscall.ESTALE, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EBUSY, syscall.EAGAIN, syscall.EINTR,
		syscall.ENODEV, syscall.ENXIO, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENETUNREACH,
		syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.ENOTCONN:
		return backends.Unavailable
	case syscall.ETIMEDOUT:
		return backends.Timeout
	case syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.EMLINK:
		return backends.Unsupported
	}
	return backends.Unknown
}

// isAny reports whether the errno in err is one of those.
func isAny(err error, errnos ...syscall.Errno) bool {
	for _, e := range errnos {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// absent classifies the error of looking for an object. A key below a file ("a/b" where "a" is an object) is not there either. What is
// not there because the whole root is gone is not NotFound: a lost mount must not look like a lost segment.
func (d *Driver) absent(err error) error {
	if !isAny(err, syscall.ENOENT, syscall.ENOTDIR) {
		return classify(err)
	}
	if gone := d.present(); gone != nil {
		return gone
	}
	return &backends.Error{Code: backends.NotFound, Err: err}
}

// present checks that the path of the root still names the directory that was opened.
func (d *Driver) present() error {
	now, err := os.Stat(d.path)
	if err != nil && !isAny(err, syscall.ENOENT, syscall.ENOTDIR) {
		return classify(err)
	}
	opened, oerr := d.root.Stat(".")
	if oerr != nil {
		return classify(oerr)
	}
	if err != nil || !os.SameFile(now, opened) {
		return backends.Errorf(backends.InvalidArgument, "the root %s was removed or replaced since it was opened", d.path)
	}
	return nil
}

// refused makes the error of a first write say which directory lacks the permission.
func (d *Driver) refused(err error) error {
	e := classify(err)
	if e.Code != backends.Denied {
		return e
	}
	return backends.Errorf(backends.Denied, "%s %s cannot be written by this process (uid %d): %w", keyRoot, d.path, os.Geteuid(), err)
}
