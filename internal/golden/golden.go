package golden

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

//go:embed testdata/kafka/partitions/orders-0 testdata/kafka/partitions/orders-3
//go:embed testdata/kafka/partitions/payments-0 testdata/kafka/partitions/invoices-0
var demo embed.FS

// Demo returns the partition directories that ship inside the command: uncompressed, gzip, lz4 and zstd batches, committed and
// aborted transactions, several leader epochs, all five indexes. The names at the top are those of the partitions.
func Demo() fs.FS {
	sub, err := fs.Sub(demo, "testdata/kafka/partitions")
	if err != nil {
		panic(err) // the path is a constant and valid
	}
	return sub
}

// Partitions names the golden partitions, in order.
func Partitions() []string {
	return []string{"blobs-0", "catalog-0", "events-0", "invoices-0", "invoices-1", "orders-0", "orders-1", "orders-2", "orders-3",
		"orders-4", "payments-0", "payments-1", "returns-0", "visits-0"}
}

// Kafka returns testdata/kafka in the source tree that the working directory belongs to.
func Kafka() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data := filepath.Join(dir, "internal", "golden", "testdata", "kafka")
		if _, err := os.Stat(data); err == nil {
			return data, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no internal/golden/testdata/kafka above the working directory: run the test inside the source tree")
		}
		dir = parent
	}
}

// CopyPartition writes the golden partition below logDir, as a broker's log directory has it, and returns its directory. The
// files are writable, so that a test can damage them.
func CopyPartition(logDir, name string) (string, error) {
	root, err := Kafka()
	if err != nil {
		return "", err
	}
	dst := filepath.Join(logDir, name)
	return dst, CopyTree(dst, os.DirFS(filepath.Join(root, "partitions", name)))
}

// CopyTree writes the files of src below dst, which is created, with mode 0644.
func CopyTree(dst string, src fs.FS) error {
	return fs.WalkDir(src, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dst, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := fs.ReadFile(src, path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
}

// LoadTruth reads what Kafka says about the golden partition.
func LoadTruth(name string) (*Truth, error) {
	root, err := Kafka()
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(root, "truth", name+".json"))
	if err != nil {
		return nil, err
	}
	var t Truth
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("truth of %s: %w", name, err)
	}
	return &t, nil
}

// Tiered returns the directory in which Kafka's LocalTieredStorage kept the partition's segments.
func Tiered(t *Truth) (string, error) {
	root, err := Kafka()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, "localtieredstorage", t.KafkaVersion, "kafka-tiered-storage",
		fmt.Sprintf("%s-%d-%s", t.Topic, t.Partition, t.TopicID)), nil
}

// Committed returns the records that a read_committed consumer gets.
func (t *Truth) Committed() []Record {
	return slices.DeleteFunc(slices.Clone(t.Records), func(r Record) bool { return slices.Contains(t.ReadCommitted.NotReturned, r.Offset) })
}
