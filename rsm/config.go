package rsm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/remotelog"
)

// defaultZstdLevel was chosen by measuring: docs/performance.md.
const defaultZstdLevel = "1"

// DefaultChunkBytes is the chunk size where none is given: what Aiven's documentation recommends to begin with.
const DefaultChunkBytes = 4 << 20

// Config says how segments are stored and read. The zero value is usable: chunks of 4 MiB, neither compressed nor encrypted.
// ParseConfig makes one of properties.
type Config struct {
	ChunkBytes int    // 0: DefaultChunkBytes
	KeyPrefix  string // put before every key as it is
	MaskPrefix bool   // in logs and messages

	Compression bool
	Heuristic   bool // do not compress a segment whose first batch is compressed
	ZstdLevel   int  // 0: the default

	Encryption bool // Options.Keys wraps the data keys
	ActiveKey  string
	KeyFiles   []KeyFile // of the key ring that Open makes

	CustomFields []string // REMOTE_SIZE, OBJECT_PREFIX, OBJECT_KEY

	UploadBytesPerSecond int64 // 0: no limit
	MemoryBudgetBytes    int64 // 0: the default of [BudgetBytes]

	Chunks    CacheConfig
	Indexes   CacheConfig
	Manifests CacheConfig // Max counts manifests
	Disk      DiskConfig  // keeps chunks as long as Chunks does
	// PrefetchBytes is how far a new stream loads ahead at once.
	PrefetchBytes int64
	ReadAhead     Limit // bytes ahead of all readers; unset: three quarters of what the chunk cache may hold
	RequestBytes  int64 // plain bytes that one request brings at most, at least one chunk; 0: the default

	Notices []string // what the user should hear once
}

// KeyFile names the files of one key pair.
type KeyFile struct{ ID, Public, Private string }

// CacheConfig bounds one cache. The zero value is the default of each.
type CacheConfig struct {
	Max       Limit         // bytes; of manifests: their number
	Retention time.Duration // < 0: no end; 0: the default
	Timeout   time.Duration // of a load; 0: the default
}

// Limit is an upper bound that may be unset or unbounded. The zero value is unset: the default.
type Limit struct {
	set bool
	n   int64
}

// AtMost returns the limit n; below 0: unbounded.
func AtMost(n int64) Limit { return Limit{set: true, n: n} }

// within returns the limit, or def where it is unset, and never more than most.
func (l Limit) within(def, most int64) int64 {
	switch {
	case !l.set:
		return min(def, most)
	case l.n < 0:
		return most
	}
	return min(l.n, most)
}

// ParseConfig reads the engine's settings out of properties whose keys have lost the prefix rsm.config. The error names every
// mistake; keys below "storage." are left to the driver's table.
func ParseConfig(props map[string]string) (Config, error) {
	return parseConfig(props, settings.Options{}, nil)
}

// parseConfig does; a KeyWrapper that the caller has stands for the key files.
func parseConfig(props map[string]string, o settings.Options, keys crypto.KeyWrapper) (Config, error) {
	o.Ignored = notOurs
	v, err := settings.Parse(Settings(), props, o)
	c := Config{
		ChunkBytes: int(v.Bytes(keyChunkSize)), KeyPrefix: v.String(keyPrefix), MaskPrefix: v.Bool(keyPrefixMask),
		Compression: v.Bool(keyCompression), Heuristic: v.Bool(keyHeuristic), ZstdLevel: int(v.Int(keyZstdLevel)),
		Encryption: v.Bool(keyEncryption), ActiveKey: v.String(keyActivePair), CustomFields: v.List(keyCustomFields),
		UploadBytesPerSecond: v.Bytes(keyUploadRate), MemoryBudgetBytes: v.Bytes(keyMemoryBudget),
		PrefetchBytes: v.Bytes(chunkKeys + "prefetch.max.size"), RequestBytes: v.Bytes(keyRequest),
		Notices: v.Notices(),
	}
	if v.IsSet(keyReadAhead) {
		c.ReadAhead = AtMost(v.Bytes(keyReadAhead))
	}
	for prefix, to := range map[string]*CacheConfig{chunkKeys: &c.Chunks, indexKeys: &c.Indexes, manifestKeys: &c.Manifests} {
		to.Retention, to.Timeout = v.Duration(prefix+"retention.ms"), v.Duration(prefix+"get.timeout.ms")
	}
	if v.IsSet(chunkKeys + "size") {
		c.Chunks.Max = AtMost(v.Bytes(chunkKeys + "size"))
	}
	c.Indexes.Max, c.Manifests.Max = AtMost(v.Bytes(indexKeys+"size")), AtMost(v.Int(manifestKeys+"size"))
	errs := []error{err}
	if v.String(chunkKeys+"class") == diskChunkCache {
		errs = append(errs, c.parseDisk(v, o.Prefix)...)
	}
	if c.Heuristic && !c.Compression {
		errs = append(errs, settings.Problemf(o.Prefix+keyHeuristic, "true", "needs %s%s=true", o.Prefix, keyCompression))
	}
	if v.String(keySegmentFormat) == "iceberg" {
		errs = append(errs, settings.Problemf(o.Prefix+keySegmentFormat, "iceberg", "is not supported: segments are stored as they are; set it to kafka"))
	}
	if keys == nil {
		errs = append(errs, c.parseKeys(v, o.Prefix)...)
	}
	return c, errors.Join(errs...)
}

