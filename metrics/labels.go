package metrics

import (
	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/serve"
)

// Label describes a label; it means the same in every family that has it.
type Label struct {
	Name, Doc string
	Values    []string // nil: the set is not closed
}

// Labels returns the labels of the families, in order of appearance.
func Labels() []Label {
	ops := make([]string, 0, len(backends.Ops()))
	for _, op := range backends.Ops() {
		ops = append(ops, string(op))
	}
	reasons := make([]string, 0, len(rlmm.DropReasons()))
	for _, r := range rlmm.DropReasons() {
		reasons = append(reasons, r.String())
	}
	kinds := make([]string, 0, len(lossKinds()))
	for _, k := range lossKinds() {
		kinds = append(kinds, lossLabel(k))
	}
	calls := make([]string, 0, len(serve.Calls()))
	for _, c := range serve.Calls() {
		calls = append(calls, string(c))
	}
	return []Label{
		{"driver", "the name of the driver, as in storage.backend", nil},
		{"op", "the operation; read is the stream that a get opened", ops},
		{"code", "how it ended; cancelled: the caller's context ended", opCodes()},
		{"direction", "up: to the store", []string{dirUp, dirDown}},
		{"class", "on whose account", []string{membudget.Copy.String(), membudget.Fetch.String()}},
		{"state", "of buffers", []string{"in_use", "idle"}},
		{"cache", "chunks: decoded, in memory; disk: chunks as stored, in the directory of DiskChunkCache", []string{cacheChunks, cacheDisk, cacheIndexes, cacheManifests}},
		{"cause", "why an entry left: evicted to keep within the limit, reclaimed for who waited for memory, expired, deleted, damaged; or why a chunk was not written: dropped " +
			"because there was no room in the queue or no memory, bypassed because an error of the disk was not long ago", causes()},
		{"access", "what failed", []string{accessRead, accessWrite}},
		{"reason", "why a record changed nothing", reasons},
		{"kind", "truncated: the partition is read again from its beginning", kinds},
		{"result", "in_doubt (of writes): the record may be in the log, or come into it", []string{resultOK, resultError, resultInDoubt}},
		{"call", "the call of the API", calls},
		{"error", "the kind of the error, as in the API", errorLabels()},
		{"stage", "running: it is copied; wants_files: clients have not sent all files yet", []string{"running", "wants_files"}},
		{"metadata_partition", "the partition of the metadata log", nil},
	}
}
