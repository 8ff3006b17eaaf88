package rlm

import "time"

// wallClock is the default of every Now option.
func wallClock() time.Time { return time.Now() } //nolint:forbidigo // the one place where the clock is chosen if the caller has none
