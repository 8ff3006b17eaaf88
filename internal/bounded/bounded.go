// Package bounded waits for what may never end, such as a call to a disk that hangs: for Close, which must.
package bounded

import "time"

// Wait calls the waits, one after the other, and says whether all of them returned before the time was over. Else they go on, on a goroutine of their own, which
// ends with the last of them.
func Wait(limit time.Duration, waits ...func()) bool {
	done := make(chan struct{})
	go func() {
		for _, wait := range waits {
			wait()
		}
		close(done)
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
