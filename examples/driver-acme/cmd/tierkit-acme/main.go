// Command tierkit-acme is the tierkit command with the acme driver beside the built-in ones.
package main

import (
	"os"

	"example.com/acme/driver-acme/acme"
	"example.com/acme/driver-acme/suite"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/gcs"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/conformance"
)

func main() {
	os.Exit(cli.Main(cli.Options{
		Drivers: []backends.Factory{
			acme.Factory(),
			fs.Factory(), s3.Factory(), gcs.Factory(), azure.Factory(),
		},
		Conformance: map[string]func(*conformance.Harness){
			"acme": suite.Access{Reader: os.Getenv("ACME_READER")}.Complete,
		},
	}))
}
