// Package peakrss tells how much memory a process has had, for measurements: not from a counter of ours, but from the system.
package peakrss

import (
	"fmt"
	"os"
	"strings"
)

// Of returns the most memory, in bytes, that a process ever had resident. Linux alone tells.
func Of(pid int) (int64, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, is := strings.CutPrefix(line, "VmHWM:"); is {
			var kb int64
			if _, err := fmt.Sscanf(rest, "%d kB", &kb); err != nil {
				return 0, fmt.Errorf("%s: %q: %w", path, line, err)
			}
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("%s has no VmHWM", path)
}
