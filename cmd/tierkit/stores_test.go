package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/internal/testbed"
)

// registry has the built-in drivers.
func registry(t *testing.T) *backends.Registry {
	t.Helper()
	reg := new(backends.Registry)
	for _, f := range drivers() {
		if err := reg.Register(f); err != nil {
			t.Fatal(err)
		}
	}
	return reg
}

// command runs one command line and returns its standard output, an object a line; of a failure, what it said.
func command(t *testing.T, wantCode int, args ...string) []map[string]any {
	t.Helper()
	reg := registry(t)
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), args, reg, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errs, LookupEnv: os.LookupEnv}); code != wantCode {
		t.Fatalf("tierkit %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, wantCode, out.String(), errs.String())
	}
	if wantCode != cli.ExitOK {
		return []map[string]any{{"error": errs.String()}}
	}
	var all []map[string]any
	for line := range strings.Lines(out.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("not JSON: %q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

// stores are the lines of a broker's properties file, with Aiven's names, that choose a store with nothing in it.
func stores() map[string]func(t *testing.T) string {
	return map[string]func(t *testing.T) string{
		"azure": func(t *testing.T) string {
			srv := testbed.Azurite(t)
			return fmt.Sprintf(`rsm.config.storage.backend.class=io.aiven.kafka.tieredstorage.storage.azure.AzureBlobStorage
rsm.config.storage.azure.container.name=%s
rsm.config.storage.azure.account.name=%s
rsm.config.storage.azure.account.key=%s
rsm.config.storage.azure.endpoint.url=%s
rsm.config.storage.azure.upload.block.size=102400
`, srv.Container(t), testbed.AzuriteAccount, testbed.AzuriteKey, srv.Endpoint)
		},
		"azure connection string": func(t *testing.T) string {
			srv := testbed.Azurite(t)
			return fmt.Sprintf(`rsm.config.storage.backend.class=io.aiven.kafka.tieredstorage.storage.azure.AzureBlobStorage
rsm.config.storage.azure.container.name=%s
rsm.config.storage.azure.connection.string=%s
`, srv.Container(t), srv.ConnectionString())
		},
		"gcs": func(t *testing.T) string {
			srv := testbed.FakeGCS(t)
			return fmt.Sprintf(`rsm.config.storage.backend.class=io.aiven.kafka.tieredstorage.storage.gcs.GcsStorage
rsm.config.storage.gcs.bucket.name=%s
rsm.config.storage.gcs.endpoint.url=%s
rsm.config.storage.gcs.credentials.default=false
rsm.config.storage.gcs.resumable.upload.chunk.size=262144
`, srv.Bucket(t), srv.Endpoint)
		},
	}
}

// configure writes the whole file.
func configure(t *testing.T, store string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf(`node.id=1
log.dirs=/somewhere
remote.log.storage.manager.class.name=io.aiven.kafka.tieredstorage.RemoteStorageManager
rsm.config.chunk.size=65536
rsm.config.compression.enabled=true
rsm.config.key.prefix=tiered/
%srlmm.config.metadata.log.dir=%s
`, store, filepath.Join(dir, "metadata"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestStores_GoldenPartitionsThereAndBack: copied, listed, read by offset, listed from manifests alone, deleted.
func TestStores_GoldenPartitionsThereAndBack(t *testing.T) {
	for name, store := range stores() {
		t.Run(name, func(t *testing.T) {
			logs, config := t.TempDir(), configure(t, store(t))
			for _, p := range golden.Partitions() {
				if _, err := golden.CopyPartition(logs, p); err != nil {
					t.Fatal(err)
				}
			}
			command(t, cli.ExitOK, "copy", "--config", config, "--include-active", "--json", logs)
			segments := command(t, cli.ExitOK, "ls", "--config", config, "--json")
			if len(segments) == 0 {
				t.Fatal("nothing was copied")
			}
			read := 0
			for _, p := range golden.Partitions() {
				read += readBack(t, config, p)
			}
			if read == 0 {
				t.Error("no partition was read")
			}
			if from := command(t, cli.ExitOK, "ls", "--config", config, "--json", "--from-store"); len(from) != len(segments) {
				t.Errorf("from the store alone: %d segments, want %d", len(from), len(segments))
			}
			for _, s := range segments {
				command(t, cli.ExitOK, "delete", "--config", config, "--json", "--topic", fmt.Sprint(s["topic"]), "--partition", fmt.Sprint(s["partition"]), "--all")
			}
			if from := command(t, cli.ExitOK, "ls", "--config", config, "--json", "--from-store"); len(from) != 0 {
				t.Errorf("left after deleting: %v", from)
			}
		})
	}
}

// readBack reads a partition by offset and compares it with what a consumer got from the broker that wrote it.
func readBack(t *testing.T, config, name string) int {
	t.Helper()
	truth, err := golden.LoadTruth(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(truth.Records) == 0 {
		return 0
	}
	number := name[strings.LastIndex(name, "-")+1:]
	segments := command(t, cli.ExitOK, "ls", "--config", config, "--json", "--topic", truth.Topic, "--partition", number)
	first, last := segments[0]["startOffset"].(float64), segments[len(segments)-1]["endOffset"].(float64)
	got := command(t, cli.ExitOK, "read", "--config", config, "--topic", truth.Topic, "--partition", number, "--offset", fmt.Sprint(int64(first)), "--format", "json")
	want := slices.DeleteFunc(slices.Clone(truth.Records), func(r golden.Record) bool { return r.Offset > int64(last) })
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%s: %d records, want %d", name, len(got), len(want))
	}
	for i, m := range got {
		if int64(m["offset"].(float64)) != want[i].Offset || int64(m["timestamp"].(float64)) != want[i].Timestamp {
			t.Fatalf("%s: record %d is %v, want offset %d and timestamp %d", name, i, m, want[i].Offset, want[i].Timestamp)
		}
	}
	return len(got)
}

// TestStores_MistakesAreNamed: one line, at once, with the setting and without the secret.
func TestStores_MistakesAreNamed(t *testing.T) {
	logs := t.TempDir()
	if _, err := golden.CopyPartition(logs, golden.Partitions()[0]); err != nil {
		t.Fatal(err)
	}
	const wrongKey = "d3Jvbmcga2V5IG9mIGFuIGFjY291bnQ="
	for _, tt := range []struct {
		code                        int
		store, name, from, to, want string
	}{
		{cli.ExitFailed, "azure", "container", "container.name=", "container.name=x", "storage.azure.container.name"},
		{cli.ExitFailed, "azure", "key", testbed.AzuriteKey, wrongKey, "credentials"},
		{cli.ExitFailed, "azure", "protocol", "url=http:", "url=https:", "storage.azure.endpoint.url"},
		{cli.ExitFailed, "gcs", "bucket", "bucket.name=", "bucket.name=x", "storage.gcs.bucket.name"},
		{cli.ExitFailed, "gcs", "protocol", "url=http:", "url=https:", "storage.gcs.endpoint.url"},
		{cli.ExitUsage, "gcs", "credentials", "credentials.default=false", "credentials.path=/none/such.json", "storage.gcs.credentials.path"},
	} {
		store := stores()[tt.store](t)
		config := configure(t, strings.Replace(store, tt.from, tt.to, 1))
		got := command(t, tt.code, "copy", "--config", config, logs)[0]["error"].(string)
		if !strings.Contains(got, tt.want) || strings.Contains(got, wrongKey) || strings.Contains(got, testbed.AzuriteKey) {
			t.Errorf("%s, %s: %q does not name %s, or shows a secret", tt.store, tt.name, got, tt.want)
		}
	}
}
