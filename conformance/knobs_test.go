package conformance_test

import (
	"slices"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/gcs"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/conformance"
)

// What is found in the tables of our own drivers: a setting that gets another name there would silently skip cases.
func TestKnobsOf_OurDrivers(t *testing.T) {
	for _, f := range []backends.Factory{s3.Factory(), gcs.Factory(), azure.Factory()} {
		k := conformance.KnobsOf(f)
		if k.PartBytes <= 0 || k.PartBytes > 5<<20 || len(k.SmallParts) != 1 {
			t.Errorf("%s: parts of %d bytes by %v", f.Name, k.PartBytes, k.SmallParts)
		}
		if k.Endpoint == nil || k.CAFile == nil || k.Timeouts == nil || k.MaxConns == nil || k.Attempts == nil || k.MissingBucket == nil {
			t.Errorf("%s: %+v", f.Name, k)
			continue
		}
		for _, override := range []map[string]string{k.SmallParts, k.Endpoint("u"), k.CAFile("p"), k.Timeouts(1), k.MaxConns(1), k.Attempts(1), k.MissingBucket} {
			for name := range override {
				if !slices.ContainsFunc(f.Settings, func(s backends.Setting) bool { return s.Name == name }) {
					t.Errorf("%s has no setting %s", f.Name, name)
				}
			}
		}
	}
	if k := conformance.KnobsOf(fs.Factory()); k.Endpoint != nil || k.PartBytes != 0 || k.Attempts != nil {
		t.Errorf("fs: %+v", k)
	}
}
