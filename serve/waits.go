package serve

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// joinerPatience is how long a call waits for bytes that another one waits for already. A broker asks again after 500 ms, on another of
// its ten readers, for what has not come: without this bound one slow range would hold them all.
const joinerPatience = 400 * time.Millisecond

// place is what calls wait for together: a stretch of a log that is loaded as one, or an index.
type place struct {
	segment remotelog.SegmentID
	index   remotelog.IndexType // of an index
	stretch int64               // of a log: position / Options.ChunkBytes; -1: an index
}

// waits lets the calls that wait for the same bytes know of one another. The first waits on; when it leaves, the next one is the first.
type waits struct {
	late *atomic.Int64

	mu sync.Mutex
	at map[place][]*waiter
}

// waiter is one call.
type waiter struct {
	w     *waits
	at    place
	timer *time.Timer // nil: it was the first when it came
}

// enter counts a call in. Should it be too long behind another one, it is ended with errLate.
func (w *waits) enter(at place, cancel context.CancelCauseFunc) *waiter {
	x := &waiter{w: w, at: at}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = map[place][]*waiter{}
	}
	w.at[at] = append(w.at[at], x)
	if w.at[at][0] != x {
		x.timer = time.AfterFunc(joinerPatience, func() { x.check(cancel) })
	}
	return x
}

func (x *waiter) check(cancel context.CancelCauseFunc) {
	x.w.mu.Lock()
	i := slices.Index(x.w.at[x.at], x)
	x.w.mu.Unlock()
	if i > 0 {
		x.w.late.Add(1)
		cancel(errLate)
	}
}

// leave counts a call out: it has its bytes, or gave up. It may be called again, and of nil.
func (x *waiter) leave() {
	if x == nil {
		return
	}
	if x.timer != nil {
		x.timer.Stop()
	}
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	all := x.w.at[x.at]
	i := slices.Index(all, x)
	if i < 0 {
		return
	}
	if all = slices.Delete(all, i, i+1); len(all) == 0 {
		delete(x.w.at, x.at)
		return
	}
	x.w.at[x.at] = all
}
