//go:build !linux

package cli_test

import (
	"errors"
	"testing"
)

func mountTmpfs(string, int) error { return errors.ErrUnsupported }

func unmount(*testing.T, string) {}
