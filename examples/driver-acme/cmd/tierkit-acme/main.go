// Command tierkit-acme is the tierkit command with the acme driver beside the built-in ones.
package main

import (
	"os"

	"example.com/acme/driver-acme/acme"

	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/gcs"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/cli"
)

func main() {
	os.Exit(cli.Main(
		acme.Factory(),
		fs.Factory(), s3.Factory(), gcs.Factory(), azure.Factory(),
	))
}
