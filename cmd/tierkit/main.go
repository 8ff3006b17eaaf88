// Command tierkit is the storage side of Kafka tiered storage on the command line, with the built-in drivers. A vendor's main is
// this one with one more driver: see docs/writing-a-driver.md.
package main

import (
	"os"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/gcs"
	"github.com/tierkit/tierkit/backends/localtiered"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/cli"
)

func main() { os.Exit(run()) }

func run() int { return cli.Main(cli.Options{Drivers: drivers()}) }

func drivers() []backends.Factory {
	return []backends.Factory{fs.Factory(), s3.Factory(), gcs.Factory(), azure.Factory(), localtiered.Factory()}
}
