package golden

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestPartitions_AreThoseOfTheSourceTree(t *testing.T) {
	root, err := Kafka()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(root, "partitions"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, Partitions()) {
		t.Errorf("testdata has %v, Partitions() says %v", names, Partitions())
	}
}

func TestLoadTruth_AgreesWithTheFilesOfThePartition(t *testing.T) {
	for _, name := range Partitions() {
		truth, err := LoadTruth(name)
		if err != nil {
			t.Fatal(err)
		}
		dir, err := CopyPartition(t.TempDir(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range truth.Segments {
			for ext, size := range s.Files {
				if fi, err := os.Stat(filepath.Join(dir, s.Segment+"."+ext)); err != nil || fi.Size() != size {
					t.Errorf("%s/%s.%s: %v, want %d bytes", name, s.Segment, ext, err, size)
				}
			}
		}
		if len(truth.Records) != truth.ReadUncommitted.Count || len(truth.Committed()) != truth.ReadCommitted.Count {
			t.Errorf("%s: %d and %d records, want %d and %d", name, len(truth.Records), len(truth.Committed()),
				truth.ReadUncommitted.Count, truth.ReadCommitted.Count)
		}
		if tiered, err := Tiered(truth); err != nil {
			t.Error(err)
		} else if _, err := os.Stat(tiered); err != nil && name != "orders-4" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDemo_IsPartOfTheGoldenPartitions(t *testing.T) {
	entries, err := fs.ReadDir(Demo(), ".")
	if err != nil || len(entries) != 4 {
		t.Fatalf("Demo has %d partitions, %v, want 4", len(entries), err)
	}
	dst := t.TempDir()
	if err := CopyTree(dst, Demo()); err != nil {
		t.Fatal(err)
	}
	root, err := Kafka()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		files, err := os.ReadDir(filepath.Join(root, "partitions", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			want, err := os.ReadFile(filepath.Join(root, "partitions", e.Name(), f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(dst, e.Name(), f.Name())); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s/%s: %v, %d bytes, want %d", e.Name(), f.Name(), err, len(got), len(want))
			}
		}
	}
}

func TestBytes_MatchTellsNullEmptyAndOtherApart(t *testing.T) {
	text, hexText := "ab", "ff00"
	for _, c := range []struct {
		want *Bytes
		got  []byte
		ok   bool
	}{
		{nil, nil, true}, {nil, []byte{}, false}, {&Bytes{Len: 2, Text: &text}, nil, false}, {&Bytes{Len: 2, Text: &text}, []byte("ab"), true},
		{&Bytes{Len: 2, Text: &text}, []byte("ac"), false}, {&Bytes{Len: 2, Hex: &hexText}, []byte{0xff, 0}, true}, {&Bytes{Len: 3}, []byte("ab"), false},
	} {
		if err := c.want.Match(c.got); (err == nil) != c.ok {
			t.Errorf("%+v.Match(%q) = %v, want ok %v", c.want, c.got, err, c.ok)
		}
	}
}
