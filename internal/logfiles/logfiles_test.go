package logfiles

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

func TestScenario186_LookupBeyondTheLastEntryAndBelowTheFirst(t *testing.T) {
	x, err := ParseOffsetIndex([]byte{0, 0, 0, 5, 0, 0, 0, 100, 0, 0, 0, 9, 0, 0, 1, 0}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target, offset, pos int64
		ok                  bool
	}{{0, 1000, 0, false}, {1004, 1000, 0, false}, {1005, 1005, 100, true}, {1008, 1005, 100, true}, {1009, 1009, 256, true}, {1 << 60, 1009, 256, true}} {
		e, ok := x.Lookup(c.target)
		if ok != c.ok || e.Position != c.pos || e.Offset != c.offset {
			t.Errorf("Lookup(%d) = %+v, %v, want %+v", c.target, e, ok, c)
		}
	}
}

func TestTimeIndex_BeforeIsTheLastEntryBelow(t *testing.T) {
	entry := func(ts byte, rel byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, ts, 0, 0, 0, rel} }
	x, err := ParseTimeIndex(append(entry(10, 3), entry(20, 7)...), 100)
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[int64]int64{5: 100, 10: 100, 11: 103, 20: 103, 21: 107} {
		if e, _ := x.Before(target); e.Offset != want {
			t.Errorf("Before(%d) = %+v, want offset %d", target, e, want)
		}
	}
}

func TestCut_KeepsUsedEntriesAndRefusesOtherBytesBehind(t *testing.T) {
	offsets := append([]byte{0, 0, 0, 5, 0, 0, 0, 100}, make([]byte, 4092-8)...)
	if x, err := CutOffsetIndex(offsets, 7); err != nil || x.Len() != 1 || x.Entry(0).Offset != 12 {
		t.Errorf("offset index cut to %d entries, %v, want 1", x.Len(), err)
	}
	times := append([]byte{0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1}, make([]byte, 4092)...)
	if x, err := CutTimeIndex(times, 7); err != nil || x.Len() != 1 || x.Entry(0).Offset != 8 {
		t.Errorf("time index cut to %d entries, %v, want 1", x.Len(), err)
	}
	for _, empty := range [][]byte{nil, make([]byte, 4092), make([]byte, 12), make([]byte, 5)} {
		x, err1 := CutOffsetIndex(empty, 7)
		y, err2 := CutTimeIndex(empty, 7)
		if x.Len() != 0 || err1 != nil || err2 != nil || (y.Len() != 0 && len(empty) != timeEntrySize) {
			t.Errorf("%d zeros: %d and %d entries, %v, %v", len(empty), x.Len(), y.Len(), err1, err2)
		}
	}
	offsets[len(offsets)-1], times[40] = 1, 1
	_, err1 := CutOffsetIndex(offsets, 7)
	_, err2 := CutTimeIndex(times, 7)
	if !errors.Is(err1, remotelog.ErrCorrupt) || !errors.Is(err2, remotelog.ErrCorrupt) {
		t.Errorf("bytes behind the used entries: %v, %v, want ErrCorrupt", err1, err2)
	}
}

