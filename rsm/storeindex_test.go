package rsm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/internal/golden/aiven"
	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// indexed is a StoreIndex that collects its notices.
type indexed struct {
	*StoreIndex
	mu      sync.Mutex
	notices []StoreNotice
}

func storeIndex(m *Manager, o StoreIndexOptions) *indexed {
	x := &indexed{}
	o.OnNotice = func(n StoreNotice) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.notices = append(x.notices, n)
	}
	x.StoreIndex = m.StoreIndex(o)
	return x
}

// said returns how many notices of a kind there were whose text or key contains what, and forgets all.
func (x *indexed) said(kind StoreNoticeKind, what string) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, notice := range x.notices {
		if notice.Kind == kind && (strings.Contains(notice.Text, what) || strings.Contains(notice.Key, what)) {
			n++
		}
	}
	return n
}

func (x *indexed) quiet(t *testing.T) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.notices {
		t.Errorf("notice: %s (%s)", n.Text, n.Key)
	}
}

func list[V any](t *testing.T, seq iter.Seq2[V, error]) (out []V) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// tiered is a segment that a real broker tiered.
type tiered struct {
	md   remotelog.SegmentMetadata
	data remotelog.SegmentData
}

// goldenTiered returns the segments of a golden partition that Kafka's LocalTieredStorage holds, in order.
func goldenTiered(t *testing.T, name string) []tiered {
	t.Helper()
	truth, err := golden.LoadTruth(name)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := golden.Tiered(truth)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	var out []tiered
	for i, log := range logs {
		s := readTiered(t, truth, strings.TrimSuffix(log, ".log"))
		if i > 0 { // compaction may have taken the last batch
			out[i-1].md.EndOffset = s.md.StartOffset - 1
		}
		out = append(out, s)
	}
	return out
}

func readTiered(t *testing.T, truth *golden.Truth, base string) tiered {
	t.Helper()
	topicID, err := remotelog.ParseUUID(truth.TopicID)
	if err != nil {
		t.Fatal(err)
	}
	id, err := remotelog.ParseUUID(filepath.Base(base)[21:])
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(base + ".log")
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := os.ReadFile(base + ".leader_epoch_checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	epochs, err := logfiles.ParseLeaderEpochs(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	md := remotelog.SegmentMetadata{
		SegmentID:      remotelog.SegmentID{TopicIDPartition: remotelog.TopicIDPartition{TopicID: topicID, Topic: truth.Topic, Partition: truth.Partition}, ID: id},
		MaxTimestampMs: -1, EventTimestampMs: 1700000000000, BrokerID: 1, SizeBytes: int64(len(log)),
	}
	r := recordbatch.NewReader(bytes.NewReader(log), recordbatch.ReaderOptions{})
	for first := true; ; first = false {
		b, err := r.Next()
		if err != nil {
			break
		}
		if first {
			md.StartOffset = b.BaseOffset
		}
		md.EndOffset, md.MaxTimestampMs = b.LastOffset(), max(md.MaxTimestampMs, b.MaxTimestampMs)
	}
	md.LeaderEpochs = epochsIn(epochs, md.StartOffset, md.EndOffset)
	d := remotelog.SegmentData{
		Log: remotelog.Bytes(log), OffsetIndex: remotelog.File(base + ".index"), TimeIndex: remotelog.File(base + ".timeindex"),
		ProducerSnapshot: remotelog.File(base + ".snapshot"), LeaderEpochs: checkpoint,
	}
	md.TxnIndexEmpty = true
	if fi, err := os.Stat(base + ".txnindex"); err == nil {
		d.TransactionIndex = remotelog.File(base + ".txnindex")
		md.TxnIndexEmpty = fi.Size() == 0
	}
	return tiered{md, d}
}

