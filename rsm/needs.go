package rsm

import (
	"math"
	"runtime"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/crypto"
	"github.com/tierkit/tierkit/membudget"
)

const (
	// defaultBudget is the memory budget where none is set, unless twice the least is more.
	defaultBudget = 256 << 20
	// copyTables is room for the sizes and checksums of the chunks of a segment and for its manifest: a segment of 2 GiB in
	// chunks of 64 KiB fits. A copy that needs more reserves more.
	copyTables = 1 << 20
	// fetchTables is room for the manifests that open streams hold, and for indexes.
	fetchTables = 1 << 20
)

// Needs returns what must always be possible with c over s: one copy and one fetch side by side, beside as many encoders and
// decoders as fit a quarter of the budget, at least one and at most one for each processor (GOMAXPROCS), and the index of the disk tier.
func Needs(c Config, s *backends.Store) membudget.Needs {
	c = c.withDefaults()
	n := leastNeeds(c, s)
	limit := BudgetBytes(c, s)
	pair, index := n.Fixed, indexNeed(c, limit)
	pairs := min(int64(runtime.GOMAXPROCS(0)), min(limit/4, limit-n.Copy-n.Fetch-index)/pair)
	n.Fixed = max(1, pairs)*pair + index
	return n
}

// indexNeed is the memory of the disk tier's index under a budget of limit: a part of it, set aside for as long as the process lives, because what
// is in the index cannot be given back for others.
func indexNeed(c Config, limit int64) int64 {
	if !c.Disk.on() {
		return 0
	}
	return limit / indexShare
}

// BudgetBytes returns the memory budget of c over s: memory.budget.bytes or its default.
func BudgetBytes(c Config, s *backends.Store) int64 {
	if c.MemoryBudgetBytes > 0 {
		return c.MemoryBudgetBytes
	}
	return max(defaultBudget, 2*MinBudgetBytes(c, s))
}

// MinBudgetBytes returns the smallest legal memory budget of c over s.
func MinBudgetBytes(c Config, s *backends.Store) int64 {
	c = c.withDefaults()
	n := leastNeeds(c, s)
	least := n.Fixed + n.Copy + n.Fetch
	if c.Disk.on() { // and its share
		least += (least - 1) / (indexShare - 1)
	}
	return least
}

// NewBudget returns the budget of c over s. It fails if memory.budget.bytes is below MinBudgetBytes, and names it.
func NewBudget(c Config, s *backends.Store) (*membudget.Budget, error) {
	return membudget.New(BudgetBytes(c, s), Needs(c, s))
}

// leastNeeds has one pair of codecs as Fixed.
func leastNeeds(c Config, s *backends.Store) membudget.Needs {
	stored := membudget.Capacity(chunking.MaxEncodedSize(c.ChunkBytes) + crypto.Overhead)
	two := stored + membudget.Capacity(c.ChunkBytes)
	var write int64
	if c.Disk.on() {
		write = diskNeed(c)
	}
	return membudget.Needs{
		Fixed: chunking.PairBytes(c.ZstdLevel, int64(c.ChunkBytes)),
		Copy:  two + putMemory(s, backends.SizeUnknown, math.MaxInt32) + copyTables,
		Fetch: two + write + fetchTables,
	}
}

// putMemory is the least memory with which s can put objects of any of the sizes.
func putMemory(s *backends.Store, sizes ...int64) int64 {
	var most int64
	for _, size := range sizes {
		least, _ := s.PutMemory(size)
		most = max(most, least)
	}
	return most
}
