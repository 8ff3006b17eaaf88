package rsm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/internal/golden/aiven"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// outcome is what a read of damaged data gives.
type outcome string

const (
	right      outcome = "right bytes"
	corrupt    outcome = "ErrCorrupt"
	notFound   outcome = "ErrNotFound"
	unknownKey outcome = "ErrUnknownKey" // configuration, not damage
	wrongKey   outcome = "ErrWrongKey"   // the same
	// silent: wrong bytes without an error. Nothing that the plug-in stores shows the defect; why says what does.
	silent outcome = "wrong bytes"
)

const (
	// Where a segment was written here all of these are found: TestGolden_OwnChecksumsShowWhatThePlugInsDataCannot.
	byBatches = "the plug-in stores no checksum beside GCM's tag; the CRCs and offsets of the record batches show it (rlm, tierkit read)"
	byNobody  = "the plug-in stores no checksum of an index that is not encrypted; a segment written here has one"
)

// negative says what happens to the .log and to the indexes of one damaged case.
type negative struct {
	log     outcome
	indexes outcome // of all, but for those in index
	index   map[remotelog.IndexType]outcome
	why     string // of silent, and where the plug-in does otherwise
}

func all(o outcome) negative { return negative{log: o, indexes: o} }

func onlyLog(o outcome, why string) negative { return negative{log: o, indexes: right, why: why} }

func onlyIndex(t remotelog.IndexType, o outcome, why string) negative {
	return negative{log: right, indexes: right, index: map[remotelog.IndexType]outcome{t: o}, why: why}
}