func TestStoreIndex_KnowsWhatRealBrokersTiered(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 2000, Compression: true, Encryption: true, KeyPrefix: "a/b-"})
	want := map[remotelog.TopicIDPartition][]remotelog.SegmentMetadata{}
	var partitions []remotelog.TopicIDPartition
	for _, name := range golden.Partitions() {
		for i, s := range goldenTiered(t, name) {
			r.mustCopy(t, s.md, s.data)
			if i == 0 {
				partitions = append(partitions, s.md.TopicIDPartition)
			}
			want[s.md.TopicIDPartition] = append(want[s.md.TopicIDPartition], finished(s.md, nil))
		}
	}
	if len(partitions) < 12 {
		t.Fatalf("%d golden partitions with tiered segments, want 13", len(partitions))
	}
	x := storeIndex(r.Manager, StoreIndexOptions{})
	slices.SortFunc(partitions, remotelog.TopicIDPartition.Compare)
	if d := gocmp.Diff(partitions, list(t, x.Partitions(t.Context()))); d != "" {
		t.Errorf("partitions (-want +got):\n%s", d)
	}
	for tp, segments := range want {
		if d := gocmp.Diff(segments, list(t, x.Segments(t.Context(), tp))); d != "" {
			t.Errorf("segments of %s (-want +got):\n%s", tp, d)
		}
		checkLookups(t, x, tp, segments)
	}
	x.quiet(t)
	sizes := map[string]int64{}
	for key := range r.StoreSizes(t) {
		i := strings.LastIndexByte(key, '.')
		sizes[key[:i]] += r.StoreSizes(t)[key]
	}
	for _, s := range list(t, x.Stored(t.Context(), partitions[0])) {
		if s.StoredBytes != sizes[s.Key] || s.StoredBytes == 0 {
			t.Errorf("%s has %d stored bytes, want %d", s.Key, s.StoredBytes, sizes[s.Key])
		}
	}
}

// StoreSizes returns the sizes of all objects.
func (r *rig) StoreSizes(t *testing.T) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for info, err := range r.store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		out[info.Key] = info.Size
	}
	return out
}

// checkLookups asks for every offset of every epoch of segments that do not overlap.
func checkLookups(t *testing.T, x *indexed, tp remotelog.TopicIDPartition, segments []remotelog.SegmentMetadata) {
	t.Helper()
	highest, of := map[int32]int64{}, map[int32][]remotelog.UUID{}
	for i := range segments {
		md := &segments[i]
		for j, e := range md.LeaderEpochs {
			highest[e.Epoch] = md.EpochEnd(j)
			of[e.Epoch] = append(of[e.Epoch], md.ID)
			for offset := e.StartOffset; offset <= md.EpochEnd(j); offset++ {
				if got, ok, err := x.Segment(t.Context(), tp, e.Epoch, offset); err != nil || !ok || got.ID != md.ID {
					t.Fatalf("%s: offset %d of epoch %d is in %s, %t, %v, want %s", tp, offset, e.Epoch, got.ID, ok, err, md.ID)
				}
				if _, ok, err := x.Segment(t.Context(), tp, e.Epoch+1000, offset); ok || err != nil {
					t.Fatalf("%s: offset %d is in an epoch that does not exist: %v", tp, offset, err)
				}
			}
			if got, ok, err := x.NextSegmentWithTxnIndex(t.Context(), tp, e.Epoch, e.StartOffset); err != nil || ok && got.TxnIndexEmpty {
				t.Errorf("%s: next transaction index is %s, empty %t, %v", tp, got.ID, got.TxnIndexEmpty, err)
			} else if want, wok := firstTxn(segments, e.Epoch, e.StartOffset); wok != ok || got.ID != want {
				t.Errorf("%s: next transaction index of epoch %d from %d is %s, %t, want %s, %t", tp, e.Epoch, e.StartOffset, got.ID, ok, want, wok)
			}
		}
	}
	for epoch, want := range highest {
		if got, ok, err := x.HighestOffset(t.Context(), tp, epoch); err != nil || !ok || got != want {
			t.Errorf("%s: highest offset of epoch %d is %d, %t, %v, want %d", tp, epoch, got, ok, err, want)
		}
		var ids []remotelog.UUID
		for _, md := range list(t, x.SegmentsOfEpoch(t.Context(), tp, epoch)) {
			ids = append(ids, md.ID)
		}
		if !slices.Equal(ids, of[epoch]) {
			t.Errorf("%s: epoch %d has %v, want %v", tp, epoch, ids, of[epoch])
		}
	}
	if _, ok, err := x.HighestOffset(t.Context(), tp, 1<<30); ok || err != nil {
		t.Errorf("%s: highest offset of an epoch that does not exist: %t, %v", tp, ok, err)
	}
}

