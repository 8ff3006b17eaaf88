package rsm

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/golden/aiven"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// goldenRig is a manager with the settings of a golden case over a store with its objects.
type goldenRig struct {
	*Manager
	logs *bytes.Buffer
}

func newGoldenRig(t testing.TB, props map[string]string, objects map[string][]byte) *goldenRig {
	t.Helper()
	c, err := parseConfig(props, settings.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := c.keyRing()
	if err != nil {
		t.Fatal(err)
	}
	store, err := backends.NewStore(new(mem.Space).Client(mem.Options{}), backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &goldenRig{logs: new(bytes.Buffer)}
	g.Manager = managerWith(t, store, c, keys, g.logs)
	for key, data := range objects {
		g.put(t, key, data)
	}
	return g
}

func (g *goldenRig) put(t testing.TB, key string, data []byte) {
	t.Helper()
	if _, err := g.store.Put(t.Context(), key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))}); err != nil {
		t.Fatal(err)
	}
}

// objects returns what is in the store.
func (g *goldenRig) objects(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for info, err := range g.store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		out[info.Key] = g.object(t, info.Key)
	}
	return out
}

func (g *goldenRig) object(t testing.TB, key string) []byte {
	t.Helper()
	o, err := g.store.Get(t.Context(), key, backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	data, err := io.ReadAll(o.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestGolden_EveryCaseReadsBack(t *testing.T) {
	for _, c := range aiven.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			g := newGoldenRig(t, c.ReadConfig, c.Store(t))
			for i := range c.Segments {
				s := &c.Segments[i]
				md := s.Metadata(t)
				if s.PluginReadResult != "" && md.CustomMetadata == nil {
					if _, err := g.Fetch(t.Context(), md, 0, remotelog.ToEnd); !errors.Is(err, remotelog.ErrNotFound) {
						t.Errorf("under another prefix: %v, want ErrNotFound", err)
					}
					continue
				}
				checkLog(t, g, s, md)
				for _, it := range remotelog.IndexTypes() {
					want, has := s.Index(t, it)
					got, err := readIndex(t.Context(), g.Manager, md, it)
					switch {
					case !has && !errors.Is(err, remotelog.ErrNoIndex):
						t.Errorf("%s index that the segment does not have: %v, want ErrNoIndex", it, err)
					case has && (err != nil || !bytes.Equal(got, want)):
						t.Errorf("%s index: %d bytes, %v, want %d", it, len(got), err, len(want))
					}
				}
			}
		})
	}
}

// checkLog reads the log of a segment whole, at the borders of its chunks, and in random ranges.
func checkLog(t *testing.T, g *goldenRig, s *aiven.Segment, md remotelog.SegmentMetadata) {
	t.Helper()
	want, _ := s.Part(t, "log")
	size := int64(len(want))
	check := func(start, end int64) {
		t.Helper()
		got, err := read(t.Context(), g.Manager, md, start, end)
		stop := min(end, size-1) + 1
		if err != nil || !bytes.Equal(got, want[start:max(start, stop)]) {
			t.Fatalf("%s: bytes %d to %d: %d bytes, %v", md.ID, start, end, len(got), err)
		}
	}
	check(0, remotelog.ToEnd)
	check(size, remotelog.ToEnd)
	if size == 0 {
		return
	}
	chunk := int64(s.Expect.Chunks)
	if n, err := parseConfig(s.Config, settings.Options{}, nil); err == nil {
		chunk = int64(n.ChunkBytes)
	}
	for border := chunk; border < size && border < 20*chunk; border += chunk {
		check(border-1, border)
		check(border, border)
		check(border-1, border-1)
	}
	check(size-1, size-1)
	check(0, 0)
	r := rand.New(rand.NewPCG(uint64(size), 11))
	for range 20 {
		start := r.Int64N(size)
		check(start, start+r.Int64N(size))
		check(start, remotelog.ToEnd)
	}
	if _, err := g.Fetch(t.Context(), md, size+1, remotelog.ToEnd); !errors.Is(err, remotelog.ErrInvalidArgument) {
		t.Errorf("%s: behind the end: %v, want ErrInvalidArgument", md.ID, err)
	}
}

func TestGolden_DeleteLeavesNothing(t *testing.T) {
	for _, c := range aiven.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			g := newGoldenRig(t, c.ReadConfig, c.Store(t))
			lost := map[string]bool{} // what no setting leads to
			for i := range c.Segments {
				s := &c.Segments[i]
				md := s.Metadata(t)
				if s.PluginDeleteResult != "" && md.CustomMetadata == nil {
					for _, o := range s.Objects {
						lost[o.Key] = true
					}
				}
				if err := g.Delete(t.Context(), md); err != nil {
					t.Fatal(err)
				}
				if got, err := read(t.Context(), g.Manager, md, 0, remotelog.ToEnd); !errors.Is(err, remotelog.ErrNotFound) {
					t.Errorf("after the delete: %d bytes, %v, want ErrNotFound", len(got), err)
				}
			}
			for key := range g.objects(t) {
				if !lost[key] {
					t.Errorf("%q is left", key)
				}
			}
		})
	}
}

