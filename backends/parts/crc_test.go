package parts

import (
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// TestChecksum_OfPiecesIsThatOfTheWhole: however the whole is cut.
func TestChecksum_OfPiecesIsThatOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole []byte
		var pieces []piece
		for _, b := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 5000)).Draw(t, "pieces") {
			whole = append(whole, b...)
			pieces = append(pieces, piece{crc32.Checksum(b, castagnoli()), int64(len(b))})
		}
		if got, want := checksum(pieces), crc32.Checksum(whole, castagnoli()); got != want {
			t.Errorf("%d pieces of %d bytes: %08x, want %08x", len(pieces), len(whole), got, want)
		}
	})
}
