// Package demodata holds a few partitions that real Kafka brokers wrote, for the demonstration: uncompressed, snappy and lz4 batches,
// committed and aborted transactions, several leader epochs, all five indexes. They are copies of the golden data of the tests.
package demodata

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed partitions
var files embed.FS

// Write lays the partition directories below dir, which it makes, as a broker's log directory has them.
func Write(dir string) error {
	sub, err := fs.Sub(files, "partitions")
	if err != nil {
		return err
	}
	return fs.WalkDir(sub, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := fs.ReadFile(sub, path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
}