// negatives is the table of all 82 damaged cases.
var negatives = map[string]negative{
	"log-cut-1-byte-plain":       onlyLog(corrupt, "the plug-in ends the stream one byte early; the object is shorter than the index says"),
	"log-cut-1-chunk-plain":      onlyLog(corrupt, ""),
	"log-flip-mid-chunk-1-plain": onlyLog(silent, byBatches),
	"log-swap-chunks-1-2-plain":  onlyLog(silent, byBatches),

	"log-cut-1-byte-zstd":       onlyLog(corrupt, ""),
	"log-cut-1-chunk-zstd":      onlyLog(corrupt, ""),
	"log-flip-mid-chunk-1-zstd": onlyLog(silent, byBatches+"; the bit lies in literals of a frame without a checksum"),
	"log-swap-chunks-1-2-zstd":  onlyLog(corrupt, ""),

	"log-cut-1-byte-aes":       onlyLog(corrupt, ""),
	"log-cut-1-chunk-aes":      onlyLog(corrupt, ""),
	"log-flip-mid-chunk-1-aes": onlyLog(corrupt, ""),
	"log-swap-chunks-1-2-aes":  onlyLog(silent, byBatches+"; all chunks of a segment have the same key and additional data, so that their order is not authenticated"),

	"log-cut-1-byte-zstd-aes":       onlyLog(corrupt, ""),
	"log-cut-1-chunk-zstd-aes":      onlyLog(corrupt, ""),
	"log-flip-mid-chunk-1-zstd-aes": onlyLog(corrupt, ""),
	"log-swap-chunks-1-2-zstd-aes":  onlyLog(corrupt, ""),

	"log-swap-and-reindex-zstd":     onlyLog(silent, byBatches+"; chunks and sizes were exchanged together"),
	"log-swap-and-reindex-zstd-aes": onlyLog(silent, byBatches+"; chunks and sizes were exchanged together, and their order is not authenticated"),
	"log-flip-iv-aes":               onlyLog(corrupt, ""),
	"log-flip-tag-aes":              onlyLog(corrupt, ""),
	"log-flip-magic-zstd":           onlyLog(corrupt, ""),
	"log-extra-bytes-plain":         all(right),
	"log-extra-bytes-aes":           all(right),
	"log-0-bytes-plain":             onlyLog(corrupt, ""),
	"log-missing":                   onlyLog(corrupt, "the plug-in says not found; the manifest is there, so that the segment is damaged, not absent"),

	"indexes-missing":                    {log: right, indexes: corrupt, why: "the plug-in says not found, which a broker takes for: no aborted transactions"},
	"manifest-missing":                   all(notFound),
	"all-missing":                        all(notFound),
	"indexes-cut-1-byte-plain":           onlyIndex(remotelog.TransactionIndex, corrupt, "the plug-in gives a shorter index"),
	"indexes-cut-1-byte-aes":             onlyIndex(remotelog.TransactionIndex, corrupt, ""),
	"indexes-cut-all-of-last-part-plain": onlyIndex(remotelog.TransactionIndex, corrupt, ""),
	"indexes-flip-plain":                 onlyIndex(remotelog.OffsetIndex, silent, byNobody),
	"indexes-flip-aes":                   onlyIndex(remotelog.OffsetIndex, corrupt, ""),
	"indexes-parts-swapped-aes":          {log: corrupt, indexes: corrupt, why: "the plug-in gives the time index for the offset index; parts are stored in one order only, so that the manifest contradicts itself"},

	"manifest-version-2":                    all(corrupt),
	"manifest-version-number-1":             all(right),
	"manifest-version-missing":              all(corrupt),
	"manifest-unknown-property-root":        all(corrupt),
	"manifest-unknown-property-chunk-index": all(corrupt),
	"manifest-unknown-property-indexes":     all(corrupt),
	"manifest-unknown-property-index-entry": all(corrupt),
	"manifest-unknown-property-encryption":  all(corrupt),
	"manifest-unknown-property-metadata":    all(right),
	"manifest-metadata-missing":             all(right),
	"manifest-metadata-string":              all(right),
	"manifest-transaction-key-missing":      all(corrupt),
	"manifest-offset-null":                  all(corrupt),
	"manifest-compression-missing":          all(corrupt),
	"manifest-compression-null":             all(right),
	"manifest-compression-false-on-zstd":    {log: corrupt, indexes: corrupt, why: "the plug-in gives the frames as they are; sizes of frames are not those of chunks"},
	"manifest-encryption-null":              all(right),
	"manifest-encryption-removed":           {log: corrupt, indexes: corrupt, why: "the plug-in gives the sealed bytes; sizes of sealed chunks are not those of chunks"},
	"manifest-cut":                          all(corrupt),
	"manifest-0-bytes":                      all(corrupt),
	"manifest-bom":                          all(right),
	"manifest-pretty":                       all(right),
	"manifest-ints-as-strings":              all(right),
	"manifest-int-too-large":                all(corrupt),
	"manifest-negative-size":                all(corrupt),
	"manifest-file-size-too-small":          onlyLog(corrupt, "the plug-in ends the stream a chunk early; the broker knows the size"),
	"manifest-file-size-too-large":          onlyLog(corrupt, "the plug-in reads up to the size that the broker knows; the manifest contradicts it"),
	"manifest-index-type-unknown":           all(corrupt),
	"manifest-index-count-too-small":        {log: corrupt, indexes: corrupt, why: "the plug-in finds out when a range touches the chunk"},
	"manifest-index-count-too-large":        {log: corrupt, indexes: corrupt, why: "the plug-in never looks at the chunk too much; which of the numbers is wrong cannot be known"},
	"manifest-index-url-safe-base64":        all(corrupt),
	"manifest-index-frame-without-size":     all(corrupt),

	"frame-without-content-size":   onlyLog(corrupt, ""),
	"frame-two-in-chunk":           onlyLog(corrupt, ""),
	"frame-trailing-bytes":         onlyLog(corrupt, ""),
	"frame-skippable-in-front":     onlyLog(corrupt, ""),
	"frame-with-checksum-level-19": all(right),
	"frame-with-checksum-flip":     onlyLog(corrupt, ""),
	"frame-content-too-short":      onlyLog(corrupt, "the plug-in does not compare the content size with the chunk size"),
	"frame-content-too-long":       onlyLog(corrupt, "the plug-in does not compare the content size with the chunk size"),
	"frame-claims-1-gib":           onlyLog(corrupt, ""),

	"key-wrong":            all(wrongKey),
	"key-not-on-ring":      all(unknownKey),
	"key-encryption-off":   all(unknownKey),
	"key-datakey-cut":      all(corrupt),
	"key-datakey-no-colon": all(corrupt),
	"key-aad-other":        {log: corrupt, indexes: corrupt, index: map[remotelog.IndexType]outcome{remotelog.TransactionIndex: right}},
	"key-aad-missing":      all(corrupt),
}

