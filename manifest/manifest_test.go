package manifest_test

import (
	"errors"

	"github.com/tierkit/tierkit/remotelog"
)

func isCorrupt(err error) bool { return errors.Is(err, remotelog.ErrCorrupt) }
