// Package cli is the command line of tierkit. It knows no storage driver: main names those it wants and calls [Main], so that
// a vendor's command is the built-in one with one more line. [Run] is the same inside a process of somebody else.
//
// Output is for people; with --json every command prints one JSON object a line, with Kafka's field names, to which fields may be
// added but never renamed. Errors are one line on standard error. Exit codes: 0 done, 1 failed, 2 wrong usage or configuration,
// 3 damage found, 130 interrupted.
package cli
