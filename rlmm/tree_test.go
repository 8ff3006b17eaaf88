package rlmm

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// flatTree is what a tree must be equal to: its entries in a sorted slice.
type flatTree []item

func (f flatTree) covering(key int64, weigh func(*segment) int64) *segment {
	for _, it := range slices.Backward(f) {
		if it.key <= key && weigh(it.seg) >= key {
			return it.seg
		}
	}
	return nil
}

func (n *node) flat() (out flatTree) {
	n.walk(func(it item) bool { out = append(out, it); return true })
	return out
}

// check walks the whole tree: order, sizes, separators and weights.
func (t *tree) check(tb testing.TB) {
	tb.Helper()
	var below func(n *node) (depth int)
	below = func(n *node) int {
		if len(n.items) == 0 || len(n.items) > fanout || n.kids != nil && len(n.kids) != len(n.items) {
			tb.Fatalf("node of %d entries, %d children", len(n.items), len(n.kids))
		}
		if !slices.IsSortedFunc(n.items, t.compare) {
			tb.Fatal("node is out of order")
		}
		most, depth := int64(math.MinInt64), 0
		for i, it := range n.items {
			if n.kids == nil {
				most = max(most, t.weight(it.seg))
				continue
			}
			if d := below(n.kids[i]); i > 0 && d != depth {
				tb.Fatalf("leaves at depths %d and %d", depth, d)
			} else {
				depth = d
			}
			most = max(most, n.kids[i].max)
			if n.kids[i].items[0] != it {
				tb.Fatal("separator is not the first entry below it")
			}
		}
		if t.weigh != nil && most != n.max {
			tb.Fatalf("node says weight %d, has %d", n.max, most)
		}
		return depth + 1
	}
	if t.root != nil {
		below(t.root)
	}
}

func endWeight(s *segment) int64 {
	if s.state != remotelog.CopySegmentFinished {
		return math.MinInt64
	}
	return s.end
}

func TestTree_IsASortedSetWhateverTheOrderOfChanges(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tr := tree{tie: byEndThenIDDown, weigh: endWeight}
		var flat flatTree
		find := func(it item) (int, bool) { return slices.BinarySearchFunc(flat, it, tr.compare) }
		gen := uint64(0)
		type view struct {
			root *node
			want flatTree
		}
		var views []view
		ascending := seed%3 == 0 // as a log grows
		for i := range 6000 {
			grow := rng.IntN(10) < 7
			if i > 4000 {
				grow = rng.IntN(10) < 2
			}
			if grow {
				s := &segment{start: rng.Int64N(2000), state: remotelog.State(rng.IntN(2))}
				if ascending {
					s.start = int64(i)
				}
				s.end = s.start + rng.Int64N(50)
				binary.BigEndian.PutUint64(s.id[:], rng.Uint64())
				if n := len(flat); n > 0 && rng.IntN(4) == 0 { // replace
					c := *flat[rng.IntN(n)].seg
					c.state ^= 1
					s = &c
				}
				it := item{s.start, s}
				at, same := find(it)
				old := tr.put(gen, it.key, s)
				if same {
					if old != flat[at].seg {
						t.Fatalf("seed %d: put replaced %v, want %v", seed, old, flat[at].seg)
					}
					flat[at] = it
				} else {
					flat = slices.Insert(flat, at, it)
				}
			} else if n := len(flat); n > 0 {
				at := rng.IntN(n)
				if ascending {
					at = 0 // as retention removes
				}
				it := flat[at]
				if got := tr.remove(gen, it.key, it.seg); got != it.seg {
					t.Fatalf("seed %d: removed %v, want %v", seed, got, it.seg)
				}
				flat = slices.Delete(flat, at, at+1)
				if tr.remove(gen, it.key, it.seg) != nil {
					t.Fatalf("seed %d: removed twice", seed)
				}
			}
			if rng.IntN(300) == 0 {
				gen++
				views = append(views, view{tr.root, slices.Clone(flat)})
			}
			if i%100 == 0 {
				tr.check(t)
				if !slices.Equal(tr.root.flat(), flat) {
					t.Fatalf("seed %d: after %d changes the tree differs", seed, i)
				}
			}
			key := rng.Int64N(2200) - 100
			if got, want := tr.root.covering(key, func(s *segment) bool { return endWeight(s) >= key }), flat.covering(key, endWeight); got != want {
				t.Fatalf("seed %d: covering(%d) = %v, want %v", seed, key, got, want)
			}
			upTo, _ := slices.BinarySearchFunc(flat, key, func(it item, k int64) int { return cmp.Or(cmp.Compare(it.key, k), -1) })
			if got, ok := tr.root.floor(key); ok != (upTo > 0) || ok && got != flat[upTo-1] {
				t.Fatalf("seed %d: floor(%d) = %v, %v, want the one before %d", seed, key, got, ok, upTo)
			}
			if got, ok := tr.root.last(); ok != (len(flat) > 0) || ok && got != flat[len(flat)-1] {
				t.Fatalf("seed %d: last = %v, %v", seed, got, ok)
			}
		}
		if len(views) < 5 {
			t.Fatalf("seed %d: %d views", seed, len(views))
		}
		for i, v := range views {
			if !slices.Equal(v.root.flat(), v.want) {
				t.Errorf("seed %d: view %d changed after it was taken", seed, i)
			}
		}
	}
}
