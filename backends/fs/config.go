package fs

import (
	"context"

	"github.com/tierkit/tierkit/backends"
)

// The settings.
const (
	keyRoot      = "storage.root"
	keyOverwrite = "storage.overwrite.enabled"
	keyFsync     = "storage.fs.fsync"
)

// Factory returns the driver's entry for a Registry.
func Factory() backends.Factory {
	return backends.Factory{
		Name:    "fs",
		Aliases: []string{"io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage"},
		Settings: []backends.Setting{
			{
				Name: keyRoot, Type: backends.TypeFile, Required: true,
				Doc: "The directory that holds the objects. It must exist. `.tierkit/` in it belongs to tierkit: temp files, and the " +
					"metadata of the embedded default.",
			},
			{
				Name: keyFsync, Type: backends.TypeBool, Default: "true",
				Doc: "Whether a copy returns only when its bytes are on disk. `false` is faster; a crash of the machine may then lose " +
					"objects that were acknowledged, a crash of the process does not.",
			},
			{
				Name: keyOverwrite, Type: backends.TypeBool,
				NoEffect: "existing objects are always replaced, as the plug-in for brokers does",
			},
		},
		Open: func(ctx context.Context, c *backends.Config, env backends.Env) (backends.Driver, error) {
			return Open(ctx, Options{Root: c.File(keyRoot), NoSync: !c.Bool(keyFsync), Log: env.Log, Now: env.Now})
		},
	}
}
