package bounded

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := func() { time.Sleep(time.Second) }
		began := time.Now()
		if !Wait(3*time.Second, second, second) {
			t.Error("two seconds are more than three")
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v, want the time of both", took)
		}
		began = time.Now()
		if Wait(3*time.Second, second, second, second, second) {
			t.Error("four seconds are less than three")
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v, want the limit", took)
		}
		time.Sleep(time.Second) // until the last one has returned
	})
}
