package main

import (
	"fmt"
	"testing"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/testbed"
)

// TestConformance_OnLiveStores runs a few cases with a broker's own file, below its key prefix, and leaves nothing. All cases run in test/drivers.
func TestConformance_OnLiveStores(t *testing.T) {
	all := stores()
	left := func(*testing.T) []string { return nil } // in the bucket of S3: the others are looked at by the suite alone
	all["s3"] = func(t *testing.T) string {
		srv := testbed.MinIO(t)
		bucket := srv.Bucket(t)
		left = func(t *testing.T) []string { return append(srv.Objects(t, bucket), srv.Uploads(t, bucket, "")...) }
		return fmt.Sprintf(`rsm.config.storage.backend=s3
rsm.config.storage.s3.bucket.name=%s
rsm.config.storage.s3.region=us-east-1
rsm.config.storage.s3.endpoint.url=%s
rsm.config.storage.aws.access.key.id=%s
rsm.config.storage.aws.secret.access.key=%s
`, bucket, srv.Endpoint, srv.AccessKey, srv.SecretKey)
	}
	for name, store := range all {
		t.Run(name, func(t *testing.T) {
			config := configure(t, store(t))
			results := command(t, cli.ExitOK, "conformance", "--config", config, "--json", "--run", "^(put/(one-byte|zero-byte|meta-roundtrip)|get/(middle|missing|if-version))/")
			passed := 0
			for _, r := range results {
				if r["outcome"] == "pass" {
					passed++
				}
			}
			if passed < 12 {
				t.Errorf("%d cases passed, want 6 on the driver and 6 on the Store: %v", passed, results)
			}
			if name == "s3" && len(left(t)) > 0 {
				t.Errorf("left: %v", left(t))
			}
		})
	}
}
