package testbed

import (
	"fmt"
	"syscall"
)

func mountTmpfs(dir string, bytes int64) error {
	return syscall.Mount("tierkit", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes))
}

func unmount(dir string) error { return syscall.Unmount(dir, 0) }
