package parts

import "hash/crc32"

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // a table that the standard library keeps

// piece is a part's checksum and length.
type piece struct {
	sum uint32
	n   int64
}

// checksum is the CRC-32C of the pieces one after the other. Each byte is summed once, by the goroutine that sends it.
func checksum(pieces []piece) uint32 {
	var sum uint32
	for _, p := range pieces {
		sum = combine(sum, p.sum, p.n)
	}
	return sum
}

// matrix is a linear map of 32 bits: the image of each bit.
type matrix [32]uint32

func (m *matrix) times(v uint32) (sum uint32) {
	for i := 0; v != 0; i, v = i+1, v>>1 {
		if v&1 != 0 {
			sum ^= m[i]
		}
	}
	return sum
}

func (m *matrix) squared() (out matrix) {
	for i, v := range m {
		out[i] = m.times(v)
	}
	return out
}

// combine returns the CRC-32C of two texts from those of each, given the length of the second: n zero bytes are appended to the first, which is a linear
// map of its checksum, applied by squaring (as crc32_combine of zlib does).
func combine(first, second uint32, n int64) uint32 {
	var zero matrix // appends one zero bit
	zero[0] = crc32.Castagnoli
	for i := 1; i < len(zero); i++ {
		zero[i] = 1 << (i - 1)
	}
	for range 3 {
		zero = zero.squared() // one zero byte
	}
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			first = zero.times(first)
		}
		zero = zero.squared()
	}
	return first ^ second
}