// outcomeOf says what an error, or bytes, amount to.
func outcomeOf(err error, same bool) outcome {
	switch {
	case err == nil && same:
		return right
	case err == nil:
		return silent
	}
	for o, kind := range map[outcome]error{unknownKey: crypto.ErrUnknownKey, wrongKey: crypto.ErrWrongKey, corrupt: remotelog.ErrCorrupt, notFound: remotelog.ErrNotFound} {
		others := []error{remotelog.ErrCorrupt, remotelog.ErrNotFound, crypto.ErrUnknownKey, crypto.ErrWrongKey}
		n := 0
		for _, other := range others {
			if errors.Is(err, other) {
				n++
			}
		}
		if errors.Is(err, kind) && n == 1 {
			return o
		}
	}
	return outcome("error of no or of several kinds: " + err.Error())
}

func TestGolden_DamagedObjects(t *testing.T) {
	entries := aiven.Negatives(t)
	if len(entries) != len(negatives) {
		t.Errorf("the table has %d entries, there are %d", len(negatives), len(entries))
	}
	wrong := 0
	for _, n := range entries {
		want, ok := negatives[n.Name]
		if !ok {
			t.Errorf("%s is not in the table", n.Name)
			continue
		}
		if want.log == silent {
			wrong++
			if !strings.Contains(n.Plugin.Log.Outcome, "WRONG") {
				t.Errorf("%s: the plug-in gives no wrong bytes, the table allows them", n.Name)
			}
		}
		t.Run(n.Name, func(t *testing.T) { checkNegative(t, n, want) })
	}
	if wrong != 6 {
		t.Errorf("%d entries give wrong log bytes without an error, want 6 (the plug-in: 12)", wrong)
	}
}

func checkNegative(t *testing.T, n *aiven.Negative, want negative) {
	g := newGoldenRig(t, n.ReadConfig, n.Store(t))
	s := &n.Case.Segments[0]
	md := s.Metadata(t)
	log, _ := s.Part(t, "log")
	got, err := read(t.Context(), g.Manager, md, 0, remotelog.ToEnd)
	checkOutcome(t, ".log", outcomeOf(err, bytes.Equal(got, log)), want.log, err)
	if want.log == silent {
		if want.why == "" {
			t.Error("the table does not say why wrong bytes cannot be seen")
		}
		if walkBatches(got, md) == nil {
			t.Error("the record batches do not show it either")
		}
	} else if !bytes.HasPrefix(log, got) {
		t.Errorf("%d bytes before the error are not those of the segment", len(got))
	}
	if err := walkBatches(log, md); err != nil {
		t.Errorf("the undamaged batches: %v", err)
	}
	checkRanges(t, g, md, log, want.log)
	for _, it := range remotelog.IndexTypes() {
		w, has := s.Index(t, it)
		got, err := readIndex(t.Context(), g.Manager, md, it)
		expect := want.indexes
		if o, ok := want.index[it]; ok {
			expect = o
		}
		if !has && expect == right {
			if !errors.Is(err, remotelog.ErrNoIndex) {
				t.Errorf("%s index: %v, want ErrNoIndex", it, err)
			}
			continue
		}
		if expect == corrupt && errors.Is(err, remotelog.ErrNoIndex) && has {
			t.Errorf("%s index: ErrNoIndex for one that the segment has", it)
		}
		if !has && errors.Is(err, remotelog.ErrNoIndex) {
			continue
		}
		checkOutcome(t, it.String()+" index", outcomeOf(err, bytes.Equal(got, w)), expect, err)
	}
}

