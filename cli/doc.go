// Package cli is the command line of tierkit. It knows no storage driver: main registers those it wants and calls [Run], so that
// a vendor's command is the built-in one with one more line.
//
//	reg := new(backends.Registry)
//	_ = reg.Register(fs.Factory())
//	_ = reg.Register(acme.Factory())
//	os.Exit(cli.Run(ctx, os.Args[1:], reg, cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, LookupEnv: os.LookupEnv}))
//
// Output is for people; with --json every command prints one JSON object a line, with Kafka's field names, to which fields may be
// added but never renamed. Errors are one line on standard error. Exit codes: 0 done, 1 failed, 2 wrong usage or configuration,
// 3 damage found, 130 interrupted.
package cli
