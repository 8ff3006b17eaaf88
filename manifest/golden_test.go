package manifest_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/golden/aiven"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// eachSegment calls f for every golden segment with its objects by suffix and its parsed manifest.
func eachSegment(t *testing.T, f func(t *testing.T, s *aiven.Segment, object func(manifest.Suffix) []byte, m *manifest.Manifest)) {
	for _, c := range aiven.Cases(t) {
		store := c.Store(t)
		for i := range c.Segments {
			s := &c.Segments[i]
			t.Run(c.Name, func(t *testing.T) {
				object := func(x manifest.Suffix) []byte { return store[s.Objects[string(x)].Key] }
				m, err := manifest.Parse(object(manifest.ManifestSuffix))
				if err != nil {
					t.Fatal(err)
				}
				f(t, s, object, m)
			})
		}
	}
}

// keyRing returns the ring that the settings describe.
func keyRing(t *testing.T, props map[string]string) *crypto.KeyRing {
	t.Helper()
	var pairs []crypto.KeyPair
	for id := range strings.SplitSeq(props["encryption.key.pairs"], ",") {
		base := "encryption.key.pairs." + id
		p, err := crypto.LoadKeyPair(id, props[base+".public.key.file"], props[base+".private.key.file"])
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, p)
	}
	ring, err := crypto.NewKeyRing(props["encryption.key.pair.id"], pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestGolden_ManifestSaysWhatIsExpected(t *testing.T) {
	eachSegment(t, func(t *testing.T, s *aiven.Segment, object func(manifest.Suffix) []byte, m *manifest.Manifest) {
		if got := m.Chunks.Kind().String(); got != s.Expect.IndexType {
			t.Errorf("index is %s, want %s", got, s.Expect.IndexType)
		}
		if m.Chunks.Chunks() != s.Expect.Chunks || m.Chunks.FileSize() != s.SizeInBytes {
			t.Errorf("%d chunks, %d bytes, want %d, %d", m.Chunks.Chunks(), m.Chunks.FileSize(), s.Expect.Chunks, s.SizeInBytes)
		}
		if m.Compression != s.Expect.Compression || (m.Encryption != nil) != s.Expect.Encryption {
			t.Errorf("compression %t, encryption %t, want %t, %t", m.Compression, m.Encryption != nil, s.Expect.Compression, s.Expect.Encryption)
		}
		if m.Chunks.Kind() == chunking.Variable {
			var got []int32
			for i := range m.Chunks.Chunks() {
				got = append(got, int32(m.Chunks.Chunk(i).StoredSize))
			}
			if d := cmp.Diff(s.StoredSizes(t), got); d != "" {
				t.Errorf("stored sizes (-want +got):\n%s", d)
			}
		}
		// In one case the object is longer than the manifest says: the log had bytes behind its announced size.
		if got, want := m.Chunks.StoredSize(), int64(len(object(manifest.LogSuffix))); got != want && s.Case.Name != "plain-file-longer-than-size" {
			t.Errorf("chunks have %d bytes, .log has %d", got, want)
		}
		if got, want := m.Indexes.StoredSize(), int64(len(object(manifest.IndexesSuffix))); got != want {
			t.Errorf("parts have %d bytes, .indexes has %d", got, want)
		}
		want := s.Metadata(t)
		want.CustomMetadata = nil
		if m.Metadata == nil {
			t.Fatal(m.MetadataProblem)
		}
		if d := cmp.Diff(want, m.Metadata.Segment(m.Chunks.FileSize())); d != "" {
			t.Errorf("metadata (-want +got):\n%s", d)
		}
		if m.Checksums != nil {
			t.Error("checksums in a manifest of the plug-in")
		}
	})
}

func TestGolden_ManifestIsWrittenByteForByte(t *testing.T) {
	repacked := 0
	eachSegment(t, func(t *testing.T, s *aiven.Segment, object func(manifest.Suffix) []byte, m *manifest.Manifest) {
		want := object(manifest.ManifestSuffix)
		got, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(got, want) {
			return
		}
		// Only the frame of the chunk sizes may differ, where it pays to compress them: another encoder made it.
		if m.Chunks.Kind() != chunking.Variable || m.Chunks.Chunks() < 100 {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		repacked++
		if got, want := withoutSizes(t, got), withoutSizes(t, want); !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		again, err := manifest.Parse(got)
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.Chunks.Chunks() {
			if got, want := again.Chunks.Chunk(i), m.Chunks.Chunk(i); got != want {
				t.Fatalf("chunk %d is %+v after writing, was %+v", i, got, want)
			}
		}
	})
	if repacked > 1 {
		t.Errorf("%d manifests differ in the frame of the sizes, want at most zstd-300-chunks", repacked)
	}
}

// withoutSizes drops the text of transformedChunks.
func withoutSizes(t *testing.T, b []byte) []byte {
	t.Helper()
	front, rest, ok := bytes.Cut(b, []byte(`"transformedChunks":"`))
	_, back, ok2 := bytes.Cut(rest, []byte(`"`))
	if !ok || !ok2 {
		t.Fatalf("no transformedChunks in %s", b)
	}
	return append(append([]byte{}, front...), back...)
}

func TestGolden_KeysUnwrapAndEverythingDecodes(t *testing.T) {
	codecs, err := chunking.NewCodecs(chunking.CodecOptions{Pairs: 1})
	if err != nil {
		t.Fatal(err)
	}
	codec, err := codecs.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	eachSegment(t, func(t *testing.T, s *aiven.Segment, object func(manifest.Suffix) []byte, m *manifest.Manifest) {
		open := func(b []byte) []byte { return b }
		if m.Encryption != nil {
			open = opener(t, s, m)
		}
		var got []byte
		for i := range m.Chunks.Chunks() {
			c := m.Chunks.Chunk(i)
			b := open(object(manifest.LogSuffix)[c.StoredStart:][:c.StoredSize])
			if m.Compression {
				if b, err = codec.Decompress(make([]byte, 0, c.Size), b, int(c.Size)); err != nil {
					t.Fatalf("chunk %d: %v", i, err)
				}
			}
			if int64(len(b)) < c.Size || int64(len(b)) > c.Size && i < m.Chunks.Chunks()-1 {
				t.Fatalf("chunk %d has %d bytes, want %d", i, len(b), c.Size)
			}
			got = append(got, b[:c.Size]...)
		}
		if want, _ := s.Part(t, "log"); !bytes.Equal(got, want) {
			t.Errorf("log differs from the source")
		}
		for _, it := range remotelog.IndexTypes() {
			want, has := s.Index(t, it)
			part, ok := m.Indexes.Part(it)
			if ok != has {
				t.Errorf("%s index: in the manifest %t, in the source %t", it, ok, has)
			}
			if part.Size == 0 {
				if len(want) != 0 {
					t.Errorf("%s index is empty, want %d bytes", it, len(want))
				}
				continue
			}
			if got := open(object(manifest.IndexesSuffix)[part.Position:][:part.Size]); !bytes.Equal(got, want) {
				t.Errorf("%s index differs from the source", it)
			}
		}
	})
}

// opener unwraps the data key of a segment, compares it with the golden one, and returns what opens its pieces.
func opener(t *testing.T, s *aiven.Segment, m *manifest.Manifest) func([]byte) []byte {
	t.Helper()
	if id, err := crypto.WrappingKeyID(m.Encryption.DataKey); err != nil || id != s.Expect.KeyID {
		t.Errorf("wrapped with %q, %v, want %q", id, err, s.Expect.KeyID)
	}
	key, err := keyRing(t, s.Case.ReadConfig).Unwrap(context.Background(), m.Encryption.DataKey)
	if err != nil {
		t.Fatal(err)
	}
	wantKey, wantAAD := s.DataKey(t)
	if !bytes.Equal(key.Bytes(), wantKey) || !bytes.Equal(m.Encryption.AAD, wantAAD) {
		t.Error("data key or AAD is not the golden one")
	}
	dk, err := crypto.OpenDataKey(key, m.Encryption.AAD)
	if err != nil {
		t.Fatal(err)
	}
	return func(b []byte) []byte {
		plain, err := dk.Open(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		return plain
	}
}

func TestGolden_KeysOfObjects(t *testing.T) {
	eachSegment(t, func(t *testing.T, s *aiven.Segment, _ func(manifest.Suffix) []byte, _ *manifest.Manifest) {
		if s.Case.Name == "object-key-elsewhere" || s.Case.Name == "prefix-changed-manifest-moved" {
			return // objects were moved by hand
		}
		digits := manifest.ASCIIDigits
		if s.Case.JVMLocale == "ar-EG" {
			digits = manifest.ArabicDigits
		}
		prefix := s.Config["key.prefix"]
		for suffix, o := range s.Objects {
			if got := manifest.Key(prefix, manifest.MainPath(s.ID(), s.StartOffset, digits), manifest.Suffix(suffix)); got != o.Key {
				t.Errorf("key is %q, want %q", got, o.Key)
			}
			got, err := manifest.ParseKey(prefix, o.Key)
			want := manifest.KeyInfo{SegmentID: s.ID(), StartOffset: s.StartOffset, Digits: digits, Suffix: manifest.Suffix(suffix)}
			if err != nil || got != want {
				t.Errorf("ParseKey(%q) = %+v, %v, want %+v", o.Key, got, err, want)
			}
		}
	})
}

func TestGolden_CustomMetadata(t *testing.T) {
	n := 0
	eachSegment(t, func(t *testing.T, s *aiven.Segment, _ func(manifest.Suffix) []byte, _ *manifest.Manifest) {
		want := s.Custom(t)
		if want == nil {
			return
		}
		n++
		c, err := manifest.ParseCustom(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Append(nil); !bytes.Equal(got, want) {
			t.Errorf("encoded %x, want %x", got, want)
		}
		got := map[string]any{}
		if c.Has[manifest.RemoteSize] {
			got["REMOTE_SIZE"] = float64(c.RemoteSize)
		}
		if c.Has[manifest.ObjectPrefix] {
			got["OBJECT_PREFIX"] = c.ObjectPrefix
		}
		if c.Has[manifest.ObjectKey] {
			got["OBJECT_KEY"] = c.ObjectKey
		}
		if d := cmp.Diff(s.CustomMetadata.Fields, got); d != "" {
			t.Errorf("fields (-want +got):\n%s", d)
		}
		if err := c.CheckOwner(s.SegmentID); err != nil {
			t.Error(err)
		}
		if c.Has[manifest.ObjectKey] && c.CheckOwner(s.TopicID) == nil {
			t.Error("CheckOwner accepts another segment's id")
		}
	})
	if n < 8 {
		t.Errorf("%d cases have custom metadata, want more", n)
	}
}

// The negative entries as far as the manifest alone shows their defect; rsm tests all of them.
func TestGolden_DamagedManifestsAreRefusedOrRight(t *testing.T) {
	accepted := map[string]bool{ // what Aiven's reader accepts, and rightly
		"manifest-version-number-1": true, "manifest-unknown-property-metadata": true, "manifest-metadata-missing": true,
		"manifest-metadata-string": true, "manifest-compression-null": true, "manifest-encryption-null": true, "manifest-bom": true,
		"manifest-pretty": true, "manifest-ints-as-strings": true,
		// The defect shows only beside the metadata that the broker has.
		"manifest-file-size-too-small": true, "manifest-file-size-too-large": true,
	}
	n := 0
	for _, neg := range aiven.Negatives(t) {
		if !strings.HasPrefix(neg.Name, "manifest-") && neg.Name != "indexes-parts-swapped-aes" && neg.Name != "key-aad-missing" || neg.Name == "manifest-missing" {
			continue
		}
		n++
		t.Run(neg.Name, func(t *testing.T) {
			_, err := manifest.Parse(neg.Store(t)[neg.Case.Segments[0].Objects["rsm-manifest"].Key])
			switch want := accepted[neg.Name]; {
			case want && err != nil:
				t.Errorf("refused: %v", err)
			case !want && !isCorrupt(err):
				t.Errorf("got %v, want ErrCorrupt", err)
			case !want && strings.Contains(err.Error(), "\n"):
				t.Errorf("error has several lines: %v", err)
			}
			t.Log(err)
		})
	}
	if n < 30 {
		t.Errorf("%d entries, want more", n)
	}
}
