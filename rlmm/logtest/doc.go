// Package logtest is the contract of rlmm.Log as a test table. An author of a Log runs it from a test of his own:
//
//	func TestLog(t *testing.T) {
//		logtest.Run(t, logtest.Harness{Open: func(t testing.TB) rlmm.Log { return mylog.New(2) }})
//	}
//
// What a log can be made to suffer is in the optional fields of [Harness]; a case that needs a field which is not given is
// skipped, and says so. The names of the cases are those in the comments of rlmm.Log and rlmm.Follower.
package logtest
