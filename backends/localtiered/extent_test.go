package localtiered_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/localtiered"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// started is a COPY_SEGMENT_STARTED record as Kafka's serde decoded it.
type started struct {
	Type           string
	State          string
	SegmentID      string
	StartOffset    int64
	EndOffset      int64
	MaxTimestampMs int64
	Size           int64            `json:"segmentSizeInBytes"`
	Epochs         map[string]int64 `json:"segmentLeaderEpochs"`
	TxnIdxEmpty    *bool
}

// recorded reads what the brokers of a version recorded of every segment, by its id.
func recorded(t *testing.T, version string) map[string]started {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "rlmm", "testdata", "remote-log-metadata-"+version+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]started{}
	for line := range strings.Lines(string(raw)) {
		var r struct{ Decoded started }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Decoded.Type == "RemoteLogSegmentMetadata" {
			out[r.Decoded.SegmentID] = r.Decoded
		}
	}
	return out
}

// What the manifests say of each segment is what the broker recorded of it on the metadata topic, the compacted ones included.
func TestDriver_ManifestsSayWhatTheBrokersRecorded(t *testing.T) {
	for _, version := range []string{"3.9.2", "4.4.0"} {
		d, _ := open(t, version)
		want, seen := recorded(t, version), 0
		for _, info := range list(t, d, "") {
			if !strings.HasSuffix(info.Key, "."+string(manifest.ManifestSuffix)) {
				continue
			}
			seen++
			m := parse(t, d, info.Key)
			w, ok := want[m.ID.String()]
			epochs := map[string]int64{}
			for _, e := range m.LeaderEpochs {
				epochs[strconv.Itoa(int(e.Epoch))] = e.StartOffset
			}
			empty := w.TxnIdxEmpty == nil || *w.TxnIdxEmpty == *m.TxnIndexEmpty // 3.9 does not say
			if !ok || m.StartOffset != w.StartOffset || m.EndOffset != w.EndOffset || m.MaxTimestampMs != w.MaxTimestampMs ||
				!maps.Equal(epochs, w.Epochs) || !empty {
				t.Errorf("%s: %+v (transaction index empty: %v), the broker recorded %+v", info.Key, m, *m.TxnIndexEmpty, w)
			}
		}
		if seen < 10 {
			t.Errorf("%s: %d segments", version, seen)
		}
	}
}

func parse(t *testing.T, d *localtiered.Driver, key string) *manifest.Metadata {
	t.Helper()
	m, err := manifest.Parse(get(t, d, key, backends.All()))
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return m.Metadata
}

// logs returns the paths of the segments of a partition, by start offset, without ending.
func logs(t *testing.T, root, partition string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, partition+"-*", "*.log"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		out = append(out, strings.TrimSuffix(f, ".log"))
	}
	return out
}

// manifestOf returns the manifest of the segment at that path, nil if it has none.
func manifestOf(t *testing.T, d *localtiered.Driver, base string) *manifest.Metadata {
	t.Helper()
	id := filepath.Base(base)[21:]
	for _, info := range list(t, d, "") {
		if !strings.HasSuffix(info.Key, id+"."+string(manifest.ManifestSuffix)) {
			continue
		}
		m, err := manifest.Parse(get(t, d, info.Key, backends.All()))
		if errors.Is(err, remotelog.ErrCorrupt) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return m.Metadata
	}
	t.Fatalf("%s is not listed", base)
	return nil
}

var endings = []string{".log", ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint"}

func each(t *testing.T, f func(ending string) error) {
	t.Helper()
	for _, e := range endings {
		if err := f(e); err != nil {
			t.Fatal(err)
		}
	}
}

// A gap behind a segment is compaction's only where the log shows that it was compacted and both sides are of one history: else
// something is missing there, and whoever reads must notice.
func TestDriver_EndOfASegment(t *testing.T) {
	const noBatch = -1
	for name, c := range map[string]struct {
		partition string
		change    func(t *testing.T, base []string)
		want      int64 // end of the first segment
	}{
		"compacted": {"catalog-0", func(*testing.T, []string) {}, 329},
		"a segment of a dense log is missing": {"orders-0", func(t *testing.T, base []string) {
			each(t, func(e string) error { return os.Remove(base[1] + e) })
		}, 79},
		"another history": {"catalog-0", func(t *testing.T, base []string) {
			if err := os.WriteFile(base[1]+".leader_epoch_checkpoint", []byte("0\n2\n0 0\n3 200\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, 239},
		"no next segment": {"catalog-0", func(t *testing.T, base []string) {
			each(t, func(e string) error { return os.Remove(base[1] + e) })
		}, 239},
		"every record was compacted away": {"catalog-0", func(t *testing.T, base []string) {
			for _, e := range []string{".log", ".index", ".timeindex"} {
				if err := os.Truncate(base[0]+e, 0); err != nil {
					t.Fatal(err)
				}
			}
		}, 329},
		"empty, and nothing behind it": {"catalog-0", func(t *testing.T, base []string) {
			each(t, func(e string) error { return os.Remove(base[1] + e) })
			for _, e := range []string{".log", ".index", ".timeindex"} {
				if err := os.Truncate(base[0]+e, 0); err != nil {
					t.Fatal(err)
				}
			}
		}, noBatch},
		"a copy that stopped halfway": {"catalog-0", func(t *testing.T, base []string) {
			// The whole one, under another id; this one loses its last two batches.
			each(t, func(e string) error {
				b, err := os.ReadFile(base[0] + e)
				if err != nil {
					return err
				}
				return os.WriteFile(filepath.Join(filepath.Dir(base[0]), "00000000000000000000-AAAAAAAAAAAAAAAAAAAAAg"+e), b, 0o644)
			})
			if err := os.Truncate(base[0]+".log", 1115); err != nil { // where the batch of offset 232 begins
				t.Fatal(err)
			}
		}, 219},
	} {
		t.Run(name, func(t *testing.T) {
			d, root := open(t, "4.4.0")
			base := logs(t, root, c.partition)
			manifestOf(t, d, base[0]) // a driver that is open sees the change
			c.change(t, base)
			m := manifestOf(t, d, base[0])
			switch {
			case m == nil && c.want != noBatch:
				t.Errorf("no manifest, want end %d", c.want)
			case m != nil && (m.EndOffset != c.want || m.LeaderEpochs[0].StartOffset != 0):
				t.Errorf("end %d, epochs %v, want end %d", m.EndOffset, m.LeaderEpochs, c.want)
			}
		})
	}
}