// parseDisk reads what DiskChunkCache is told by. The size is that of the directory; the chunks in memory have the default.
func (c *Config) parseDisk(v *settings.Values, prefix string) (errs []error) {
	for _, key := range []string{keyDiskSize, keyDiskPath} {
		if !v.IsSet(key) {
			errs = append(errs, settings.Missing(prefix+key, "is required with DiskChunkCache"))
		}
	}
	c.Chunks.Max = Limit{}
	c.Disk = DiskConfig{Dir: v.File(keyDiskPath), MaxBytes: v.Bytes(keyDiskSize)}
	return errs
}

// parseKeys reads which key pairs there are. Their files are looked at only when the ring is made.
func (c *Config) parseKeys(v *settings.Values, prefix string) (errs []error) {
	ids := v.List(keyPairs)
	file := func(pattern, id string) string {
		name := strings.Replace(pattern, settings.ID, id, 1)
		if c.Encryption && !v.IsSet(name) {
			errs = append(errs, settings.Missing(prefix+name, "is required: %q is one of %s%s", id, prefix, keyPairs))
			return ""
		}
		return v.File(name)
	}
	for _, id := range ids {
		c.KeyFiles = append(c.KeyFiles, KeyFile{ID: id, Public: file(keyPublicFile, id), Private: file(keyPrivateFile, id)})
	}
	if !c.Encryption {
		return errs
	}
	if len(ids) == 0 {
		errs = append(errs, settings.Missing(prefix+keyPairs, "is required when %s%s=true", prefix, keyEncryption))
	}
	switch {
	case c.ActiveKey == "":
		errs = append(errs, settings.Missing(prefix+keyActivePair, "is required when %s%s=true", prefix, keyEncryption))
	case len(ids) > 0 && !slices.Contains(ids, c.ActiveKey):
		errs = append(errs, settings.Problemf(prefix+keyActivePair, c.ActiveKey, "is not one of %s%s (%s)", prefix, keyPairs, strings.Join(ids, ", ")))
	}
	for _, id := range append(v.IDs(keyPublicFile), v.IDs(keyPrivateFile)...) {
		if !slices.Contains(ids, id) {
			errs = append(errs, settings.Problemf(prefix+keyPairs, strings.Join(ids, ","), "has no key pair %q, but a key file of it is given", id))
		}
	}
	return errs
}

// withDefaults fills in what is not given.
func (c Config) withDefaults() Config {
	if c.ChunkBytes == 0 {
		c.ChunkBytes = DefaultChunkBytes
	}
	if c.ZstdLevel == 0 {
		c.ZstdLevel, _ = strconv.Atoi(defaultZstdLevel) // a constant
	}
	if c.RequestBytes == 0 {
		c.RequestBytes = defaultRequestBytes
	}
	for cc, retention := range map[*CacheConfig]time.Duration{&c.Chunks: 10 * time.Minute, &c.Indexes: 10 * time.Minute, &c.Manifests: time.Hour} {
		if cc.Retention == 0 {
			cc.Retention = retention
		}
		if cc.Timeout == 0 {
			cc.Timeout = 10 * time.Second
		}
		cc.Retention = max(cc.Retention, 0) // caches have 0 for no end
	}
	return c
}

// validate reports what a Config that was not parsed may have wrong.
func (c *Config) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{remotelog.ErrInvalidArgument}, args...)...)
	}
	switch {
	case c.ChunkBytes < 1 || c.ChunkBytes > 1<<30-1:
		return bad("%s is %d, outside 1..1073741823", keyChunkSize, c.ChunkBytes)
	case c.ZstdLevel < chunking.MinLevel || c.ZstdLevel > chunking.MaxLevel:
		return bad("%s is %d, outside %d..%d", keyZstdLevel, c.ZstdLevel, chunking.MinLevel, chunking.MaxLevel)
	case c.Heuristic && !c.Compression:
		return bad("%s needs %s=true", keyHeuristic, keyCompression)
	}
	return nil
}

// keyRing loads the key files. It is nil where none are configured.
func (c *Config) keyRing() (crypto.KeyWrapper, error) {
	if len(c.KeyFiles) == 0 || c.ActiveKey == "" {
		return nil, nil
	}
	var pairs []crypto.KeyPair
	var errs []error
	for _, f := range c.KeyFiles {
		p, err := crypto.LoadKeyPair(f.ID, f.Public, f.Private)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		pairs = append(pairs, p)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return crypto.NewKeyRing(c.ActiveKey, pairs...)
}
