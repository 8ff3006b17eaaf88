// Package conformance is the contract of package backends, executable: what every driver must pass, those of this module and those of
// others alike.
//
// # Use
//
// A driver's own repository has one test,
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Harness{Factory: acme.Factory(), Settings: map[string]string{...}})
//	}
//
// and `tierkit conformance` runs the same cases on a live bucket through Report.
//
// # Cases
//
// A Case has an ID (group/what-holds), the sentence of the contract that it enforces, and runs alone. It works with a Bench: clients over a
// namespace of its own, a random source, the log of HTTP requests. Cases that concern drivers run on a bare driver, those that concern the
// Store on a Store with a prefix and masking, most on both: a run of a case at one Level is named ID/driver or ID/store.
//
// After each run the suite itself looks for what was left: objects that the case did not name, through a client of its own; pending uploads;
// goroutines, told apart by a pprof label that they inherit; and, around cases that run one at a time, descriptors and temp files.
//
// # Reproducing
//
// Everything random comes from Harness.Seed, the case's ID and its level; a failure names the seed. Same seed, same run, as far as
// the scheduler lets it.
//
// # Exceptions
//
// A case is skipped only when its Needs say no to the driver's Properties, or the Harness lacks what its Uses name. A Deviation is a known
// failure, with its reason, and strict: when the case passes, the run fails.
package conformance