func checkOutcome(t *testing.T, what string, got, want outcome, err error) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s (%v), want %s", what, got, err, want)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: error has several lines: %q", what, err)
	}
}

// checkRanges reads parts of a damaged log: whatever a part gives is right, or an error of the right kind.
func checkRanges(t *testing.T, g *goldenRig, md remotelog.SegmentMetadata, log []byte, want outcome) {
	t.Helper()
	if want == silent {
		return
	}
	const parts = 7
	for i := range parts {
		from := int64(len(log) * i / parts)
		to := int64(len(log)*(i+1)/parts) - 1
		got, err := read(t.Context(), g.Manager, md, from, to)
		o := outcomeOf(err, bytes.Equal(got, log[from:to+1]))
		if o != right && o != want {
			t.Errorf("bytes %d to %d: %s (%v), want right bytes or %s", from, to, o, err, want)
		}
	}
}

// walkBatches looks at a log as rlm does: the CRC of each batch, and offsets that go on without a gap from the first to the last of the
// segment.
func walkBatches(log []byte, md remotelog.SegmentMetadata) error {
	r := recordbatch.NewReader(bytes.NewReader(log), recordbatch.ReaderOptions{})
	next := md.StartOffset
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if b.BaseOffset != next {
			return fmt.Errorf("batch begins at %d, want %d", b.BaseOffset, next)
		}
		next = b.LastOffset() + 1
	}
	if next != md.EndOffset+1 {
		return fmt.Errorf("batches end at %d, want %d", next-1, md.EndOffset)
	}
	return nil
}

// The defects that pass silently in the plug-in's data, in segments that were written here.
func TestGolden_OwnChecksumsShowWhatThePlugInsDataCannot(t *testing.T) {
	for _, c := range aiven.Cases(t) {
		if c.Name != "plain-many-chunks" && c.Name != "aes-many-chunks" && c.Name != "zstd-width-1" && c.Name != "zstd-aes-many-chunks" {
			continue
		}
		s := &c.Segments[0]
		md := s.Metadata(t)
		g := newGoldenRig(t, s.Config, nil)
		md.State = remotelog.CopySegmentStarted
		if _, err := g.Copy(t.Context(), md, s.Data(t)); err != nil {
			t.Fatal(err)
		}
		stem := manifest.MainPath(md.SegmentID, md.StartOffset, manifest.ASCIIDigits)
		stored := g.objects(t)
		m, err := manifest.Parse(stored[stem+".rsm-manifest"])
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func(objects map[string][]byte){
			"a bit of the log":   func(o map[string][]byte) { o[stem+".log"][m.Chunks.Chunk(1).StoredStart+50] ^= 8 },
			"an index":           func(o map[string][]byte) { o[stem+".indexes"][2] ^= 1 },
			"the chunks' order":  func(o map[string][]byte) { exchange(o[stem+".log"], m.Chunks.Chunk(0).StoredSize) },
			"every byte of both": func(o map[string][]byte) { clear(o[stem+".log"]); clear(o[stem+".indexes"]) },
		} {
			objects := map[string][]byte{}
			for k, v := range stored {
				objects[k] = bytes.Clone(v)
			}
			change(objects)
			d := newGoldenRig(t, s.Config, objects)
			_, lerr := read(t.Context(), d.Manager, md, 0, remotelog.ToEnd)
			_, ierr := readIndex(t.Context(), d.Manager, md, remotelog.OffsetIndex)
			if what != "an index" && !errors.Is(lerr, remotelog.ErrCorrupt) || what == "an index" && !errors.Is(ierr, remotelog.ErrCorrupt) {
				t.Errorf("%s, %s changed: log %v, index %v, want ErrCorrupt", c.Name, what, lerr, ierr)
			}
		}
	}
}

// exchange swaps the first two runs of n bytes.
func exchange(b []byte, n int64) {
	first := bytes.Clone(b[:n])
	copy(b, b[n:2*n])
	copy(b[n:], first)
}
