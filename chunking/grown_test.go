package chunking

import (
	"bytes"
	"testing"

	"github.com/tierkit/tierkit/membudget"
)

// The plug-in stores a log that has grown behind its announced size whole, up to the end of the last chunk, and says in the manifest
// how long the last stored chunk is. What counts is the announced size.
func TestDecode_LastChunkOfAGrownFile(t *testing.T) {
	const chunk, size, grown = 1000, 2400, 2900
	content := half(9, grown)
	r := newRig(t, 1<<20)
	for _, encrypted := range []bool{false, true} {
		var stored []byte
		var last int64
		o := DecodeOptions{First: 0, Last: 2}
		for start := 0; start < grown; start += chunk {
			piece := content[start:min(start+chunk, grown)]
			if encrypted {
				o.Key = r.key
				piece = r.key.Seal(nil, piece)
			}
			stored, last = append(stored, piece...), int64(len(piece))
		}
		all := int64(chunk)
		if encrypted {
			all += 28
		}
		x, err := NewFixed(chunk, size, all, last)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Check(Transform{Encrypted: encrypted}); err != nil {
			t.Fatal(err)
		}
		o.Index = x
		o.Memory = r.reserve(t, membudget.Fetch, max(1, DecodeMemory(o)))
		sink := &collect{most: 3}
		n, err := Decode(t.Context(), bytes.NewReader(stored), o, sink)
		if got := bytes.Join(sink.chunks, nil); err != nil || n != 3 || !bytes.Equal(got, content[:size]) {
			t.Errorf("encrypted %t: %d chunks, %d bytes, %v, want the first %d bytes", encrypted, n, len(got), err, size)
		}
		o.Memory.Release()
		// A chunk in the middle that is longer than it should be is damage.
		if bad, err := NewFixed(chunk, size, all+1, last); err != nil || bad.Check(Transform{Encrypted: encrypted}) == nil {
			t.Errorf("encrypted %t: an index of long chunks passes (%v)", encrypted, err)
		}
	}
}
