package rlmm

import "context"

// life is the time from when something was made until it is stopped, which every wait for it ends with: that of a manager, and
// within it that of a partition that is followed.
type life struct {
	ctx context.Context //nolint:containedctx // not a call's context: it is what OnStop and Close end
	end context.CancelCauseFunc
}

// newLife begins the life of a manager.
func newLife() life {
	ctx, end := context.WithCancelCause(context.Background()) //nolint:forbidigo // New is given none: Close ends it
	return life{ctx, end}
}

// within begins a life that also ends with l.
func (l life) within() life {
	ctx, end := context.WithCancelCause(l.ctx)
	return life{ctx, end}
}

func (l life) done() <-chan struct{} { return l.ctx.Done() }

// cause is why it ended, nil if it has not.
func (l life) cause() error { return context.Cause(l.ctx) }

// ends calls f when l ends, unless stop was called before.
func (l life) ends(f func()) (stop func() bool) { return context.AfterFunc(l.ctx, f) }
