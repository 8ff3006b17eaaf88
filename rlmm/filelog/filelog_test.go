package filelog_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/filelog"
	"github.com/tierkit/tierkit/rlmm/logtest"
)

func TestLog_Contract(t *testing.T) {
	dirs := map[rlmm.Log]string{}
	logtest.Run(t, logtest.Harness{
		Open: func(t testing.TB) rlmm.Log {
			dir := filepath.Join(t.TempDir(), "a", "log")
			l, err := filelog.Open(t.Context(), dir, filelog.Options{Partitions: 2})
			if err != nil {
				t.Fatal(err)
			}
			dirs[l] = dir
			return l
		},
		Reopen: func(t testing.TB, l rlmm.Log) rlmm.Log {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := filelog.Open(context.WithoutCancel(t.Context()), dirs[l], filelog.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return again
		},
	})
}
