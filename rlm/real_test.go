package rlm_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlm"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/filelog"
	"github.com/tierkit/tierkit/rlmm/memlog"
	"github.com/tierkit/tierkit/rsm"
)

// realTier is the storage manager over a directory and the metadata manager over a log: the embedded default.
type realTier struct {
	t     testing.TB
	root  string
	meta  *rlmm.Manager
	store *rsm.Manager
}

// openTier opens a tier below dir; close closes it again, as the end of a process does.
func openTier(t testing.TB, dir string, log rlmm.Log, props map[string]string) (r *realTier, closeTier func()) {
	t.Helper()
	r = &realTier{t: t, root: filepath.Join(dir, "store")}
	registry := new(backends.Registry)
	if err := registry.Register(fs.Factory()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.root, 0o755); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"storage.backend": "fs", "storage.root": r.root, "chunk.size": "4096"}
	for k, v := range props {
		all[k] = v
	}
	var err error
	if r.store, err = rsm.Open(t.Context(), rsm.OpenOptions{Registry: registry, Props: all}); err != nil {
		t.Fatal(err)
	}
	if r.meta, err = rlmm.New(log, rlmm.Options{All: true}); err != nil {
		t.Fatal(err)
	}
	if err := r.meta.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, func() {
		if err := errors.Join(r.meta.Close(context.Background()), log.Close(), r.store.Close()); err != nil {
			t.Error(err)
		}
	}
}

func (r *realTier) follow(tp remotelog.TopicIDPartition) {
	r.t.Helper()
	if err := r.meta.OnLeadershipChange([]remotelog.TopicIDPartition{tp}, nil); err != nil {
		r.t.Fatal(err)
	}
	if err := r.meta.WaitReady(r.t.Context(), tp); err != nil {
		r.t.Fatal(err)
	}
}

// objects lists the files of the store.
func (r *realTier) objects() []string {
	r.t.Helper()
	var files []string
	err := filepath.WalkDir(r.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return files
}

// encrypted returns the settings of compression and encryption with a key pair of its own.
func encrypted(t testing.TB) map[string]string {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err1 := x509.MarshalPKIXPublicKey(&k.PublicKey)
	private, err2 := x509.MarshalPKCS8PrivateKey(k)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	props := map[string]string{"compression.enabled": "true", "encryption.enabled": "true", "encryption.key.pairs": "k1", "encryption.key.pair.id": "k1",
		"custom.metadata.fields.include": "REMOTE_SIZE,OBJECT_KEY"}
	for kind, der := range map[string][]byte{"public": public, "private": private} {
		file := filepath.Join(t.TempDir(), kind+".pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: strings.ToUpper(kind) + " KEY", Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		props["encryption.key.pairs.k1."+kind+".key.file"] = file
	}
	return props
}

func partitionOf(t testing.TB, name string) (dir string, tp remotelog.TopicIDPartition, truth *golden.Truth) {
	t.Helper()
	dir, err := golden.CopyPartition(t.TempDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	if tp, err = rlm.PartitionOf(dir); err != nil {
		t.Fatal(err)
	}
	if truth, err = golden.LoadTruth(name); err != nil {
		t.Fatal(err)
	}
	return dir, tp, truth
}

// The golden partitions over the real storage and metadata managers, each transform, both logs, with and without the active segment.
func TestReal_EveryGoldenPartitionReadsBackAsTheTruth(t *testing.T) {
	transforms := map[string]map[string]string{"plain": {}, "zstd+aes": encrypted(t)}
	for name, props := range transforms {
		for _, active := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/active=%v", name, active), func(t *testing.T) {
				dir := t.TempDir()
				var log rlmm.Log = memlog.New(memlog.Options{Partitions: 3})
				if active {
					l, err := filelog.Open(t.Context(), filepath.Join(dir, "log"), filelog.Options{Partitions: 3})
					if err != nil {
						t.Fatal(err)
					}
					log = l
				}
				r, closeTier := openTier(t, dir, log, props)
				defer closeTier()
				for _, partition := range golden.Partitions() {
					r.golden(partition, active)
				}
				r.deleteEverything()
			})
		}
	}
}

