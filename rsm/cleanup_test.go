package rsm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

func TestCleanUp_RemovesWhatIsNotWholeAndNothingElse(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 4096})
	whole, data, log := segmentOf(1, 10_000)
	r.mustCopy(t, whole, data)
	before := len(r.keys(t))
	part, data, _ := segmentOf(2, 10_000)
	r.mustCopy(t, part, data)
	if err := r.driver.Driver.Delete(t.Context(), string(r.configuredStems(&part).configured.key(manifest.ManifestSuffix))); err != nil {
		t.Fatal(err)
	}
	absent, _, _ := segmentOf(3, 10)
	for _, md := range []remotelog.SegmentMetadata{whole, part, absent, part} {
		if err := r.CleanUp(t.Context(), md); err != nil {
			t.Error(err)
		}
	}
	if left := r.keys(t); len(left) != before {
		t.Errorf("in the store: %v, want the %d objects of the whole segment", left, before)
	}
	if got, err := read(t.Context(), r.Manager, finished(whole, nil), 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
		t.Errorf("the whole segment: %d bytes, %v", len(got), err)
	}
}

// Whether the segment is whole must be known: any other answer about its manifest than "not found" removes nothing.
func TestCleanUp_InDoubtRemovesNothing(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 4096})
	md, data, _ := segmentOf(1, 10_000)
	r.mustCopy(t, md, data)
	before := len(r.keys(t))
	for _, code := range []backends.Code{backends.Denied, backends.Unavailable, backends.InvalidArgument, backends.Unknown} {
		r.driver.stat = func(context.Context, string) (backends.Info, error) {
			return backends.Info{}, backends.Errorf(code, "no")
		}
		if err := r.CleanUp(t.Context(), md); !errors.Is(err, code) {
			t.Errorf("%v: %v", code, err)
		}
	}
	r.driver.stat = nil
	if left := r.keys(t); len(left) != before {
		t.Errorf("in the store: %v", left)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.CleanUp(t.Context(), md); !errors.Is(err, remotelog.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// uploader is a store with unfinished uploads.
type uploader struct {
	*stub
	ups     []backends.Upload
	aborted []string
}

var _ backends.UploadLister = (*uploader)(nil)

func (u *uploader) ListUploads(_ context.Context, prefix string) (out []backends.Upload, err error) {
	for _, up := range u.ups {
		if strings.HasPrefix(up.Key, prefix) || up.Key == "" {
			out = append(out, up)
		}
	}
	return out, nil
}

func (u *uploader) AbortUpload(_ context.Context, up backends.Upload) error {
	u.aborted = append(u.aborted, up.ID)
	return nil
}

func TestCleanUp_AbortsTheUploadsOfTheSegmentAlone(t *testing.T) {
	r := newRig(t, Config{})
	mine, _, _ := segmentOf(1, 10)
	other, _, _ := segmentOf(2, 10)
	key := func(md remotelog.SegmentMetadata) string {
		return r.configuredStems(&md).configured.key(manifest.LogSuffix)
	}
	u := &uploader{stub: r.driver, ups: []backends.Upload{{Key: key(mine), ID: "mine"}, {Key: key(other), ID: "other"}, {ID: "whose?"}}}
	m := manager(t, u, Config{}, io.Discard)
	if err := m.CleanUp(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if len(u.aborted) != 1 || u.aborted[0] != "mine" {
		t.Errorf("aborted %v, want that of the segment", u.aborted)
	}
}

func TestConfig_CustomBytesAreWhatACopyReturns(t *testing.T) {
	for name, c := range map[string]Config{
		"none":  {},
		"size":  {CustomFields: []string{"REMOTE_SIZE"}},
		"all":   {CustomFields: []string{"REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"}, KeyPrefix: "some/prefix/"},
		"wrong": {CustomFields: []string{"NOTHING"}},
	} {
		most, err := c.CustomBytes("orders")
		if name == "wrong" {
			if err == nil {
				t.Error("an unknown field was taken")
			}
			continue
		}
		r := newRig(t, c)
		md, data, _ := segmentOf(1, 1000)
		custom, cerr := r.Copy(t.Context(), md, data)
		// The partition and the size of a segment have fewer digits than the most.
		if err != nil || cerr != nil || len(custom) > most || most-len(custom) > 12 || (len(custom) == 0) != (most == 0) {
			t.Errorf("%s: at most %d, a copy returned %d; %v, %v", name, most, len(custom), err, cerr)
		}
	}
}

func TestManager_CheckKeys(t *testing.T) {
	if err := newRig(t, Config{}).CheckKeys(t.Context()); err != nil {
		t.Errorf("nothing is encrypted: %v", err)
	}
	r := newRig(t, Config{Encryption: true})
	if err := r.CheckKeys(t.Context()); err != nil {
		t.Errorf("a pair: %v", err)
	}
	r.Manager.keys = otherKey{r.Manager.keys}
	if err := r.CheckKeys(t.Context()); !errors.Is(err, crypto.ErrWrongKey) {
		t.Errorf("another key came back: %v, want ErrWrongKey", err)
	}
}

// otherKey unwraps whatever it is given to a key of its own.
type otherKey struct{ crypto.KeyWrapper }

func (otherKey) Unwrap(context.Context, string) (crypto.Key, error) { return crypto.NewKey(), nil }
