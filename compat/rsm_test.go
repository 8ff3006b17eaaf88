package compat

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/internal/golden/aiven"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// variant is a set of settings, the same for tierkit and for the reader.
type variant struct {
	name  string
	props map[string]string
}

// join lays maps of settings over one another.
func join(list ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, props := range list {
		maps.Copy(all, props)
	}
	return all
}

// keyPair returns the settings of a key pair that was made for these tests.
func keyPair(t *testing.T, id, file string) map[string]string {
	t.Helper()
	keys := filepath.Join(aiven.Dir(t), "keys")
	return map[string]string{
		"encryption.key.pairs." + id + ".public.key.file":  filepath.Join(keys, file+".public.pem"),
		"encryption.key.pairs." + id + ".private.key.file": filepath.Join(keys, file+".private.pem"),
	}
}

func variants(t *testing.T) []variant {
	t.Helper()
	zstd := map[string]string{"compression.enabled": "true"}
	aes := join(keyPair(t, "key1", "test-only-rsa2048-a"), map[string]string{
		"encryption.enabled": "true", "encryption.key.pair.id": "key1", "encryption.key.pairs": "key1",
	})
	twoKeys := join(aes, keyPair(t, "key 2/b", "test-only-rsa4096-b"), map[string]string{
		"encryption.key.pair.id": "key 2/b", "encryption.key.pairs": "key1,key 2/b",
	})
	heuristic := join(zstd, map[string]string{"compression.heuristic.enabled": "true"})
	custom := map[string]string{
		"key.prefix": "pr\u00e9fixe/", "custom.metadata.fields.include": "REMOTE_SIZE,OBJECT_PREFIX,OBJECT_KEY",
	}
	return []variant{
		{"plain", nil},
		{"zstd", zstd},
		{"zstd-level-19", join(zstd, map[string]string{"compression.zstd.level": "19"})},
		{"aes", aes},
		{"zstd-aes", join(zstd, aes)},
		{"heuristic", heuristic},
		{"heuristic-aes", join(heuristic, aes)},
		{"two-keys-prefix-custom", join(zstd, twoKeys, custom)},
		{"defaults-of-chunk-size", join(zstd, aes, map[string]string{"chunk.size": "4194304"})},
	}
}

// ownSettings are settings of tierkit that the plug-in does not have; the reader does not get them.
var ownSettings = []string{"compression.zstd.level"}

// copySegment copies a segment into a new store and returns the objects and the metadata with what the copy returned.
func copySegment(t *testing.T, props map[string]string, md remotelog.SegmentMetadata, data remotelog.SegmentData) (map[string][]byte, remotelog.SegmentMetadata, error) {
	t.Helper()
	registry := &backends.Registry{}
	if err := registry.Register(mem.Factory()); err != nil {
		t.Fatal(err)
	}
	m, err := rsm.Open(t.Context(), rsm.OpenOptions{Registry: registry, Props: join(props, map[string]string{"storage.backend": "mem"})})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	md.State, md.CustomMetadata = remotelog.CopySegmentStarted, nil
	// Some golden segments have epochs that begin behind their last offset, which no broker hands over: they end later here.
	md.EndOffset = max(md.EndOffset, md.LeaderEpochs[len(md.LeaderEpochs)-1].StartOffset)
	md.CustomMetadata, err = m.Copy(t.Context(), md, data)
	if err != nil {
		return nil, md, err
	}
	objects := map[string][]byte{}
	for info, err := range m.Store().List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		object, err := m.Store().Get(t.Context(), info.Key, backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		if objects[info.Key], err = io.ReadAll(object.Body); err != nil {
			t.Fatal(err)
		}
		if err := object.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return objects, md, nil
}

// refused are the golden segments that tierkit does not copy although the plug-in did.
var refused = map[string]string{
	"plain-file-longer-than-size": "the log file is longer than the metadata say",
}

// TestReader_ReadsWhatTierkitWrites copies the sources of every golden segment (empty logs and indexes, no, an empty and a real
// transaction index, 200 leader epochs, offsets near 2^63, odd names) under each set of settings.
func TestReader_ReadsWhatTierkitWrites(t *testing.T) {
	type entry struct {
		job  job
		want map[string][]byte
	}
	var entries []entry
	var jobs []job
	for _, c := range aiven.Cases(t) {
		for i := range c.Segments {
			s := &c.Segments[i]
			for _, v := range variants(t) {
				props := join(map[string]string{"chunk.size": s.Config["chunk.size"]}, v.props)
				id := fmt.Sprintf("%s/%d/%s", c.Name, i, v.name)
				objects, md, err := copySegment(t, props, s.Metadata(t), s.Data(t))
				if why, ok := refused[c.Name]; ok {
					if err == nil {
						t.Errorf("%s: copied although %s", id, why)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: copy: %v", id, err)
					continue
				}
				for _, own := range ownSettings {
					delete(props, own)
				}
				j := newJob(t, id, md, props, objects)
				j.Ranges = someRanges(s.SizeInBytes, uint64(len(jobs)))
				entries, jobs = append(entries, entry{j, sources(t, s)}), append(jobs, j)
			}
		}
	}
	results := runReader(t, jobs)
	for _, e := range entries {
		name := strings.ReplaceAll(e.job.ID, "/", "_")
		t.Run(name, func(t *testing.T) { checkWhole(t, e.job, results[e.job.ID], e.want) })
	}
}