// firstTxn is the first segment of an epoch from an offset on that has aborted transactions.
func firstTxn(segments []remotelog.SegmentMetadata, epoch int32, offset int64) (remotelog.UUID, bool) {
	for i := range segments {
		md := &segments[i]
		for j, e := range md.LeaderEpochs {
			if e.Epoch == epoch && md.EpochEnd(j) >= offset && !md.TxnIndexEmpty {
				return md.ID, true
			}
		}
	}
	return remotelog.UUID{}, false
}

func TestStoreIndex_ReadsThePlugInsManifests(t *testing.T) {
	for _, c := range aiven.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			g := newGoldenRig(t, c.ReadConfig, c.Store(t))
			x := storeIndex(g.Manager, StoreIndexOptions{})
			var want []remotelog.SegmentMetadata
			for i := range c.Segments {
				s := &c.Segments[i]
				if s.PluginReadResult != "" {
					continue // under a prefix that no setting names
				}
				md := s.Metadata(t)
				md.CustomMetadata = nil
				md.LeaderEpochs = epochsIn(md.LeaderEpochs, md.StartOffset, md.EndOffset)
				txn, has := s.Part(t, "transaction")
				md.TxnIndexEmpty = !has || len(txn) == 0
				want = append(want, md)
			}
			slices.SortFunc(want, func(a, b remotelog.SegmentMetadata) int { return a.Compare(&b) })
			var got []remotelog.SegmentMetadata
			for _, tp := range list(t, x.Partitions(t.Context())) {
				got = append(got, list(t, x.Segments(t.Context(), tp))...)
			}
			if d := gocmp.Diff(want, got); d != "" {
				t.Errorf("segments (-want +got):\n%s", d)
			}
			x.quiet(t)
		})
	}
}

// part describes a segment of tests of lineage: epochs are its own, index is what its leader epoch index says.
type part struct {
	name       string
	start, end int64
	epochs     []remotelog.LeaderEpoch
	index      string // epochs and offsets; "": those of epochs
	event      int64
}

func epochList(pairs ...int64) (out []remotelog.LeaderEpoch) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, remotelog.LeaderEpoch{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
	}
	return out
}

// id of a part: its name, so that failures can be read.
func (p part) id() (id remotelog.UUID) {
	copy(id[:], p.name)
	return id
}

func copyParts(t *testing.T, r *rig, parts ...part) remotelog.TopicIDPartition {
	t.Helper()
	var tp remotelog.TopicIDPartition
	for _, p := range parts {
		md, data, _ := segmentOf(1, 100)
		md.ID, md.StartOffset, md.EndOffset, md.LeaderEpochs, md.EventTimestampMs = p.id(), p.start, p.end, p.epochs, p.event
		data.LeaderEpochs = logfiles.MarshalLeaderEpochs(p.epochs)
		if p.index != "" {
			data.LeaderEpochs = []byte(p.index)
		}
		r.mustCopy(t, md, data)
		tp = md.TopicIDPartition
	}
	return tp
}

// at returns the name of the part that answers.
func (x *indexed) at(t *testing.T, tp remotelog.TopicIDPartition, epoch int32, offset int64) string {
	t.Helper()
	md, ok, err := x.Segment(t.Context(), tp, epoch, offset)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return string(bytes.TrimRight(md.ID[:], "\x00"))
}

