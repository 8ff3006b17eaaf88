package cli_test

import (
	"fmt"
	"syscall"
	"testing"
)

func mountTmpfs(dir string, bytes int) error {
	return syscall.Mount("tierkit", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes))
}

func unmount(t *testing.T, dir string) {
	if err := syscall.Unmount(dir, 0); err != nil {
		t.Error(err)
	}
}