// golden copies one partition and compares what is read back.
func (r *realTier) golden(name string, active bool) {
	t := r.t
	t.Helper()
	dir, tp, truth := partitionOf(t, name)
	r.follow(tp)
	sum, err := rlm.Offload(t.Context(), r.meta, r.store, []string{dir}, rlm.OffloadOptions{IncludeActive: active})
	if err != nil || sum.Failed != 0 {
		t.Fatalf("%s: %+v, %v", name, sum, err)
	}
	for _, meta := range []remotelog.MetadataReader{r.meta, r.store.StoreIndex(rsm.StoreIndexOptions{})} {
		v, err := rlm.Open(t.Context(), meta, r.store, tp, rlm.ViewOptions{})
		if sum.Copied == 0 && errors.Is(err, remotelog.ErrNotFound) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		checkView(t, v, name, truth, active)
	}
	if again, err := rlm.Offload(t.Context(), r.meta, r.store, []string{dir}, rlm.OffloadOptions{IncludeActive: active}); err != nil || again.Copied != 0 {
		t.Fatalf("%s again: %+v, %v", name, again, err)
	}
}

// checkView reads a view of a golden partition from several offsets, in both isolation levels.
func checkView(t testing.TB, v *rlm.View, name string, truth *golden.Truth, active bool) {
	t.Helper()
	_, end := v.Range()
	for isolation, records := range map[rlm.Isolation][]golden.Record{rlm.ReadUncommitted: truth.Records, rlm.ReadCommitted: truth.Committed()} {
		stop := end
		if isolation == rlm.ReadCommitted {
			stop = rlm.CommittedEnd(name, active, end)
		}
		records = slices.DeleteFunc(slices.Clone(records), func(g golden.Record) bool { return g.Offset > stop })
		for _, from := range []int64{0, end / 3, end} {
			want := slices.DeleteFunc(slices.Clone(records), func(g golden.Record) bool { return g.Offset < from })
			n := 0
			for rec, err := range v.Records(t.Context(), from, rlm.ReadOptions{Isolation: isolation}) {
				if err != nil {
					t.Fatalf("%s from %d: %v", name, from, err)
				}
				if n >= len(want) {
					t.Fatalf("%s from %d: record at %d is one too many", name, from, rec.Offset)
				}
				if err := rlm.SameRecord(want[n], rec); err != nil {
					t.Fatalf("%s from %d: %v", name, from, err)
				}
				n++
			}
			if n != len(want) {
				t.Fatalf("%s from %d: %d records, want %d", name, from, n, len(want))
			}
		}
	}
	rlm.CheckTimestamps(t, v, truth, end)
}

