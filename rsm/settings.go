package rsm

import (
	"strings"

	"github.com/tierkit/tierkit/internal/settings"
)

// The names of the settings, without the prefix rsm.config. that they carry in a broker's properties.
const (
	keyChunkSize     = "chunk.size"
	keyPrefix        = "key.prefix"
	keyPrefixMask    = "key.prefix.mask"
	keyCompression   = "compression.enabled"
	keyHeuristic     = "compression.heuristic.enabled"
	keyZstdLevel     = "compression.zstd.level"
	keyEncryption    = "encryption.enabled"
	keyActivePair    = "encryption.key.pair.id"
	keyPairs         = "encryption.key.pairs"
	keyPublicFile    = "encryption.key.pairs.<id>.public.key.file"
	keyPrivateFile   = "encryption.key.pairs.<id>.private.key.file"
	keyCustomFields  = "custom.metadata.fields.include"
	keyUploadRate    = "upload.rate.limit.bytes.per.second"
	keySegmentFormat = "segment.format"
	keyMemoryBudget  = "memory.budget.bytes"
	keyReadAhead     = "fetch.readahead.max.bytes"
	keyRequest       = "fetch.request.max.bytes"

	chunkKeys    = "fetch.chunk.cache."
	indexKeys    = "fetch.indexes.cache."
	manifestKeys = "fetch.manifest.cache."

	keyDiskPath = chunkKeys + "path"
	keyDiskSize = chunkKeys + "size"
)

const (
	cacheClasses     = "io.aiven.kafka.tieredstorage.fetch.cache."
	memoryChunkCache = cacheClasses + "MemoryChunkCache"
	diskChunkCache   = cacheClasses + "DiskChunkCache"

	noMetrics = "metrics come from package metrics"
	noPool    = "caches do their work on the threads of their callers"
)

// Settings returns the table of the settings of the engine. Those of the object store, below "storage.", are the drivers'.
func Settings() []settings.Setting {
	return append(append(formatSettings(), cacheSettings()...), ignoredSettings()...)
}

func formatSettings() []settings.Setting {
	return []settings.Setting{
		{Name: keyChunkSize, Type: settings.TypeBytes, Default: "4MiB", Min: "1", Max: "1073741823",
			Doc: "Size of a chunk before compression: what is compressed, encrypted, fetched and cached as one. Larger chunks compress better and need fewer requests; smaller ones cost less memory and less to read a little. Recorded for each segment, so that a change never affects what is stored already."},
		{Name: keyPrefix, Type: settings.TypeString,
			Doc: "Put before the key of every object as it is; end it with a slash to make a directory of it. Segments stored under another prefix are found only through custom metadata, and their manifests not at all."},
		{Name: keyPrefixMask, Type: settings.TypeBool, Default: "false",
			Doc: "Shows the prefix as <prefix>/ in logs and messages. Keys are not affected."},
		{Name: keyCompression, Type: settings.TypeBool, Default: "false",
			Doc: "Compresses each chunk with zstd."},
		{Name: keyHeuristic, Type: settings.TypeBool, Default: "false",
			Doc: "Leaves a segment uncompressed if its first record batch is compressed already, or cannot be read. Needs " + keyCompression + "."},
		{Name: keyZstdLevel, Type: settings.TypeInt, Default: defaultZstdLevel, Min: "1", Max: "22",
			Doc: "Level of compression. The encoder has four: 1-2, 3-5, 6-9 and 10-22. docs/performance.md has the speed and the ratio of each on Kafka data."},
		{Name: keyEncryption, Type: settings.TypeBool, Default: "false",
			Doc: "Encrypts each chunk and index with AES-256-GCM under a data key of the segment, which is wrapped with an RSA key pair and kept in the manifest."},
		{Name: keyActivePair, Type: settings.TypeString,
			Doc: "The key pair that wraps the data keys of new segments: one of " + keyPairs + ". Required for encryption."},
		{Name: keyPairs, Type: settings.TypeList,
			Doc: "Ids of all key pairs, old ones included: a segment can be read as long as the pair that wrapped its data key is here. Required for encryption."},
		{Name: keyPublicFile, Type: settings.TypeFile,
			Doc: "PEM file with the public key of the pair (PUBLIC KEY). Read once at start."},
		{Name: keyPrivateFile, Type: settings.TypeFile,
			Doc: "PEM file with the private key of the pair (PRIVATE KEY, PKCS#8, without a password). Read once at start."},
		{Name: keyCustomFields, Type: settings.TypeList, OneOf: []string{"REMOTE_SIZE", "OBJECT_PREFIX", "OBJECT_KEY"},
			Doc: "What the broker keeps with a segment and hands back. All three need about 82 bytes and the lengths of prefix and topic; above remote.log.metadata.custom.metadata.max.bytes (128) the broker deletes the segment again and stops copying the partition."},
		{Name: keyUploadRate, Type: settings.TypeBytes, Min: "1048576", Max: "1000000000",
			Doc: "Most bytes that all uploads together send in a second; unset: no limit."},
		{Name: keySegmentFormat, Type: settings.TypeString, Default: "kafka", OneOf: []string{"kafka", "iceberg"},
			Doc: "Only kafka is supported: iceberg is refused."},
		{Name: keyMemoryBudget, Type: settings.TypeBytes, Min: "1",
			Doc: "The most memory that uploads, fetches, caches and codecs may hold together. Unset: 256 MiB, or twice the least that the other settings need, if that is more."},
	}
}

