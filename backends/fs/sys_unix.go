//go:build linux || darwin

package fs

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// tryLock takes the exclusive lock of an open file, or fails at once with EWOULDBLOCK.
func tryLock(f syscall.Conn) error {
	return control(f, func(fd uintptr) error {
		return syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB)
	})
}

// rmdirAt removes the directory name in dir. Package os has no call that removes a directory only.
func rmdirAt(dir syscall.Conn, name string) error {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	err = control(dir, func(fd uintptr) error {
		_, _, errno := syscall.Syscall(sysUnlinkat, fd, uintptr(unsafe.Pointer(p)), atRemoveDir)
		if errno != 0 {
			return errno
		}
		return nil
	})
	if err != nil {
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// control runs a system call on the descriptor of f, again when a signal interrupts it.
func control(f syscall.Conn, call func(fd uintptr) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := c.Control(func(fd uintptr) {
		err = syscall.EINTR
		for errors.Is(err, syscall.EINTR) {
			err = call(fd)
		}
	})
	if cerr != nil {
		return cerr
	}
	return err
}