// refused are the cases whose source cannot be copied again here, and why.
var refused = map[string]string{
	"plain-file-longer-than-size": "the .log has 7072 bytes, the metadata of the segment say 6572",
	"epochs-200":                  "outside the segment", // epochs that begin behind the last offset: no broker hands those over
	"epochs-large-offsets":        "outside the segment",
	"epochs-many-leaders":         "outside the segment",
	"kafka41-multi-epoch":         "outside the segment",
}

// What is written with the settings, data key and additional data of a case is what the plug-in wrote: keys, manifest but for our own
// fields, chunk index, custom metadata, and every byte where no other zstd encoder and no random nonce comes in.
func TestGolden_WritesWhatThePlugInWrote(t *testing.T) {
	identical := 0
	for _, c := range aiven.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			for i := range c.Segments {
				s := &c.Segments[i]
				if c.Name == "object-key-elsewhere" || c.Name == "prefix-changed-manifest-moved" {
					return // objects were moved by hand
				}
				w := copyGolden(t, s)
				if w == nil {
					return
				}
				w.checkKeys(t)
				w.checkManifest(t)
				w.checkIndexes(t)
				identical += w.checkLog(t)
				w.checkCustom(t)
			}
		})
	}
	if identical < 40 {
		t.Errorf("%d .log objects are identical, want more", identical)
	}
}

// written is a golden segment that was copied again, beside what the plug-in wrote.
type written struct {
	s         *aiven.Segment
	got, want map[manifest.Suffix][]byte
	keys      []string
	gotMan    *manifest.Manifest
	wantMan   *manifest.Manifest
	custom    remotelog.CustomMetadata
	key       *crypto.DataKey
}

