package rsm

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// move gives objects another key.
func (r *rig) move(t testing.TB, from, to string) {
	t.Helper()
	o, err := r.driver.Driver.Get(t.Context(), from, backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	if _, err := r.driver.Driver.Put(t.Context(), to, o.Body, backends.PutOptions{Size: o.Length}); err != nil {
		t.Fatal(err)
	}
	if err := r.driver.Driver.Delete(t.Context(), from); err != nil {
		t.Fatal(err)
	}
}

func TestCopy_CustomMetadataHaveTheFieldsThatAreConfigured(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, KeyPrefix: "pre/", CustomFields: []string{"REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"}})
	md, data, _ := segmentOf(70, 3_000)
	fin := r.mustCopy(t, md, data)
	c, err := manifest.ParseCustom(fin.CustomMetadata)
	if err != nil {
		t.Fatal(err)
	}
	var stored int64
	for _, key := range r.keys(t) {
		i, err := r.driver.Driver.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		stored += i.Size
		if !strings.HasPrefix(key, "pre/"+c.ObjectKey+".") {
			t.Errorf("key %q, OBJECT_KEY %q", key, c.ObjectKey)
		}
	}
	want := manifest.Custom{Has: [3]bool{true, true, true}, RemoteSize: stored, ObjectPrefix: "pre/", ObjectKey: manifest.MainPath(md.SegmentID, 23, manifest.ASCIIDigits)}
	if c != want {
		t.Errorf("%+v, want %+v", c, want)
	}
	none := newRig(t, Config{ChunkBytes: 1000})
	if cm, err := none.Copy(t.Context(), md, data); cm != nil || err != nil {
		t.Errorf("no fields configured: %x, %v; want nil", cm, err)
	}
}

func TestKeys_CustomMetadataLeadToDataUnderAnOldPrefix(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, KeyPrefix: "new/"})
	md, data, log := segmentOf(71, 3_000)
	fin := r.mustCopy(t, md, data)
	custom := manifest.Custom{Has: [3]bool{false, true, true}, ObjectPrefix: "old/", ObjectKey: "elsewhere/x-" + md.ID.String()}
	main := "new/" + manifest.MainPath(md.SegmentID, md.StartOffset, manifest.ASCIIDigits)
	check := func(when string, md remotelog.SegmentMetadata, want error) {
		t.Helper()
		r.manifests.drop([]stem{stem(main), stem("old/" + custom.ObjectKey)})
		r.chunks.cache.DeleteFunc(func(chunkKey) bool { return true })
		got, err := read(t.Context(), r.Manager, md, 0, remotelog.ToEnd)
		if !errors.Is(err, want) || want == nil && !bytes.Equal(got, log) {
			t.Errorf("%s: %d bytes, %v; want error %v", when, len(got), err, want)
		}
	}
	withCustom := finished(md, custom.Append(nil))
	check("everything at the configured key, custom metadata say otherwise", withCustom, nil)
	r.move(t, main+".log", "old/"+custom.ObjectKey+".log")
	check(".log at the custom key", withCustom, nil)
	check(".log at a key that nobody told", fin, remotelog.ErrCorrupt)
	r.move(t, main+".rsm-manifest", "old/"+custom.ObjectKey+".rsm-manifest")
	check(".log and manifest at the custom key", withCustom, nil)
	check("manifest at a key that nobody told", fin, remotelog.ErrNotFound)
	if err := r.Delete(t.Context(), withCustom); err != nil || len(r.keys(t)) != 0 {
		t.Errorf("delete: %v; left %v", err, r.keys(t))
	}
}

func TestKeys_AnotherSegmentsObjectKeyIsNeverFollowed(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, _ := segmentOf(72, 3_000)
	r.mustCopy(t, md, data)
	victim, victimData, log := segmentOf(73, 3_000)
	victim = r.mustCopy(t, victim, victimData)
	custom := manifest.Custom{Has: [3]bool{false, false, true}, ObjectKey: manifest.MainPath(victim.SegmentID, victim.StartOffset, manifest.ASCIIDigits)}
	evil := finished(md, custom.Append(nil))
	if _, err := r.Fetch(t.Context(), evil, 0, 1); !errors.Is(err, remotelog.ErrCorrupt) {
		t.Errorf("Fetch: %v, want ErrCorrupt", err)
	}
	if _, err := r.FetchIndex(t.Context(), evil, remotelog.OffsetIndex); !errors.Is(err, remotelog.ErrCorrupt) {
		t.Errorf("FetchIndex: %v, want ErrCorrupt", err)
	}
	if err := r.Delete(t.Context(), evil); err != nil {
		t.Error(err)
	}
	if n := len(r.keys(t)); n != 3 || !strings.Contains(r.logs.String(), "only the configured keys") {
		t.Errorf("%d objects are left, want the victim's 3; log: %s", n, r.logs)
	}
	if got, err := read(t.Context(), r.Manager, victim, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
		t.Errorf("victim: %v", err)
	}
}

