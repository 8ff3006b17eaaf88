package rsm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

func TestSettings_TableIsSound(t *testing.T) {
	if err := settings.Check(Settings()); err != nil {
		t.Error(err)
	}
}

func TestParseConfig_AivensPropertiesMeanWhatTheySay(t *testing.T) {
	c, err := ParseConfig(map[string]string{
		"storage.backend.class": "io.aiven.kafka.tieredstorage.storage.s3.S3Storage", "storage.s3.bucket.name": "b", "broker.id": "1", "node.id": "1",
		"chunk.size": "4194304", "key.prefix": "tiered/", "key.prefix.mask": "true",
		"compression.enabled": "true", "compression.heuristic.enabled": "true",
		"encryption.enabled": "true", "encryption.key.pair.id": "k2", "encryption.key.pairs": "k1,k2",
		"encryption.key.pairs.k1.public.key.file": "/k1.pub", "encryption.key.pairs.k1.private.key.file": "/k1.key",
		"encryption.key.pairs.k2.public.key.file": "/k2.pub", "encryption.key.pairs.k2.private.key.file": "/k2.key",
		"custom.metadata.fields.include": "REMOTE_SIZE", "upload.rate.limit.bytes.per.second": "104857600", "segment.format": "kafka",
		"metrics.num.samples": "3", "metrics.recording.level": "DEBUG", "metrics.sample.window.ms": "1000",
		"fetch.chunk.cache.class": "io.aiven.kafka.tieredstorage.fetch.cache.MemoryChunkCache", "fetch.chunk.cache.size": "1073741824",
		"fetch.chunk.cache.prefetch.max.size": "16777216", "fetch.chunk.cache.retention.ms": "-1", "fetch.chunk.cache.thread.pool.size": "8",
		"fetch.indexes.cache.size": "-1", "fetch.manifest.cache.size": "500", "fetch.manifest.cache.get.timeout.ms": "1",
		"segment.manifest.cache.size": "9",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		ChunkBytes: 4 << 20, KeyPrefix: "tiered/", MaskPrefix: true, Compression: true, Heuristic: true, ZstdLevel: 1,
		Encryption: true, ActiveKey: "k2", KeyFiles: []KeyFile{{"k1", "/k1.pub", "/k1.key"}, {"k2", "/k2.pub", "/k2.key"}},
		CustomFields: []string{"REMOTE_SIZE"}, UploadBytesPerSecond: 100 << 20, PrefetchBytes: 16 << 20, RequestBytes: defaultRequestBytes,
		Chunks:    CacheConfig{Max: AtMost(1 << 30), Retention: -time.Millisecond, Timeout: 10 * time.Second},
		Indexes:   CacheConfig{Max: AtMost(-1), Retention: 10 * time.Minute, Timeout: 10 * time.Second},
		Manifests: CacheConfig{Max: AtMost(500), Retention: time.Hour, Timeout: time.Millisecond},
	}
	if d := cmp.Diff(want, c, cmp.AllowUnexported(Limit{}), cmpopts.IgnoreFields(Config{}, "Notices")); d != "" {
		t.Error(d)
	}
	for _, name := range []string{"metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "thread.pool.size", "segment.manifest.cache.size"} {
		if !strings.Contains(strings.Join(c.Notices, "\n"), name) {
			t.Errorf("no notice about %s: %q", name, c.Notices)
		}
	}
}

func TestParseConfig_DefaultsAreThoseOfTheZeroConfig(t *testing.T) {
	c, err := ParseConfig(map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Indexes: CacheConfig{Max: AtMost(10 << 20)}, Manifests: CacheConfig{Max: AtMost(1000)}}.withDefaults()
	if d := cmp.Diff(want, c.withDefaults(), cmp.AllowUnexported(Limit{}), cmpopts.EquateEmpty()); d != "" {
		t.Error(d)
	}
}

func TestParseConfig_AllMistakesAtOnce(t *testing.T) {
	_, err := ParseConfig(map[string]string{
		"chunk.size": "0", "chunk.sise": "1", "compression.heuristic.enabled": "true", "compression.zstd.level": "23", "encryption.enabled": "true",
		"encryption.key.pair.id": "nope", "encryption.key.pairs": "k1", "encryption.key.pairs.k1.public.key.file": "/x",
		"encryption.key.pairs.k9.public.key.file": "/x", "segment.format": "iceberg", "custom.metadata.fields.include": "SIZE",
		"fetch.chunk.cache.class": "com.example.Cache", "upload.rate.limit.bytes.per.second": "5",
	})
	text := ""
	if err != nil {
		text = err.Error()
	}
	for _, want := range []string{
		`chunk.size="0"`, "chunk.sise: unknown setting, did you mean chunk.size?", "compression.heuristic.enabled", "compression.zstd.level",
		"encryption.key.pair.id", "encryption.key.pairs.k1.private.key.file: is required", `no key pair "k9"`, "segment.format", "custom.metadata.fields.include",
		"fetch.chunk.cache.class", "upload.rate.limit",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if got := len(settings.Problems(err)); got < 11 {
		t.Errorf("%d problems, want each of the 11 mistakes to be one", got)
	}
	if _, err := ParseConfig(map[string]string{"chunk.size": "1073741824"}); err == nil {
		t.Error("a chunk size above Aiven's limit was accepted")
	}
}

func TestParseConfig_DiskChunkCache(t *testing.T) {
	props := map[string]string{
		"fetch.chunk.cache.class": "io.aiven.kafka.tieredstorage.fetch.cache.DiskChunkCache", "fetch.chunk.cache.size": "10737418240",
		"fetch.chunk.cache.path": "/var/cache/kafka", "fetch.chunk.cache.retention.ms": "-1", "fetch.chunk.cache.prefetch.max.size": "16777216",
	}
	c, err := ParseConfig(props)
	if want := (DiskConfig{Dir: "/var/cache/kafka", MaxBytes: 10 << 30}); err != nil || c.Disk != want || c.Chunks.Max.set ||
		c.Chunks.Retention >= 0 || c.PrefetchBytes != 16<<20 || len(c.Notices) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	delete(props, "fetch.chunk.cache.size")
	delete(props, "fetch.chunk.cache.path")
	if _, err = ParseConfig(props); err == nil || !strings.Contains(err.Error(), "fetch.chunk.cache.size") || !strings.Contains(err.Error(), "fetch.chunk.cache.path") {
		t.Errorf("%v, want that size and path are required", err)
	}
	for class, want := range map[string]bool{"": false, "io.aiven.kafka.tieredstorage.fetch.cache.MemoryChunkCache": false} {
		p := map[string]string{"fetch.chunk.cache.size": "1000", "fetch.chunk.cache.path": "/tmp"}
		if class != "" {
			p["fetch.chunk.cache.class"] = class
		}
		if c, err := ParseConfig(p); err != nil || c.Disk.on() != want || c.Chunks.Max != AtMost(1000) {
			t.Errorf("class %q: %+v, %v", class, c, err)
		}
	}
	if (DiskConfig{Dir: "/tmp"}).on() || !(DiskConfig{Dir: "/tmp", MaxBytes: -1}).on() {
		t.Error("a size of 0 means no disk cache, one below 0 one without a limit")
	}
}

func TestNeeds_AreThoseOfTheArchitecture(t *testing.T) {
	store, err := backends.NewStore(new(mem.Space).Client(mem.Options{}), backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, c := range []Config{{}, {ChunkBytes: 1}, {ChunkBytes: 64 << 20, ZstdLevel: 22}, {ChunkBytes: 1 << 30 / 2}, {Disk: DiskConfig{Dir: "x", MaxBytes: 1}}} {
		least := MinBudgetBytes(c, store)
		if got, want := BudgetBytes(c, store), max(256<<20, 2*least); got != want {
			t.Errorf("default budget %d, want %d", got, want)
		}
		for _, limit := range []int64{least - 1, least, least + 1, 2 * least, 100 * least} {
			c.MemoryBudgetBytes = limit
			b, err := NewBudget(c, store)
			if (err == nil) != (limit >= least) {
				t.Errorf("budget of %d with a least of %d: %v", limit, least, err)
			}
			if err != nil {
				continue
			}
			n, pair := b.Needs(), leastNeeds(c.withDefaults(), store).Fixed
			index := indexNeed(c, limit)
			if want := map[bool]int64{true: limit / 16}[c.Disk.on()]; index != want || n.Fixed < index {
				t.Errorf("limit %d: the index of the disk tier has %d bytes of %d, want %d", limit, index, n.Fixed, want)
			}
			n.Fixed -= index
			if n.Fixed%pair != 0 || n.Fixed < pair || n.Fixed > pair && n.Fixed > limit/4 {
				t.Errorf("limit %d: %d bytes of codecs, a pair has %d", limit, n.Fixed, pair)
			}
			if b.Ceiling(membudget.Fetch) < n.Fetch || b.Ceiling(membudget.Copy) < n.Copy {
				t.Errorf("limit %d: ceilings below the needs", limit)
			}
		}
	}
}

func TestOpen_AssemblesAManagerFromProperties(t *testing.T) {
	var reg backends.Registry
	for _, f := range []backends.Factory{fs.Factory(), mem.Factory()} {
		if err := reg.Register(f); err != nil {
			t.Fatal(err)
		}
	}
	root := t.TempDir()
	props := map[string]string{"storage.backend": "fs", "storage.root": root, "chunk.size": "1000", "compression.enabled": "true", "key.prefix": "a/"}
	m, err := Open(t.Context(), OpenOptions{Registry: &reg, Props: props})
	if err != nil {
		t.Fatal(err)
	}
	md, data, log := segmentOf(80, 5_000)
	if _, err := m.Copy(t.Context(), md, data); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t.Context(), m, finished(md, nil), 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if found, _ := filepath.Glob(filepath.Join(root, "a", "*", "3", "*")); len(found) != 3 {
		t.Errorf("files: %v", found)
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := m.Fetch(t.Context(), finished(md, nil), 0, 1); err == nil {
		t.Error("Fetch after Close")
	}
	for name, c := range map[string]struct {
		change map[string]string
		want   []string
	}{
		"mistakes of both": {map[string]string{"chunk.size": "x", "storage.rot": "y"}, []string{"pre.chunk.size", "pre.storage.rot"}},
		"budget too small": {map[string]string{"memory.budget.bytes": "1MiB"}, []string{"pre.memory.budget.bytes", "set it to"}},
		"no root":          {map[string]string{"storage.root": filepath.Join(root, "none")}, []string{"none"}},
		"key file missing": {map[string]string{"encryption.enabled": "true", "encryption.key.pair.id": "k", "encryption.key.pairs": "k", "encryption.key.pairs.k.public.key.file": "/no/pub", "encryption.key.pairs.k.private.key.file": "/no/key"}, []string{"/no/pub"}},
		"no cache directory": {map[string]string{
			"fetch.chunk.cache.class": diskChunkCache, "fetch.chunk.cache.size": "1000000", "fetch.chunk.cache.path": filepath.Join(root, "absent"),
		}, []string{"pre.fetch.chunk.cache.path", "not a directory"}},
		"iceberg": {map[string]string{"segment.format": "iceberg"}, []string{"iceberg"}},
	} {
		p := map[string]string{}
		for _, of := range []map[string]string{props, c.change} {
			for k, v := range of {
				p[k] = v
			}
		}
		_, err := Open(t.Context(), OpenOptions{Registry: &reg, Props: p, Prefix: "pre."})
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", name, err, want)
			}
		}
	}
	if _, err := os.Stat(root); err != nil {
		t.Error(err)
	}
}

// A KMS stands in for the key files: settings of key pairs are then not asked for.
func TestOpen_AKeyWrapperOfTheCallersNeedsNoKeyPairs(t *testing.T) {
	var reg backends.Registry
	if err := reg.Register(mem.Factory()); err != nil {
		t.Fatal(err)
	}
	ring, err := testRing()
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), OpenOptions{
		Registry: &reg, Keys: ring,
		Props: map[string]string{"storage.backend": "mem", "encryption.enabled": "true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	md, data, log := segmentOf(81, 5_000)
	if _, err := m.Copy(t.Context(), md, data); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t.Context(), m, finished(md, nil), 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