// copyGolden copies a segment with its own settings; nil if it must be refused, and is.
func copyGolden(t *testing.T, s *aiven.Segment) *written {
	t.Helper()
	g := newGoldenRig(t, s.Config, nil)
	w := &written{s: s, got: map[manifest.Suffix][]byte{}, want: map[manifest.Suffix][]byte{}}
	if s.Expect.Encryption {
		raw, aad := s.DataKey(t)
		key, err := crypto.KeyFromBytes(raw)
		if err != nil {
			t.Fatal(err)
		}
		if w.key, err = crypto.OpenDataKey(key, aad); err != nil {
			t.Fatal(err)
		}
		g.newDataKey = func() (*crypto.DataKey, error) { return w.key, nil }
	}
	md := s.Metadata(t)
	md.State, md.CustomMetadata = remotelog.CopySegmentStarted, nil
	cm, err := g.Copy(t.Context(), md, s.Data(t))
	if why, ok := refused[s.Case.Name]; ok {
		if !errors.Is(err, remotelog.ErrInvalidArgument) || !strings.Contains(err.Error(), why) || len(g.objects(t)) != 0 {
			t.Errorf("got %v, want ErrInvalidArgument with %q, and nothing stored", err, why)
		}
		if len(md.LeaderEpochs) == 1 {
			return nil
		}
		md.LeaderEpochs = slices.DeleteFunc(md.LeaderEpochs, func(e remotelog.LeaderEpoch) bool { return e.StartOffset > md.EndOffset })
		cm, err = g.Copy(t.Context(), md, s.Data(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.custom = cm
	for key, data := range g.objects(t) {
		k, err := manifest.ParseKey(s.Config["key.prefix"], key)
		if err != nil {
			t.Fatal(err)
		}
		w.keys, w.got[k.Suffix] = append(w.keys, key), data
	}
	store := s.Case.Store(t)
	for suffix, o := range s.Objects {
		w.want[manifest.Suffix(suffix)] = store[o.Key]
	}
	if w.gotMan, err = manifest.Parse(w.got[manifest.ManifestSuffix]); err != nil {
		t.Fatal(err)
	}
	if w.wantMan, err = manifest.Parse(w.want[manifest.ManifestSuffix]); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *written) checkKeys(t *testing.T) {
	t.Helper()
	var want []string
	for _, o := range w.s.Objects {
		if w.s.Case.JVMLocale == "" {
			want = append(want, o.Key)
			continue
		}
		k, err := manifest.ParseKey(w.s.Config["key.prefix"], o.Key)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, manifest.Key(w.s.Config["key.prefix"], manifest.MainPath(k.SegmentID, k.StartOffset, manifest.ASCIIDigits), k.Suffix))
	}
	slices.Sort(want)
	if slices.Sort(w.keys); !slices.Equal(w.keys, want) {
		t.Errorf("keys are %q, want %q", w.keys, want)
	}
}

// checkManifest compares all fields but those that must differ: the wrapped key, the sizes of frames that another encoder made, and
// what only we write.
func (w *written) checkManifest(t *testing.T) {
	t.Helper()
	got, want := *w.gotMan, *w.wantMan
	if got.Checksums == nil {
		t.Error("no checksums were written")
	}
	got.Checksums = nil
	if got.Encryption != nil && want.Encryption != nil {
		id, err := crypto.WrappingKeyID(got.Encryption.DataKey)
		if err != nil || id != w.s.Expect.KeyID {
			t.Errorf("data key is wrapped with %q, %v, want %q", id, err, w.s.Expect.KeyID)
		}
		e := *got.Encryption
		e.DataKey = want.Encryption.DataKey // OAEP is random
		got.Encryption = &e
	}
	md := *got.Metadata
	if want.Metadata.TxnIndexEmpty == nil {
		md.TxnIndexEmpty = nil // brokers before 4.0 do not say it; we always write it
	}
	if _, ok := refused[w.s.Case.Name]; ok {
		md.LeaderEpochs = want.Metadata.LeaderEpochs
	}
	got.Metadata = &md
	if got.Compression {
		if g, w := got.Chunks, want.Chunks; g.Kind() != w.Kind() || g.Chunks() != w.Chunks() || g.ChunkSize() != w.ChunkSize() || g.FileSize() != w.FileSize() {
			t.Errorf("chunk index is %s of %d, want %s of %d", g.Kind(), g.Chunks(), w.Kind(), w.Chunks())
		}
		got.Chunks = want.Chunks
	}
	gotText, err := got.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	wantText, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(gotText, wantText) {
		t.Errorf("manifest is\n%s\nwant\n%s", gotText, wantText)
	}
}

// checkIndexes: the .indexes object is never compressed, so that it is identical, or its parts are once decrypted.
func (w *written) checkIndexes(t *testing.T) {
	t.Helper()
	got, want := w.got[manifest.IndexesSuffix], w.want[manifest.IndexesSuffix]
	if w.key == nil {
		if !bytes.Equal(got, want) {
			t.Error(".indexes differ")
		}
		return
	}
	if len(got) != len(want) {
		t.Fatalf(".indexes has %d bytes, want %d", len(got), len(want))
	}
	for _, it := range manifest.StoredOrder() {
		p, ok := w.wantMan.Indexes.Part(it)
		if ok && p.Size > 0 && !bytes.Equal(w.opened(t, got[p.Position:][:p.Size]), w.opened(t, want[p.Position:][:p.Size])) {
			t.Errorf("%s index differs", it)
		}
	}
}

// checkLog compares the .log objects, chunk by chunk where nonces or frames differ. It returns how many were identical.
func (w *written) checkLog(t *testing.T) int {
	t.Helper()
	got, want := w.got[manifest.LogSuffix], w.want[manifest.LogSuffix]
	switch {
	case w.gotMan.Compression:
		return 0 // that both read back is tested elsewhere
	case w.key == nil:
		if !bytes.Equal(got, want) {
			t.Error(".log differs")
		}
		return 1
	case len(got) != len(want):
		t.Fatalf(".log has %d bytes, want %d", len(got), len(want))
	}
	for i := range w.wantMan.Chunks.Chunks() {
		c := w.wantMan.Chunks.Chunk(i)
		if !bytes.Equal(w.opened(t, got[c.StoredStart:][:c.StoredSize]), w.opened(t, want[c.StoredStart:][:c.StoredSize])) {
			t.Fatalf("chunk %d differs", i)
		}
	}
	return 1
}

func (w *written) opened(t *testing.T, piece []byte) []byte {
	t.Helper()
	plain, err := w.key.Open(nil, piece)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// checkCustom compares custom metadata; the stored size differs with our fields in the manifest, and must be the true one.
func (w *written) checkCustom(t *testing.T) {
	t.Helper()
	want := w.s.Custom(t)
	if (w.custom == nil) != (want == nil) {
		t.Fatalf("custom metadata %x, want %x", w.custom, want)
	}
	if want == nil {
		return
	}
	c, err := manifest.ParseCustom(want)
	if err != nil {
		t.Fatal(err)
	}
	if c.Has[manifest.RemoteSize] {
		c.RemoteSize = 0
		for _, data := range w.got {
			c.RemoteSize += int64(len(data))
		}
	}
	if c.Has[manifest.ObjectKey] { // in ASCII digits always
		c.ObjectKey = manifest.MainPath(w.s.ID(), w.s.StartOffset, manifest.ASCIIDigits)
	}
	if got := c.Append(nil); !bytes.Equal(w.custom, got) {
		t.Errorf("custom metadata %x, want %x", w.custom, got)
	}
}
