package s3

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

// command runs one command line and returns its standard output, an object a line.
func command(t *testing.T, wantCode int, args ...string) []map[string]any {
	t.Helper()
	reg := new(backends.Registry)
	if err := reg.Register(Factory()); err != nil {
		t.Fatal(err)
	}
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

// aivenFile writes a broker's properties file with Aiven's names.
func aivenFile(t *testing.T, srv *testbed.S3, bucket string, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.properties")
	text := fmt.Sprintf(`node.id=1
log.dirs=/somewhere
remote.log.storage.manager.class.name=io.aiven.kafka.tieredstorage.RemoteStorageManager
rsm.config.chunk.size=65536
rsm.config.compression.enabled=true
rsm.config.key.prefix=tiered/
rsm.config.storage.backend.class=io.aiven.kafka.tieredstorage.storage.s3.S3Storage
rsm.config.storage.s3.bucket.name=%s
rsm.config.storage.s3.region=us-east-1
rsm.config.storage.s3.endpoint.url=%s
rsm.config.storage.s3.path.style.access.enabled=true
rsm.config.storage.s3.multipart.upload.part.size=5242880
rsm.config.storage.aws.access.key.id=%s
rsm.config.storage.aws.secret.access.key=%s
rlmm.config.metadata.log.dir=%s
`, bucket, srv.Endpoint, srv.AccessKey, srv.SecretKey, filepath.Join(t.TempDir(), "metadata"))
	text += strings.Join(more, "\n") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCLI_GoldenPartitionsThereAndBack: copied, listed, read by offset, read from manifests alone, deleted.
func TestCLI_GoldenPartitionsThereAndBack(t *testing.T) {
	for name, server := range servers() {
		t.Run(name, func(t *testing.T) {
			srv := server(t)
			bucket, logs := srv.Bucket(t), t.TempDir()
			ca := ""
			if srv.CAFile != "" {
				ca = "rsm.config." + keyCAFile + "=" + srv.CAFile
			}
			config := aivenFile(t, srv, bucket, ca)
			for _, p := range golden.Partitions() {
				if _, err := golden.CopyPartition(logs, p); err != nil {
					t.Fatal(err)
				}
			}
			command(t, cli.ExitOK, "copy", "--config", config, "--include-active", "--json", logs)
			segments := command(t, cli.ExitOK, "ls", "--config", config, "--json")
			keys := srv.Objects(t, bucket)
			if len(segments) == 0 || len(keys) != 3*len(segments) || slices.ContainsFunc(keys, func(k string) bool { return !strings.HasPrefix(k, "tiered/") }) {
				t.Errorf("%d segments, objects %v", len(segments), keys)
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
			deleted := map[string]bool{}
			for _, s := range segments {
				topic, partition := fmt.Sprint(s["topic"]), fmt.Sprint(s["partition"])
				if !deleted[topic+"-"+partition] {
					command(t, cli.ExitOK, "delete", "--config", config, "--json", "--topic", topic, "--partition", partition, "--all")
					deleted[topic+"-"+partition] = true
				}
			}
			if keys := srv.Objects(t, bucket); len(keys) > 0 {
				t.Errorf("left after deleting: %v", keys)
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

// TestCLI_MistakesAreNamed: one line, at once, with the setting.
func TestCLI_MistakesAreNamed(t *testing.T) {
	srv := testbed.MinIO(t)
	bucket, logs := srv.Bucket(t), t.TempDir()
	if _, err := golden.CopyPartition(logs, golden.Partitions()[0]); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ from, to, want string }{
		"bucket":      {"bucket.name=" + bucket, "bucket.name=other", keyBucket},
		"secret":      {srv.SecretKey, "wrong", keyAccessKey},
		"certificate": {srv.Endpoint, testbed.MinIOTLS(t).Endpoint, keyCAFile},
		"protocol":    {srv.Endpoint, strings.Replace(srv.Endpoint, "http:", "https:", 1), keyEndpoint},
	} {
		config := aivenFile(t, srv, bucket)
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, bytes.ReplaceAll(text, []byte(tt.from), []byte(tt.to)), 0o600); err != nil {
			t.Fatal(err)
		}
		got := command(t, cli.ExitFailed, "copy", "--config", config, logs)[0]["error"].(string)
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q does not name %s", name, got, tt.want)
		}
	}
}
