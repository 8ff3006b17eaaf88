package remotelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestUUID_TextFormIsKafkas(t *testing.T) {
	cases := []struct {
		text string
		id   UUID
	}{
		{"AAECAwQFBgcICQoLDA0ODw", UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
		{"AAAAAAAAAAAAAAAAAAAAAQ", UUID{15: 1}},
		{"gAAAAAAAAAB__________w", UUID{0: 0x80, 8: 0x7f, 9: 0xff, 10: 0xff, 11: 0xff, 12: 0xff, 13: 0xff, 14: 0xff, 15: 0xff}},
		{"-_-7dzLuqmYh3ZlVEMyIRAA", UUID{}},
	}
	for _, c := range cases[:3] {
		got, err := ParseUUID(c.text)
		if err != nil || got != c.id || got.String() != c.text {
			t.Errorf("ParseUUID(%q) = %v, %v (text %q), want %v", c.text, got[:], err, got, c.id[:])
		}
	}
	for _, bad := range []string{"AAAAAAAAAAAAAAAAAAAA\r\n", "", "AAECAwQFBgcICQoLDA0OD", cases[3].text, "AAECAwQFBgcICQoLDA0ODx", "AAECAwQFBgcICQoLDA0O+w", "AAECAwQFBgcICQoLDA0O=="} {
		if got, err := ParseUUID(bad); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("ParseUUID(%q) = %v, %v, want ErrInvalidArgument", bad, got, err)
		}
	}
}

func TestNewUUID_NeverBeginsWithADashAndParsesBack(t *testing.T) {
	seen := map[UUID]bool{}
	for range 10_000 {
		u := NewUUID()
		back, err := ParseUUID(u.String())
		if err != nil || back != u || u.String()[0] == '-' || u[6]>>4 != 4 || u[8]>>6 != 2 || seen[u] {
			t.Fatalf("NewUUID gave %q (again %v, parsed %v, %v)", u, seen[u], back, err)
		}
		seen[u] = true
	}
}

// The table was run against Kafka 4.4's RemoteLogSegmentState.
func TestState_TransitionsAreKafkas(t *testing.T) {
	ok := map[[2]State]bool{{0, 0}: true, {0, 1}: true, {0, 2}: true, {1, 1}: true, {1, 2}: true, {2, 2}: true, {2, 3}: true, {3, 3}: true}
	for from := State(-1); from <= 4; from++ {
		for to := State(-1); to <= 4; to++ {
			if got, want := to.CanFollow(from), ok[[2]State{from, to}]; got != want {
				t.Errorf("%v.CanFollow(%v) = %v, want %v", to, from, got, want)
			}
		}
		if got, want := from.CanBegin(), from == CopySegmentStarted; got != want {
			t.Errorf("%v.CanBegin() = %v, want %v", from, got, want)
		}
	}
	del := map[[2]DeleteState]bool{{0, 0}: true, {0, 1}: true, {1, 1}: true, {1, 2}: true, {2, 2}: true}
	for from := DeleteState(-1); from <= 3; from++ {
		for to := DeleteState(-1); to <= 3; to++ {
			if got, want := to.CanFollow(from), del[[2]DeleteState{from, to}]; got != want {
				t.Errorf("%v.CanFollow(%v) = %v, want %v", to, from, got, want)
			}
		}
	}
}

func TestErrors_SpecialKindsAreAlsoNotFound(t *testing.T) {
	for _, err := range []error{ErrNoIndex, ErrNotAssigned} {
		if !errors.Is(fmt.Errorf("x: %w", err), ErrNotFound) {
			t.Errorf("%v does not match ErrNotFound", err)
		}
	}
	if errors.Is(ErrNotFound, ErrNoIndex) || errors.Is(ErrCorrupt, ErrNotFound) {
		t.Error("a general kind matches a special one")
	}
	if !Retriable(fmt.Errorf("x: %w", ErrNotReady)) || Retriable(ErrCorrupt) || Retriable(nil) {
		t.Error("Retriable: want true for ErrNotReady only")
	}
}

func TestSegmentMetadata_ValidateRefusesWhatARecordCannotHold(t *testing.T) {
	good := SegmentMetadata{
		SegmentID:   SegmentID{TopicIDPartition: TopicIDPartition{Topic: "orders", Partition: 3}, ID: UUID{1}},
		StartOffset: 10, EndOffset: 20, SizeBytes: 5,
		LeaderEpochs: []LeaderEpoch{{0, 10}, {3, 15}},
	}
	if err := good.Validate(); err != nil {
		t.Fatalf("good segment: %v", err)
	}
	if got := []int64{good.EpochEnd(0), good.EpochEnd(1)}; got[0] != 14 || got[1] != 20 {
		t.Errorf("EpochEnd = %v, want [14 20]", got)
	}
	for name, change := range map[string]func(*SegmentMetadata){
		"no topic":              func(m *SegmentMetadata) { m.Topic = "" },
		"negative partition":    func(m *SegmentMetadata) { m.Partition = -1 },
		"negative start":        func(m *SegmentMetadata) { m.StartOffset = -1 },
		"end below start":       func(m *SegmentMetadata) { m.EndOffset = 9 },
		"size above 2^31-1":     func(m *SegmentMetadata) { m.SizeBytes = math.MaxInt32 + 1 },
		"negative size":         func(m *SegmentMetadata) { m.SizeBytes = -1 },
		"no epochs":             func(m *SegmentMetadata) { m.LeaderEpochs = nil },
		"first epoch elsewhere": func(m *SegmentMetadata) { m.LeaderEpochs = []LeaderEpoch{{0, 11}} },
		"epoch behind the end":  func(m *SegmentMetadata) { m.LeaderEpochs = []LeaderEpoch{{0, 10}, {1, 21}} },
		"epochs not ascending":  func(m *SegmentMetadata) { m.LeaderEpochs = []LeaderEpoch{{1, 10}, {1, 12}} },
		"offsets descending":    func(m *SegmentMetadata) { m.LeaderEpochs = []LeaderEpoch{{0, 10}, {1, 15}, {2, 12}} },
		"negative epoch":        func(m *SegmentMetadata) { m.LeaderEpochs = []LeaderEpoch{{-1, 10}} },
	} {
		m := good
		change(&m)
		if err := m.Validate(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v, want ErrInvalidArgument", name, err)
		}
	}
}

func TestSource_FileAndBytes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Source{"file": File(path), "bytes": Bytes("abc")} {
		r, n, err := s.Open(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != "abc" || n != 3 || r.Close() != nil {
			t.Errorf("%s: got %q, %d bytes, %v", name, got, n, err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{dir, pipe} {
		if _, _, err := File(bad).Open(t.Context()); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v, want ErrInvalidArgument naming it", bad, err)
		}
	}
	if _, _, err := File(filepath.Join(dir, "none")).Open(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v, want os.ErrNotExist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := File(path).Open(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v, want context.Canceled", err)
	}
}

func TestIndexType_NamesParseBack(t *testing.T) {
	for _, it := range IndexTypes() {
		if got, err := ParseIndexType(it.String()); err != nil || got != it {
			t.Errorf("ParseIndexType(%q) = %v, %v", it, got, err)
		}
	}
	if _, err := ParseIndexType("leader_epoch"); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("unknown name: %v, want ErrInvalidArgument", err)
	}
}