func TestStoreIndex_LineageOverlapsAndHoles(t *testing.T) {
	r := newRig(t, Config{})
	tp := copyParts(t, r,
		part{"old", 0, 9, epochList(0, 0), "", 1},
		part{"below", 15, 19, epochList(0, 15), "0\n1\n0 15\n", 1}, // what was between was deleted, or lost
		part{"a", 20, 49, epochList(0, 20), "0\n1\n0 20\n", 1},
		part{"a-again", 20, 49, epochList(0, 20), "0\n1\n0 20\n", 2},
		part{"a-short", 30, 44, epochList(0, 30), "0\n1\n0 20\n", 9},
		part{"lost", 50, 80, epochList(0, 50), "0\n1\n0 20\n", 9}, // a leader of epoch 0 went on, epoch 2 began at 60
		part{"b", 50, 69, epochList(0, 50, 2, 60), "0\n2\n0 20\n2 60\n", 1},
		part{"c", 70, 79, epochList(2, 70), "0\n2\n0 25\n2 60\n", 1},
		part{"other", 65, 90, epochList(1, 65), "0\n2\n0 20\n1 65\n", 9},
	)
	x := storeIndex(r.Manager, StoreIndexOptions{})
	for _, c := range []struct {
		epoch  int32
		offset int64
		want   string
	}{
		{0, 5, ""}, {0, 17, ""}, // before the hole
		{0, 24, ""},                                                 // below the lineage, which begins at 25
		{0, 25, "a-again"},                                          // of equal copies the one with the latest event
		{0, 35, "a-again"},                                          // the greater end offset, not the latest event
		{0, 49, "a-again"}, {0, 50, "b"}, {0, 59, "b"}, {0, 60, ""}, // "lost" is outside the lineage
		{2, 59, ""}, {2, 60, "b"}, {2, 70, "c"}, {2, 79, "c"}, {2, 80, ""},
		{1, 70, ""}, {2, -1, ""},
	} {
		if got := x.at(t, tp, c.epoch, c.offset); got != c.want {
			t.Errorf("offset %d of epoch %d is in %q, want %q", c.offset, c.epoch, got, c.want)
		}
	}
	for kind, what := range map[string]StoreNoticeKind{"[50, 80]": NoticeLineage, "[65, 90]": NoticeLineage, "[0, 9]": NoticeLineage, "[15, 19]": NoticeLineage} {
		if x.said(what, kind) != 1 {
			t.Errorf("%d notices about %s: %v", x.said(what, kind), kind, x.notices)
		}
	}
	if h, ok, err := x.HighestOffset(t.Context(), tp, 0); err != nil || !ok || h != 59 {
		t.Errorf("highest offset of epoch 0 is %d, %t, %v, want 59", h, ok, err)
	}
	if got := list(t, x.Segments(t.Context(), tp)); len(got) != 9 {
		t.Errorf("%d segments are listed, want all 9", len(got))
	}
	var names []string
	for _, md := range list(t, x.SegmentsOfEpoch(t.Context(), tp, 0)) {
		names = append(names, string(bytes.TrimRight(md.ID[:], "\x00")))
	}
	if want := []string{"a-again", "a", "a-short", "b"}; !slices.Equal(names, want) {
		t.Errorf("epoch 0 has %q, want %q", names, want)
	}
}

func TestStoreIndex_AHoleEndsTheChain(t *testing.T) {
	r := newRig(t, Config{})
	tp := copyParts(t, r,
		part{"a", 0, 9, epochList(0, 0), "", 1}, part{"b", 10, 19, epochList(0, 10), "0\n1\n0 0\n", 1},
		part{"d", 25, 39, epochList(0, 25), "0\n1\n0 0\n", 1}, part{"c", 21, 30, epochList(0, 21), "0\n1\n0 0\n", 1},
		part{"e", 40, 41, epochList(0, 40), "0\n1\n0 0\n", 1},
	)
	x := storeIndex(r.Manager, StoreIndexOptions{})
	for offset, want := range map[int64]string{9: "", 19: "", 20: "", 21: "c", 24: "c", 25: "d", 30: "d", 39: "d", 41: "e", 42: ""} {
		if got := x.at(t, tp, 0, offset); got != want {
			t.Errorf("offset %d is in %q, want %q", offset, got, want)
		}
	}
	if x.said(NoticeHole, "2 segments that end at offset 19") != 1 {
		t.Errorf("notices: %v", x.notices)
	}
}