// Two copies of each segment in the store, one of them damaged: read from manifests alone, every record comes from the whole one.
func TestReal_StoreAloneWithADamagedCopy(t *testing.T) {
	dir, tp, truth := partitionOf(t, "orders-3")
	r, closeTier := openTier(t, t.TempDir(), memlog.New(memlog.Options{}), map[string]string{"compression.enabled": "true", "fetch.chunk.cache.size": "0"})
	defer closeTier()
	plan, err := rlm.PlanPartition(t.Context(), dir, rlm.PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range plan.Segments {
		md, data, err := s.Prepare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for age := range int64(2) {
			md.ID, md.EventTimestampMs = remotelog.NewUUID(), 1000-age
			if _, err := r.store.Copy(t.Context(), md, data); err != nil {
				t.Fatal(err)
			}
			if age == 0 {
				r.damage(md.ID)
			}
		}
	}
	var notices []string
	v, err := rlm.Open(t.Context(), r.store.StoreIndex(rsm.StoreIndexOptions{}), r.store, tp, rlm.ViewOptions{OnNotice: func(n rlm.Notice) { notices = append(notices, n.Text) }})
	if err != nil {
		t.Fatal(err)
	}
	checkView(t, v, "orders-3", truth, false)
	if len(notices) != len(plan.Segments) {
		t.Errorf("%d notices, want one for each of %d segments: %q", len(notices), len(plan.Segments), notices)
	}
}

// damage flips a bit in the middle of a segment's .log object.
func (r *realTier) damage(id remotelog.UUID) {
	r.t.Helper()
	for _, f := range r.objects() {
		if !strings.HasSuffix(f, id.String()+".log") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			r.t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(f, b, 0o644); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	r.t.Fatalf("no .log object of %s", id)
}

// deleteEverything deletes inside the loop over a listing, which must not deadlock, and leaves no object.
func (r *realTier) deleteEverything() {
	t := r.t
	t.Helper()
	n := 0
	for tp, err := range r.meta.Partitions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for md, err := range r.meta.Segments(t.Context(), tp) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n%2 == 0 {
				err = rlm.DeleteSegment(t.Context(), r.meta, r.store, md, rlm.Protocol{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := rlm.DeleteAll(t.Context(), r.meta, r.store, tp, rlm.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if left := r.objects(); n < 40 || len(left) != 0 {
		t.Errorf("%d segments deleted, left in the store: %v", n, left)
	}
}

// A process that ends between the steps: the file log and the store are opened again, recovery removes what is unfinished, and
// everything acknowledged is there.
func TestReal_NextStartFinishesWhatACrashLeft(t *testing.T) {
	base, props := t.TempDir(), encrypted(t)
	open := func() (*realTier, func()) {
		l, err := filelog.Open(t.Context(), filepath.Join(base, "log"), filelog.Options{Partitions: 2})
		if err != nil {
			t.Fatal(err)
		}
		return openTier(t, base, l, props)
	}
	dir, tp, truth := partitionOf(t, "orders-0")
	r, closeTier := open()
	r.follow(tp)
	plan, err := rlm.PlanPartition(t.Context(), dir, rlm.PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(i int) remotelog.SegmentMetadata {
		md, data, err := plan.Segments[i].Prepare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		md.ID, md.EventTimestampMs = remotelog.NewUUID(), 1
		if err := r.meta.Add(t.Context(), md); err != nil {
			t.Fatal(err)
		}
		if i > 0 { // the first one crashed before its bytes
			if md.CustomMetadata, err = r.store.Copy(t.Context(), md, data); err != nil {
				t.Fatal(err)
			}
		}
		return md
	}
	update := func(md remotelog.SegmentMetadata, s remotelog.State) {
		u := remotelog.SegmentUpdate{SegmentID: md.SegmentID, EventTimestampMs: 2, State: s, CustomMetadata: md.CustomMetadata}
		if err := r.meta.Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	begin(0)
	begin(1)
	update(begin(2), remotelog.DeleteSegmentStarted)
	update(begin(2), remotelog.CopySegmentFinished)
	closeTier()

	r, closeTier = open()
	defer closeTier()
	found, err := rlm.Recover(t.Context(), r.meta, r.store, rlm.RecoverOptions{OwnLog: true})
	if err != nil || len(found) != 3 || len(r.objects()) != 3 {
		t.Fatalf("recovered %d, %v, objects %v", len(found), err, r.objects())
	}
	sum, err := rlm.Offload(t.Context(), r.meta, r.store, []string{dir}, rlm.OffloadOptions{})
	if err != nil || sum.Copied != 2 || sum.Skipped != 1 {
		t.Fatalf("offload: %+v, %v, want 2 copied, 1 skipped", sum, err)
	}
	v, err := rlm.Open(t.Context(), r.meta, r.store, tp, rlm.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rec, err := range v.Records(t.Context(), 0, rlm.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := rlm.SameRecord(truth.Records[n], rec); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 240 {
		t.Errorf("%d records, want 240", n)
	}
	for _, f := range r.objects() {
		if strings.Contains(f, ".tierkit") {
			t.Errorf("temp file left: %s", f)
		}
	}
}
