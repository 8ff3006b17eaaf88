package mem

import (
	"context"

	"github.com/tierkit/tierkit/backends"
)

const keyMaxBytes = "storage.mem.max.bytes"

// Factory returns the driver's entry for a Registry. Each Open makes a Space of its own, gone when the process ends.
func Factory() backends.Factory {
	return backends.Factory{
		Name: "mem",
		Settings: []backends.Setting{{
			Name: keyMaxBytes, Type: backends.TypeBytes, Default: "0",
			Doc: "How many bytes the store holds before it answers that there is no space left; 0 for no bound.",
		}},
		Open: func(ctx context.Context, c *backends.Config, env backends.Env) (backends.Driver, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return new(Space).Client(Options{MaxBytes: c.Bytes(keyMaxBytes), Now: env.Now}), nil
		},
	}
}