func cacheSettings() []settings.Setting {
	return []settings.Setting{
		{Name: chunkKeys + "class", Type: settings.TypeString, OneOf: []string{memoryChunkCache, diskChunkCache},
			Doc: "The kind of chunk cache. Unset, or MemoryChunkCache: decoded chunks in memory, within half of " + keyMemoryBudget + ". DiskChunkCache: chunks as they are stored in a directory as well, which survives restarts; in memory as if unset."},
		{Name: keyDiskSize, Type: settings.TypeBytes, Min: "-1",
			Doc: "With DiskChunkCache, where it is required: most bytes that the cache's files take; -1: no limit, 0: no files. Otherwise most bytes of decoded chunks in memory; never more than half of " + keyMemoryBudget + ", which is also what -1 means and what holds when it is unset. 0 keeps a chunk only while an open stream stands in it and 2 seconds longer, since a broker reads a chunk with several streams; then nothing is loaded ahead."},
		{Name: chunkKeys + "retention.ms", Type: settings.TypeDuration, Default: "600000", Min: "-1",
			Doc: "How long a chunk is kept that nobody reads, in memory and on disk; -1: until its place is needed, which is what a DiskChunkCache should have."},
		{Name: chunkKeys + "get.timeout.ms", Type: settings.TypeDuration, Default: "10000", Min: "1",
			Doc: "How long a load may go without finishing another chunk, from the moment that it has its memory."},
		{Name: chunkKeys + "prefetch.max.size", Type: settings.TypeBytes, Default: "0", Min: "0", Max: "2147483647",
			Doc: "How far behind its position a new stream without an end loads chunks before they are read, whoever reads. 0: it loads what is read; more is loaded ahead only of who reads in order, as " + keyReadAhead + " says, which needs no setting."},
		{Name: keyDiskPath, Type: settings.TypeFile,
			Doc: "With DiskChunkCache, where it is required: a directory that is there, of a local file system. The cache makes the directory tierkit-chunks in it and touches nothing else; one process at a time uses it, and a second one does not start."},
		{Name: keyReadAhead, Type: settings.TypeBytes, Min: "-1",
			Doc: "Most plain bytes that are loaded ahead of all who read in order, together. How much of it is used follows the speed of the reader and of the store. Never more than three quarters of what the chunk cache may hold, which is also what -1 means and what holds when it is unset. 0: nothing is loaded ahead."},
		{Name: keyRequest, Type: settings.TypeBytes, Default: "32MiB", Min: "1", Max: "2147483647",
			Doc: "Most plain bytes that one request for chunks brings; at least one chunk, and never more than half of the chunk cache. Larger ones are fewer."},
		{Name: indexKeys + "size", Type: settings.TypeBytes, Default: "10485760", Min: "-1",
			Doc: "Most bytes of indexes in memory; never more than half of " + keyMemoryBudget + "."},
		{Name: indexKeys + "retention.ms", Type: settings.TypeDuration, Default: "600000", Min: "-1",
			Doc: "How long an index is kept that nobody reads; -1: until its memory is needed."},
		{Name: indexKeys + "get.timeout.ms", Type: settings.TypeDuration, Default: "10000", Min: "1",
			Doc: "How long the load of an index may take, from the moment that it has its memory."},
		{Name: manifestKeys + "size", Type: settings.TypeInt, Default: "1000", Min: "-1",
			Doc: "Most manifests in memory. They are charged to " + keyMemoryBudget + " and leave earlier when it is needed."},
		{Name: manifestKeys + "retention.ms", Type: settings.TypeDuration, Default: "3600000", Min: "-1",
			Doc: "How long a manifest is used before it is asked for again: a copy of the same segment by another process is seen after that time. -1: until its memory is needed."},
		{Name: manifestKeys + "get.timeout.ms", Type: settings.TypeDuration, Default: "10000", Min: "1",
			Doc: "How long the load of a manifest may take, from the moment that it has its memory."},
	}
}

// ignoredSettings are Aiven's that mean nothing here, and names that older builds of it had.
func ignoredSettings() []settings.Setting {
	out := []settings.Setting{
		{Name: "metrics.num.samples", Type: settings.TypeInt, NoEffect: noMetrics},
		{Name: "metrics.sample.window.ms", Type: settings.TypeInt, NoEffect: noMetrics},
		{Name: "metrics.recording.level", Type: settings.TypeString, NoEffect: noMetrics},
	}
	for _, c := range []string{chunkKeys, indexKeys, manifestKeys} {
		out = append(out, settings.Setting{Name: c + "thread.pool.size", Type: settings.TypeInt, NoEffect: noPool})
	}
	for _, k := range []string{"size", "retention.ms", "thread.pool.size", "get.timeout.ms"} {
		out = append(out, settings.Setting{Name: "segment.manifest.cache." + k, Type: settings.TypeInt,
			NoEffect: "it is called " + manifestKeys + k + " since 2024"})
	}
	return out
}

// notOurs tells of keys that the engine does not look at: those of the store, of the daemon, and those that every broker hands over.
func notOurs(key string) (reason string, ok bool) {
	switch {
	case strings.HasPrefix(key, "storage."), strings.HasPrefix(key, "tierkit."), key == "broker.id", key == "node.id":
		return "", true
	}
	return "", false
}