func TestStoreIndex_LineageComesFromTheFirstThatCanBeRead(t *testing.T) {
	r := newRig(t, Config{})
	parts := []part{
		{"a", 0, 9, epochList(0, 0), "", 1}, {"b", 10, 19, epochList(0, 10), "0\n1\n0 0\n", 1}, {"c", 20, 29, epochList(3, 20), "0\n2\n0 0\n3 20\n", 1},
	}
	tp := copyParts(t, r, parts...)
	stored := list(t, r.StoreIndex(StoreIndexOptions{}).Stored(t.Context(), tp))
	remove := func(i int) {
		t.Helper()
		if err := r.store.Delete(t.Context(), stored[i].Key+".indexes"); err != nil {
			t.Fatal(err)
		}
	}
	remove(2)
	x := storeIndex(r.Manager, StoreIndexOptions{})
	// b's index knows nothing of epoch 3, c's manifest does.
	if got := []string{x.at(t, tp, 0, 5), x.at(t, tp, 0, 15), x.at(t, tp, 3, 25)}; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("answers are %q", got)
	}
	if x.said(NoticeLineage, "is taken from another one") != 1 || x.said(NoticeLineage, "outside the lineage") != 0 {
		t.Errorf("notices: %v", x.notices)
	}
	remove(0)
	remove(1)
	fresh := manager(t, r.space.Client(mem.Options{}), Config{}, r.logs)
	if _, _, err := fresh.StoreIndex(StoreIndexOptions{}).Segment(t.Context(), tp, 0, 5); !errors.Is(err, remotelog.ErrCorrupt) || errors.Is(err, remotelog.ErrNotFound) {
		t.Errorf("without any leader epoch index: %v, want ErrCorrupt", err)
	}
	if got := list(t, fresh.StoreIndex(StoreIndexOptions{}).Segments(t.Context(), tp)); len(got) != 3 {
		t.Errorf("%d segments are listed, want 3", len(got))
	}
}

func TestStoreIndex_PassesOverBadManifests(t *testing.T) {
	g := newGoldenRig(t, map[string]string{"chunk.size": "1000", "key.prefix": "p/"}, nil)
	md, data, _ := segmentOf(1, 5000)
	var keys []string
	for i := range 8 {
		md.ID[0], md.StartOffset, md.EndOffset = byte(i), int64(100*i), int64(100*i+99)
		md.LeaderEpochs = epochList(0, md.StartOffset)
		data.LeaderEpochs = []byte("0\n1\n0 0\n")
		if _, err := g.Copy(t.Context(), md, data); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, "p/"+manifest.MainPath(md.SegmentID, md.StartOffset, manifest.ASCIIDigits)+".rsm-manifest")
	}
	good := g.object(t, keys[0])
	cut := func(from string) []byte {
		front, _, ok := bytes.Cut(good, []byte(from))
		if !ok {
			t.Fatalf("no %s in %s", from, good)
		}
		return append(front, '}')
	}
	g.put(t, keys[1], []byte("hello"))
	g.put(t, keys[2], nil)
	g.put(t, keys[3], cut(`,"remoteLogSegmentMetadata"`))
	g.put(t, keys[4], good) // another segment's
	g.put(t, keys[5], bytes.Replace(g.object(t, keys[5]), []byte(`"endOffset":599`), []byte(`"endOffset":1`), 1))
	g.put(t, keys[6], bytes.Replace(g.object(t, keys[6]), []byte(`"topic":"orders"`), []byte(`"topic":"other"`), 1))
	g.put(t, "p/"+manifest.PartitionPath(md.TopicIDPartition)+"notes.rsm-manifest", good)
	g.put(t, "p/"+manifest.PartitionPath(md.TopicIDPartition)+"notes.txt", good)
	g.put(t, "p/README.rsm-manifest", nil)
	// The same segment in two scripts is one.
	arabic := "p/" + manifest.MainPath(md.SegmentID, md.StartOffset, manifest.ArabicDigits) + ".rsm-manifest"
	g.put(t, arabic, g.object(t, keys[7]))

	x := storeIndex(g.Manager, StoreIndexOptions{})
	got := list(t, x.Stored(t.Context(), md.TopicIDPartition))
	if len(got) != 2 || got[0].ID[0] != 0 || got[1].ID[0] != 7 || got[1].Key+".rsm-manifest" != keys[7] {
		t.Errorf("segments are %+v, want the first and the last", got)
	}
	for i, what := range map[int]string{1: "no JSON value", 2: "JSON ends", 3: "is missing", 4: "it describes segment", 5: "end offset 1 is below", 6: "it describes segment"} {
		if x.said(NoticeManifest, what) == 0 || x.said(NoticeManifest, keys[i]) != 1 {
			t.Errorf("no notice about %s with %q: %v", keys[i], what, x.notices)
		}
	}
	if x.said(NoticeManifest, "notes.rsm-manifest") != 1 || x.said(NoticeManifest, "notes.txt") != 0 || len(x.notices) != 7 {
		t.Errorf("notices: %v", x.notices)
	}
	for _, n := range x.notices {
		if strings.Contains(n.Text, "\n") {
			t.Errorf("notice of several lines: %q", n.Text)
		}
	}
	if tps := list(t, x.Partitions(t.Context())); !slices.Equal(tps, []remotelog.TopicIDPartition{md.TopicIDPartition}) || x.said(NoticeManifest, "README") != 1 {
		t.Errorf("partitions are %v", tps)
	}
	// Without a callback the log is told.
	if _ = list(t, g.StoreIndex(StoreIndexOptions{}).Segments(t.Context(), md.TopicIDPartition)); !strings.Contains(g.logs.String(), "notes.rsm-manifest") {
		t.Errorf("the log says nothing: %s", g.logs)
	}
}

