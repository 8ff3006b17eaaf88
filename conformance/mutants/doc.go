// Package mutants tests the conformance suite: a suite that lets a wrong driver pass is worse than none.
//
// Each Mutant is a driver with one bug: a copy of a clean one (the memory driver, or the example's over HTTP with the packages it is made of) in which a few lines of
// source are others. The test builds all of them into one program and runs each with the one case that is named for its bug. That case has to fail, and on
// the clean driver it has to pass. A mutant whose lines are no longer in the source is an error, so the list follows the code.
//
// without.txt lists the cases that no mutant is named for, each with the reason. It may only become shorter.
package mutants
