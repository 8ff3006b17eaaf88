package membudget

import (
	"fmt"
	"math"
	"math/bits"
)

// Class says on whose account bytes are taken.
type Class uint8

// The classes. The zero Class is none of them.
const (
	Copy  Class = iota + 1 // uploads
	Fetch                  // reads that somebody waits for, indexes, manifests, caches
	Ahead                  // read-ahead: counts as Fetch, but only takes what nobody wants
)

// String returns the name of c as messages and metrics show it.
func (c Class) String() string {
	switch c {
	case Copy:
		return "copy"
	case Fetch:
		return "fetch"
	case Ahead:
		return "ahead"
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Needs is what must always be possible: one copy and one fetch side by side, besides what the process holds in any case. Compute sizes of buffers with
// [Capacity].
type Needs struct {
	Fixed int64 // held as long as the process runs: encoders and decoders
	Copy  int64 // what one copy reserves
	Fetch int64 // what one fetch reserves
}

// sum is Fixed + Copy + Fetch, or math.MaxInt64 where that overflows.
func (n Needs) sum() int64 {
	s := n.Fixed
	for _, v := range []int64{n.Copy, n.Fetch} {
		if s > math.MaxInt64-v {
			return math.MaxInt64
		}
		s += v
	}
	return s
}

// validate reports the first need that is negative, or that all of them together exceed limit.
func (n Needs) validate(limit int64) error {
	for _, f := range []struct {
		name  string
		value int64
	}{{"fixed", n.Fixed}, {"copy", n.Copy}, {"fetch", n.Fetch}} {
		if f.value < 0 {
			return fmt.Errorf("memory budget: the %s need is negative: %d", f.name, f.value)
		}
	}
	if s := n.sum(); s > limit {
		return &SizeError{What: "the least need", Need: s, Have: limit, Limit: s}
	}
	return nil
}

// ceilings returns the most that copies, and that fetches with caches and read-ahead, may hold of avail bytes.
func (n Needs) ceilings(avail int64) (copies, fetches int64) {
	floorF := max(n.Fetch, min(avail/4, avail-n.Copy))
	floorC := max(n.Copy, min(avail/4, avail-floorF))
	return avail - floorF, avail - floorC
}

// limitFor returns the smallest limit, not below from, at which the ceiling of class c is at least need. Both ceilings grow with the limit.
func (n Needs) limitFor(c Class, need, from int64) int64 {
	lo, hi := from, int64(math.MaxInt64)
	for lo < hi {
		mid := lo + (hi-lo)/2
		ceiling, fetches := n.ceilings(mid - n.Fixed)
		if c != Copy {
			ceiling = fetches
		}
		if ceiling >= need {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// pageBytes is the granularity of small capacities, and the smallest one: below a page there is nothing to save.
const pageBytes = 4096

// stepBits gives 16 capacities between two powers of two: at most one sixteenth is wasted, and chunks of nearly the same size share buffers.
const stepBits = 4

// Capacity returns what a buffer of n bytes is charged: n rounded up to a multiple of 4 KiB and to at most 16 sizes between two powers of two.
func Capacity(n int) int64 {
	if n <= 0 {
		return 0
	}
	if n > math.MaxInt/2 {
		return math.MaxInt64
	}
	step := max(pageBytes, 1<<max(0, bits.Len(uint(n-1))-1-stepBits))
	return int64((n + step - 1) &^ (step - 1))
}