func TestStoreIndex_ErrorsOfTheStoreAreNotPassedOver(t *testing.T) {
	r := newRig(t, Config{Encryption: true})
	tp := copyParts(t, r, part{"a", 0, 9, epochList(0, 0), "", 1}, part{"b", 10, 19, epochList(0, 10), "0\n1\n0 0\n", 1})
	denied := backends.Errorf(backends.Denied, "no")
	r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
		return nil, denied
	}
	x := storeIndex(r.Manager, StoreIndexOptions{})
	one := func(seq iter.Seq2[remotelog.SegmentMetadata, error]) (err error) {
		for _, e := range seq {
			err = e
		}
		return err
	}
	if err := one(x.Segments(t.Context(), tp)); !errors.Is(err, backends.Denied) || errors.Is(err, remotelog.ErrNotFound) {
		t.Errorf("denied: %v", err)
	}
	r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
		if strings.HasSuffix(key, ".rsm-manifest") { // deleted between the listing and the read
			return nil, backends.Errorf(backends.NotFound, "gone")
		}
		return r.driver.Driver.Get(ctx, key, o)
	}
	if got := list(t, x.Segments(t.Context(), tp)); len(got) != 0 {
		t.Errorf("%d segments whose manifests are gone", len(got))
	}
	if _, ok, err := x.Segment(t.Context(), tp, 0, 5); ok || err != nil {
		t.Errorf("in an empty partition: %t, %v", ok, err)
	}
	x.quiet(t)
	r.driver.get = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := one(x.Segments(ctx, tp)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// Listing needs no keys, the lineage does.
	store, err := backends.NewStore(r.space.Client(mem.Options{}), backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	blind := storeIndex(managerWith(t, store, Config{}, nil, r.logs), StoreIndexOptions{})
	if got := list(t, blind.Segments(t.Context(), tp)); len(got) != 2 {
		t.Errorf("%d segments without keys, want 2", len(got))
	}
	if _, _, err := blind.Segment(t.Context(), tp, 0, 5); !errors.Is(err, crypto.ErrUnknownKey) {
		t.Errorf("lookup without keys: %v, want ErrUnknownKey", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := one(x.Segments(t.Context(), tp)); !errors.Is(err, remotelog.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

func TestStoreIndex_LookupsShareOneReading(t *testing.T) {
	r := newRig(t, Config{})
	tp := copyParts(t, r, part{"a", 0, 9, epochList(0, 0), "", 1})
	var reads atomic.Int64
	r.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
		if strings.HasSuffix(key, ".rsm-manifest") {
			reads.Add(1)
		}
		return r.driver.Driver.Get(ctx, key, o)
	}
	now := time.Unix(1, 0)
	x := storeIndex(r.Manager, StoreIndexOptions{MaxAge: 10 * time.Second, Now: func() time.Time { return now }})
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if _, ok, err := x.Segment(t.Context(), tp, 0, 5); !ok || err != nil {
				t.Errorf("%t, %v", ok, err)
			}
		})
	}
	group.Wait()
	first := reads.Load() // of the scan, and of the fetch of the leader epoch index
	if first > 2 {
		t.Errorf("20 lookups read the manifest %d times", first)
	}
	tp2 := copyParts(t, r, part{"b", 10, 19, epochList(0, 10), "0\n1\n0 0\n", 1})
	now = now.Add(10 * time.Second)
	if got := x.at(t, tp2, 0, 15); got != "" || reads.Load() != first {
		t.Errorf("within MaxAge: %q, %d reads", got, reads.Load())
	}
	if got := list(t, x.Segments(t.Context(), tp)); len(got) != 2 {
		t.Errorf("a listing shows %d segments, want 2: it is never old", len(got))
	}
	now = now.Add(time.Second)
	if got := x.at(t, tp, 0, 15); got != "b" {
		t.Errorf("after MaxAge: %q", got)
	}
	for i := range 3 * keptViews { // many partitions do not pile up
		other := tp
		other.Partition = int32(1000 + i)
		if _, ok, err := x.Segment(t.Context(), other, 0, 0); ok || err != nil {
			t.Fatalf("%t, %v", ok, err)
		}
	}
	if len(x.views) > keptViews {
		t.Errorf("%d partitions are kept", len(x.views))
	}
}

// Lookups against a model that tries every segment.
func TestStoreView_LookupAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := &storeView{epochs: map[int32][]epochRange{}}
		for i := range rapid.IntRange(0, 12).Draw(t, "segments") {
			start := rapid.Int64Range(0, 40).Draw(t, "start")
			end := start + rapid.Int64Range(0, 30).Draw(t, "length")
			md := remotelog.SegmentMetadata{StartOffset: start, EndOffset: end, EventTimestampMs: rapid.Int64Range(0, 3).Draw(t, "event"), LeaderEpochs: epochList(0, start)}
			md.ID[0] = byte(i)
			if second := rapid.Int64Range(start, end).Draw(t, "second"); second > start {
				md.LeaderEpochs = epochList(0, start, 1, second)
			}
			v.chain = append(v.chain, md)
		}
		first := rapid.Int64Range(0, 20).Draw(t, "first")
		v.index(first)
		for epoch := int32(0); epoch < 2; epoch++ {
			for offset := int64(-1); offset < 75; offset++ {
				got, ok := v.lookup(epoch, offset)
				want, wok := modelLookup(v.chain, epoch, offset, first)
				if ok != wok || got.ID != want {
					t.Fatalf("offset %d of epoch %d is in %d, %t, want %d, %t", offset, epoch, got.ID[0], ok, want[0], wok)
				}
			}
		}
	})
}

