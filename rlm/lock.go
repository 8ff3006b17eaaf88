package rlm

import "github.com/tierkit/tierkit/internal/logfiles"

// checkNotInUse refuses a log directory that a broker uses. A broker can start at any moment, therefore Offload asks again before
// each segment.
func checkNotInUse(logDir string) error { return logfiles.CheckNotInUse(logDir) }
