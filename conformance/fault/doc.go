// Package fault injects failures below an HTTP client, by a plan.
//
// # Plans
//
// A Plan is a list of rules "the nth request of this step meets that failure", and the log of every request that went past. Steps are named by a Dialect, so
// that the same plan can be held against different stores. Rules are plain data: a plan prints as what it does, and Random draws the same rules for the same seed.
//
//	plan := fault.NewPlan(dialect.S3{}, fault.Rule{Step: fault.MPUCommit, Do: fault.DropResponse{}})
//	env.WrapTransport = plan.Wrap
//	...
//	if err := plan.Check(); err != nil { // a rule that never fired, a request that the dialect does not know
//		t.Errorf("%v\n%s", err, plan)
//	}
//
// # Two injectors
//
// Plan.Wrap is exact and needs no sockets: it stands between the driver and its http.Transport, below retries, signing and timeouts over bodies.
// Proxy is a listener in front of a server: what it does happens to real connections (a reset is a reset). It takes the same plans for HTTP,
// and has failures of its own for connections it does not look into (TLS). Blackhole is a listener without a server behind it: it takes connections, and
// then stands still.
//
// # Servers
//
// HandlerTransport runs a handler in this process without sockets, for tests in testing/synctest.
//
// # Actions
//
// Errors of the provider: Status, OK200WithError, Garbage, HTML502, HugeErrorBody, Redirect. Lost and broken: DropRequest, DropResponse, Reset, Truncate, CleanEOF,
// Corrupt, Duplicate. Slow: StallHeaders, StallBody, Slow. Others: ShiftDate, CloseIdle, Hook.
package fault
