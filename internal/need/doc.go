// Package need is how a test says that it cannot run everywhere. A test that asks for something that is not there skips and
// says how to get it, so that plain `go test ./...` passes with Go alone. Where the project checks itself (CI=true, or
// TIERKIT_REQUIRE as `make test` sets it) the same thing missing is a failure: a check that quietly does not run is none.
//
// The linter bans testing.T.Skip everywhere else, so that every skip of the project is one of these.
//
// # Environment
//
//   - TIERKIT_REQUIRE: "all", or a list separated by commas of what must be there (names as tests give them: "java").
//     CI=true is the same as "all".
//   - TIERKIT_FULL=1: repeat as often as `make test-all` does what the ordinary run repeats less often.
//   - TIERKIT_BENCH=1: run the long measurements too (`make bench`).
//   - TIERKIT_CACHE: where built tools are kept, instead of the user's cache directory.
package need
