package localtiered

import (
	"context"

	"github.com/tierkit/tierkit/backends"
)

const keyRoot = "storage.root"

// Factory returns the driver's entry for a Registry.
func Factory() backends.Factory {
	return backends.Factory{
		Name:    "localtiered",
		Aliases: []string{"org.apache.kafka.server.log.remote.storage.LocalTieredStorage"},
		Settings: []backends.Setting{{
			Name: keyRoot, Type: backends.TypeFile, Required: true,
			Doc: "The directory of Kafka's LocalTieredStorage (its setting `dir`), which is read and never written: with `--from-store`, " +
				"`ls`, `read`, `fetch` and `index` work on it.",
		}},
		Open: func(ctx context.Context, c *backends.Config, _ backends.Env) (backends.Driver, error) {
			return Open(ctx, c.File(keyRoot))
		},
	}
}
