//go:build !linux

package testbed

import "errors"

func mountTmpfs(string, int64) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
