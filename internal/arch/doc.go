// Package arch holds the tests of the tree as a whole: which package may import which, how long a file may be, and what no
// tracked file may contain. It has no code of its own.
//
// A new package fails TestLayers_EveryImportIsAllowed until layers_test.go says where it belongs. That is intended: the place
// is a decision.
package arch
