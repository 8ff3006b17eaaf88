package disk

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzEntry: whatever a file has in it, the decoder takes nothing but what the encoder makes.
func FuzzEntry(f *testing.F) {
	for _, n := range []int{0, 1, 100} {
		file := append(make([]byte, headerSize), dataOf(n, n)...)
		putHeader(file, keyOf(1))
		f.Add(file)
		f.Add(file[:len(file)-1])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		key := keyOf(1)
		h, err := parseHeader(file[:min(len(file), headerSize)], key)
		if err == nil {
			err = h.check(file[headerSize:])
		}
		if err != nil {
			if !errors.Is(err, errDamaged) {
				t.Fatalf("%v is not errDamaged", err)
			}
			return
		}
		again := bytes.Clone(file)
		putHeader(again, key)
		if !bytes.Equal(file, again) {
			t.Errorf("%x is taken for an entry, which would be %x", file, again)
		}
		if _, err := parseHeader(file[:headerSize], keyOf(2)); err == nil {
			t.Error("it is the entry of another key too")
		}
	})
}

func FuzzParseName(f *testing.F) {
	dir, name := keyOf(1).name()
	f.Add(dir, name)
	f.Add("aa", "AA")
	f.Fuzz(func(t *testing.T, dir, name string) {
		key, ok := parseName(dir, name)
		if !ok {
			return
		}
		if d, n := key.name(); d != dir || n != name {
			t.Errorf("%q/%q names the entry of %x, whose name is %q/%q", dir, name, key, d, n)
		}
	})
}