func TestKeys_ForeignCustomMetadataAreIgnoredWithANotice(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, log := segmentOf(74, 3_000)
	r.mustCopy(t, md, data)
	foreign := finished(md, remotelog.CustomMetadata("cm:0"))
	if got, err := read(t.Context(), r.Manager, foreign, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if !strings.Contains(r.logs.String(), "custom metadata ignored") {
		t.Errorf("no notice: %s", r.logs)
	}
	if err := r.Delete(t.Context(), foreign); err != nil || len(r.keys(t)) != 0 {
		t.Errorf("%v; left %v", err, r.keys(t))
	}
}

func TestKeys_DigitsOfOtherLocales(t *testing.T) {
	for _, d := range []manifest.Digits{manifest.ArabicDigits, manifest.PersianDigits} {
		r := newRig(t, Config{ChunkBytes: 1000, KeyPrefix: "p/"})
		md, data, log := segmentOf(75, 3_000)
		fin := r.mustCopy(t, md, data)
		for _, key := range r.keys(t) {
			r.move(t, key, "p/"+manifest.MainPath(md.SegmentID, md.StartOffset, d)+key[strings.LastIndex(key, "."):])
		}
		r.manifests.drop(r.configuredStems(&md).ofManifest())
		if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
			t.Errorf("%c: %d bytes, %v", d, len(got), err)
		}
		if got, err := readIndex(t.Context(), r.Manager, fin, remotelog.LeaderEpochIndex); err != nil || !bytes.Equal(got, data.LeaderEpochs) {
			t.Errorf("%c: index %q, %v", d, got, err)
		}
		if err := r.Delete(t.Context(), fin); err != nil || len(r.keys(t)) != 0 {
			t.Errorf("%c: %v; left %v", d, err, r.keys(t))
		}
	}
}

func TestCopy_ManifestSaysWhatWasDone(t *testing.T) {
	none, gzip := kafkaData(1, 40_000), kafkaData(2, 40_000)
	gzip[22] |= 1 // the codec in the attributes; the CRC does not hold then
	for name, c := range map[string]struct {
		log      []byte
		conf     Config
		compress bool
	}{
		"heuristic, batch not compressed": {none, Config{Compression: true, Heuristic: true}, true},
		"heuristic, batch unreadable":     {gzip, Config{Compression: true, Heuristic: true}, false},
		"heuristic, batch cut":            {none[:100], Config{Compression: true, Heuristic: true}, false},
		"no heuristic, batch unreadable":  {gzip, Config{Compression: true}, true},
		"empty":                           {nil, Config{Compression: true}, false},
	} {
		c.conf.ChunkBytes = 10_000
		r := newRig(t, c.conf)
		md, data, _ := segmentOf(76, 0)
		md.SizeBytes, data.Log = int64(len(c.log)), remotelog.Bytes(c.log)
		fin := r.mustCopy(t, md, data)
		h, err := r.open(t.Context(), &fin)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := h.segment(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m.Compression != c.compress || m.Checksums == nil || m.Checksums.Chunks() != m.Chunks.Chunks() || m.Metadata.SegmentID != md.SegmentID {
			t.Errorf("%s: compression %t, want %t; %+v", name, m.Compression, c.compress, m.Manifest)
		}
		h.release()
		if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, c.log) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestFetch_WithoutTheKeyPairSaysSo(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, Encryption: true})
	md, data, _ := segmentOf(77, 3_000)
	fin := r.mustCopy(t, md, data)
	plain := manager(t, unclosable{r.driver.Driver}, Config{ChunkBytes: 1000}, io.Discard)
	plain.keys = nil
	if _, err := plain.Fetch(t.Context(), fin, 0, 1); err == nil || errors.Is(err, remotelog.ErrCorrupt) || !strings.Contains(err.Error(), keyPairs) {
		t.Errorf("%v, want an error that names %s", err, keyPairs)
	}
}
