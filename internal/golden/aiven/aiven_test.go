package aiven

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// Line-ending conversion, or a file that an archive could not carry, shows here and not as damage in some other test.
func TestGolden_BytesAreThoseThatThePlugInWrote(t *testing.T) {
	check := func(c *Case, file, sum string, size int64) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(Dir(t), c.Name, filepath.FromSlash(file)))
		if err != nil {
			t.Error(err)
			return
		}
		if got := sha256.Sum256(b); hex.EncodeToString(got[:]) != sum || int64(len(b)) != size {
			t.Errorf("%s/%s has %d bytes, SHA-256 %x; want %d, %s", c.Name, file, len(b), got, size, sum)
		}
	}
	for _, c := range Cases(t) {
		for i := range c.Segments {
			s := &c.Segments[i]
			for _, o := range s.Objects {
				check(c, o.File, o.SHA256, o.Size)
			}
			for _, f := range s.Parts {
				if f != nil {
					check(c, f.File, f.SHA256, f.Size)
				}
			}
		}
	}
}

func TestNegatives_EachDiffersFromItsBase(t *testing.T) {
	for _, n := range Negatives(t) {
		base, got := n.Case.Store(t), n.Store(t)
		same := len(base) == len(got)
		for key, data := range got {
			same = same && string(base[key]) == string(data)
		}
		if same == (len(n.Changed)+len(n.Removed) > 0) {
			t.Errorf("%s: the store is that of %s: %t", n.Name, n.Base, same)
		}
	}
}
