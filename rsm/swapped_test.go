package rsm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// object returns the bytes of an object.
func (r *rig) object(t testing.TB, key string) []byte {
	t.Helper()
	obj, err := r.space.Client(mem.Options{}).Get(context.Background(), key, backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(obj.Body)
	_ = obj.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// replace puts other bytes in place of an object, behind the manager's back.
func (r *rig) replace(t testing.TB, key string, data []byte) {
	t.Helper()
	if _, err := r.space.Client(mem.Options{}).Put(context.Background(), key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))}); err != nil {
		t.Fatal(err)
	}
}

// Whoever restores a bucket by hand may put one segment's objects under the keys of another. Each is sound for itself.
func TestFetch_ObjectsOfAnotherSegmentAreCorrupt(t *testing.T) {
	for name, c := range transforms(1000) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c)
			md, data, _ := segmentOf(60, 5000)
			fin := r.mustCopy(t, md, data)
			other, otherData, _ := segmentOf(61, 5000)
			r.mustCopy(t, other, otherData)
			for _, s := range []manifest.Suffix{manifest.LogSuffix, manifest.IndexesSuffix, manifest.ManifestSuffix} {
				r.replace(t, r.configuredStems(&md).configured.key(s), r.object(t, r.configuredStems(&other).configured.key(s)))
			}
			fresh := manager(t, r.driver.Driver, c, io.Discard)
			if _, err := read(t.Context(), fresh, fin, 0, remotelog.ToEnd); !errors.Is(err, remotelog.ErrCorrupt) {
				t.Errorf("the log of another segment: %v, want ErrCorrupt", err)
			}
			for _, it := range manifest.StoredOrder() {
				if _, err := readIndex(t.Context(), fresh, fin, it); !errors.Is(err, remotelog.ErrCorrupt) {
					t.Errorf("the %s index of another segment: %v, want ErrCorrupt", it, err)
				}
			}
		})
	}
}
