package testbed

import (
	"fmt"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

// SmallDisk makes dir a file system of so many bytes until the test ends, which skips where that is not allowed.
func SmallDisk(t testing.TB, dir string, bytes int64) {
	t.Helper()
	if err := mountTmpfs(dir, bytes); err != nil {
		need.Never(t, fmt.Sprintf("no tmpfs can be mounted: %v", err))
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	})
}