func TestParsers_RefuseWhatKafkaNeverWrites(t *testing.T) {
	good := MarshalSnapshot([]ProducerState{{ProducerID: 1, CurrentTxnFirstOffset: 5}})
	flipped := bytes.Clone(good)
	flipped[20] ^= 1
	lying := bytes.Clone(good[:56-46])
	lying[9] = 1
	txn := func(first, last byte) []byte {
		b := make([]byte, 34)
		b[17], b[25] = first, last
		return b
	}
	snap := func(b []byte) error { _, err := ParseSnapshot(b); return err }
	txns := func(b []byte) error { _, err := ParseTxnIndex(b); return err }
	epochs := func(s string) error { _, err := ParseLeaderEpochs([]byte(s)); return err }
	offsets := func(s string) error { _, err := ParseOffsetCheckpoint("x", []byte(s)); return err }
	meta := func(s string) error { _, err := ParsePartitionMetadata([]byte(s)); return err }
	props := func(s string) error { _, _, err := ParseMetaProperties([]byte(s)); return err }
	index := func(b ...byte) error { _, err := ParseOffsetIndex(b, 0); return err }
	times := func(b ...byte) error { _, err := ParseTimeIndex(b, 0); return err }
	for name, err := range map[string]error{
		"snapshot of 0 bytes":            snap(nil),
		"snapshot with a flipped bit":    snap(flipped),
		"snapshot cut":                   snap(good[:len(good)-1]),
		"snapshot with a count too high": snap(lying),
		"txn index of 33 bytes":          txns(make([]byte, 33)),
		"txn index version 1":            txns(append([]byte{0, 1}, make([]byte, 32)...)),
		"txn ends before it begins":      txns(txn(5, 4)),
		"txn markers descending":         txns(append(txn(5, 9), txn(1, 9)...)),
		"epochs: empty file":             epochs(""),
		"epochs: version 1":              epochs("1\n0\n"),
		"epochs: count too high":         epochs("0\n2\n0 0\n"),
		"epochs: count too low":          epochs("0\n1\n0 0\n1 5\n"),
		"epochs: descending":             epochs("0\n2\n1 0\n0 5\n"),
		"epochs: offsets descending":     epochs("0\n2\n0 9\n1 5\n"),
		"epochs: negative":               epochs("0\n1\n-1 0\n"),
		"epochs: no number":              epochs("0\n1\nx 0\n"),
		"epochs: three fields":           epochs("0\n1\n0 0 0\n"),
		"checkpoint: two fields":         offsets("0\n1\ntopic 0\n"),
		"checkpoint: negative offset":    offsets("0\n1\ntopic 0 -1\n"),
		"partition.metadata: version 1":  meta("version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"),
		"partition.metadata: no id":      meta("version: 0\n"),
		"partition.metadata: zero id":    meta("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n"),
		"meta.properties: no number":     props("node.id=one\n"),
		"offset index of 7 bytes":        index(make([]byte, 7)...),
		"offset index descending":        index(0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 10),
		"offset index of zeros":          index(make([]byte, 16)...),
		"offset index negative":          index(0xff, 0, 0, 5, 0, 0, 0, 9),
		"time index of 13 bytes":         times(make([]byte, 13)...),
		"time index of zeros":            times(make([]byte, 24)...),
	} {
		if !errors.Is(err, remotelog.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

func TestParsers_AcceptOtherSpellings(t *testing.T) {
	if got, err := ParseOffsetCheckpoint("x", []byte("0\n2\na.b-c 3 17\nd 0 0\n")); err != nil || got[Partition{"a.b-c", 3}] != 17 || len(got) != 2 {
		t.Errorf("offset checkpoint: %v, %v", got, err)
	}
	if got, err := ParseOffsetCheckpoint("x", []byte("0\n0\n")); err != nil || len(got) != 0 {
		t.Errorf("empty offset checkpoint: %v, %v", got, err)
	}
	if got, err := ParseLeaderEpochs([]byte("0\n0\n")); err != nil || len(got) != 0 {
		t.Errorf("no epochs: %v, %v", got, err)
	}
	for text, want := range map[string]int32{"#x\nversion=1\nnode.id=7\ncluster.id=x\n": 7, "broker.id=3\nversion=0\n": 3, "node.id = 5\r\nbroker.id=6": 5} {
		if got, ok, err := ParseMetaProperties([]byte(text)); got != want || !ok || err != nil {
			t.Errorf("%q: %d, %v, %v, want %d", text, got, ok, err, want)
		}
	}
	if _, ok, err := ParseMetaProperties([]byte("cluster.id=x\n")); ok || err != nil {
		t.Errorf("no id: %v, %v", ok, err)
	}
	if _, err := ParsePartitionMetadata([]byte("version: 0\r\ntopic_id: AAECAwQFBgcICQoLDA0ODw")); err != nil {
		t.Error(err)
	}
}

func TestFirstOpen_IsTheSmallest(t *testing.T) {
	if at, ok := FirstOpen([]ProducerState{{CurrentTxnFirstOffset: -1}, {CurrentTxnFirstOffset: 9}, {CurrentTxnFirstOffset: 4}}); at != 4 || !ok {
		t.Errorf("got %d, %v, want 4", at, ok)
	}
	if _, ok := FirstOpen([]ProducerState{{CurrentTxnFirstOffset: -1}}); ok {
		t.Error("open transaction found where there is none")
	}
}

func TestExtendLeaderEpochs(t *testing.T) {
	list := func(pairs ...int64) (out []remotelog.LeaderEpoch) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, remotelog.LeaderEpoch{Epoch: int32(pairs[i]), StartOffset: pairs[i+1]})
		}
		return out
	}
	for name, c := range map[string]struct{ known, own, want []remotelog.LeaderEpoch }{
		"a new epoch":                       {list(0, 0, 2, 50), list(3, 100), list(0, 0, 2, 50, 3, 100)},
		"the last epoch goes on":            {list(0, 0, 2, 50), list(2, 100, 4, 120), list(0, 0, 2, 50, 4, 120)},
		"one that is known to the end":      {list(0, 0, 2, 50, 4, 120), list(2, 100, 4, 120), list(0, 0, 2, 50, 4, 120)},
		"an epoch without records":          {list(0, 0, 1, 100), list(3, 100), list(0, 0, 1, 100, 3, 100)},
		"known is of another history":       {list(0, 0, 2, 110), list(3, 100), list(0, 0, 3, 100)},
		"known begins behind the own epoch": {list(2, 120), list(2, 100, 4, 120), list(2, 100, 4, 120)},
	} {
		known := slices.Clone(c.known)
		if got := ExtendLeaderEpochs(c.known, c.own); !slices.Equal(got, c.want) || !slices.Equal(c.known, known) {
			t.Errorf("%s: %v, want %v; known is %v, was %v", name, got, c.want, c.known, known)
		}
	}
}
