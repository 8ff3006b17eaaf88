// Package flight lets many callers that want the same value share one load of it, without tying the load to any of them.
//
// The first caller starts the load in a goroutine of its own, under a context that keeps that caller's values and not its end. Every caller waits for
// the result or for its own context, whichever is first. So a caller that leaves does not fail the others, and when the last one has left,
// the load is cancelled: nothing is loaded that nobody wants. golang.org/x/sync/singleflight has no context and does not count its callers.
//
// Nothing is remembered: an error goes to those who wait for it, and the next caller loads again. A caller that comes after the last one left starts
// a load of its own rather than waiting for one that is being cancelled.
package flight