func modelLookup(chain []remotelog.SegmentMetadata, epoch int32, offset, first int64) (best remotelog.UUID, ok bool) {
	type candidate struct {
		end, event int64
		id         remotelog.UUID
	}
	var all []candidate
	for i := range chain {
		for j, e := range chain[i].LeaderEpochs {
			if e.Epoch == epoch && e.StartOffset <= offset && offset <= chain[i].EpochEnd(j) && offset >= first {
				all = append(all, candidate{chain[i].EpochEnd(j), chain[i].EventTimestampMs, chain[i].ID})
			}
		}
	}
	if len(all) == 0 {
		return best, false
	}
	return slices.MinFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.end, a.end), cmp.Compare(b.event, a.event), a.id.Compare(b.id))
	}).id, true
}

func TestEpochsIn_CutsAndDropsEmptyOnes(t *testing.T) {
	epochs := epochList(0, 0, 1, 10, 3, 10, 5, 20)
	for in, want := range map[[2]int64][]remotelog.LeaderEpoch{
		{0, 100}: epochList(0, 0, 3, 10, 5, 20), {5, 15}: epochList(0, 5, 3, 10), {10, 10}: epochList(3, 10), {25, 30}: epochList(5, 25), {9, 9}: epochList(0, 9),
	} {
		if got := epochsIn(epochs, in[0], in[1]); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", in, got, want)
		}
	}
}
