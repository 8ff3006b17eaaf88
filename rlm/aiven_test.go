package rlm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/internal/golden/aiven"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// openAiven opens a storage manager over the objects that the Java plug-in wrote.
func openAiven(t *testing.T, props map[string]string, objects map[string][]byte) *rsm.Manager {
	t.Helper()
	space := new(mem.Space)
	store, err := backends.NewStore(space.Client(mem.Options{}), backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for key, b := range objects {
		if _, err := store.Put(t.Context(), key, bytes.NewReader(b), backends.PutOptions{Size: int64(len(b))}); err != nil {
			t.Fatal(err)
		}
	}
	registry := new(backends.Registry)
	err = registry.Register(backends.Factory{Name: "golden", Open: func(context.Context, *backends.Config, backends.Env) (backends.Driver, error) {
		return space.Client(mem.Options{}), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	all := maps.Clone(props)
	all["storage.backend"] = "golden"
	m, err := rsm.Open(t.Context(), rsm.OpenOptions{Registry: registry, Props: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// shown is a record in a form that can be compared.
func shown(offset, ts int64, key, value []byte, headers []Header) string {
	return fmt.Sprintf("%d %d %q %q %q nulls %v %v", offset, ts, key, value, headers, key == nil, value == nil)
}

// sourceRecords are the records of a segment as the plug-in was given them, by offset.
func sourceRecords(t *testing.T, s *aiven.Segment, into map[int64]string) {
	t.Helper()
	log, _ := s.Part(t, "log")
	dec := recordbatch.NewDecoder(recordbatch.Limits{})
	defer dec.Close()
	for r := recordbatch.NewReader(bytes.NewReader(log), recordbatch.ReaderOptions{}); ; {
		b, err := r.Next()
		if err != nil {
			return // its end, or the batch that was damaged on purpose
		}
		if b.Control() {
			continue
		}
		for rec, err := range dec.Records(b.Bytes) {
			if err != nil {
				t.Fatal(err)
			}
			into[rec.Offset] = shown(rec.Offset, rec.TimestampMs, rec.Key, rec.Value, rec.Headers)
		}
	}
}

// readAiven reads a segment from its first offset. Every record shown must be one of the source's; it returns how many were.
func readAiven(t *testing.T, s *aiven.Segment, m *rsm.Manager) (n int, want map[int64]string, err error) {
	t.Helper()
	meta := newFakeMeta()
	want = map[int64]string{}
	md := s.Metadata(t)
	md.State = remotelog.CopySegmentFinished
	meta.segments[md.ID] = md
	sourceRecords(t, s, want)
	v, err := Open(t.Context(), meta, m, md.TopicIDPartition, ViewOptions{})
	if err != nil {
		return 0, want, err
	}
	start, _ := v.Range()
	for rec, err := range v.Records(t.Context(), start, ReadOptions{}) {
		if err != nil {
			return n, want, err
		}
		if got := shown(rec.Offset, rec.TimestampMs, rec.Key, rec.Value, rec.Headers); got != want[rec.Offset] {
			t.Errorf("record %s, want %s", got, want[rec.Offset])
		}
		n++
	}
	return n, want, nil
}

// Every partition that the Java plug-in wrote reads back record by record. Why one does not is in the table.
func TestAiven_EveryCaseReadsBackRecordByRecord(t *testing.T) {
	failing := map[string]error{
		"heuristic-bad-first-batch": remotelog.ErrCorrupt, // the source's first batch has a wrong CRC
		"indexes-all-empty-aes":     remotelog.ErrCorrupt, // no broker hands over an empty leader-epoch-checkpoint
		"indexes-all-empty-plain":   remotelog.ErrCorrupt,
	}
	for _, c := range aiven.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			m := openAiven(t, c.ReadConfig, c.Store(t))
			for i := range c.Segments {
				s := &c.Segments[i]
				n, want, err := readAiven(t, s, m)
				kind := failing[c.Name]
				if s.PluginReadResult != "" && s.Custom(t) == nil {
					kind = remotelog.ErrNotFound // under another prefix
				}
				if !errors.Is(err, kind) || kind == nil && n != len(want) {
					t.Errorf("segment %d: %d records, %v, want %d, %v", i, n, err, len(want), kind)
				}
			}
		})
	}
}

// Damaged objects: whatever is shown is right, and a read that ends without an error has shown everything.
func TestAiven_DamagedObjectsNeverShowAWrongRecord(t *testing.T) {
	wrong := 0
	for _, neg := range aiven.Negatives(t) {
		t.Run(neg.Name, func(t *testing.T) {
			n, want, err := readAiven(t, &neg.Case.Segments[0], openAiven(t, neg.ReadConfig, neg.Store(t)))
			if err == nil && n != len(want) {
				t.Errorf("%d records without an error, want %d", n, len(want))
			}
			if strings.Contains(neg.Plugin.Log.Outcome, "WRONG") {
				wrong++
				if err == nil {
					t.Errorf("the plug-in gives wrong bytes, nothing was noticed here")
				}
			}
		})
	}
	if wrong != 12 {
		t.Errorf("%d cases in which the plug-in gives wrong bytes, want 12", wrong)
	}
}
