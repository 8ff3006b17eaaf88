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

// Enough entries that inner nodes are divided and joined: put in random order, looked for, and taken out again.
func TestTree_OfThreeLevels(t *testing.T) {
	const n = 70_000
	rng := rand.New(rand.NewPCG(1, 2))
	tr := tree{tie: byEndThenIDDown, weigh: endWeight}
	order := rng.Perm(n)
	segs := make([]*segment, n)
	for _, i := range order {
		start := int64(i) * int64(i) // the spread differs from node to node
		segs[i] = &segment{start: start, end: start + int64(rng.IntN(2*i+1)), state: remotelog.CopySegmentFinished}
		tr.put(0, start, segs[i])
	}
	tr.check(t)
	depth := 0
	for k := tr.root; k != nil; depth++ {
		if k.kids == nil {
			k = nil
		} else {
			k = k.kids[0]
		}
	}
	if depth != 3 {
		t.Fatalf("%d levels, want 3", depth)
	}
	there := slices.Clone(segs)
	for round := 0; len(there) > 0; round++ {
		for range 2000 {
			key := rng.Int64N(n*n) - 1
			i, found := slices.BinarySearchFunc(there, key, func(s *segment, k int64) int { return cmp.Compare(s.start, k) })
			if found {
				i++
			}
			if got, ok := tr.root.floor(key); ok != (i > 0) || ok && got.seg != there[i-1] {
				t.Fatalf("%d entries: floor(%d) = %v, %v, want the one before %d", len(there), key, got, ok, i)
			}
		}
		var rest []*segment
		for _, s := range there {
			if rng.IntN(3) > 0 || len(there) < 10 {
				tr.remove(0, s.start, s)
			} else {
				rest = append(rest, s)
			}
		}
		there = rest
		tr.check(t)
	}
	if tr.root != nil {
		t.Error("the tree is not empty")
	}
}

// However the keys lie, floor is right: a guess that their spread misleads costs steps and nothing else.
func TestTree_FloorOfUnevenKeys(t *testing.T) {
	spreads := map[string]func(i int) int64{
		"even":           func(i int) int64 { return int64(i) * 100 },
		"all at the end": func(i int) int64 { return math.MaxInt64 - 2000 + int64(i) },
		"doubling":       func(i int) int64 { return int64(1)<<min(i/16, 62) + int64(i%16) },
		"one far away":   func(i int) int64 { return int64(i) + int64(i/999)*(math.MaxInt64-1000) },
		"both ends":      func(i int) int64 { return []int64{math.MinInt64, math.MaxInt64 - 1000}[i/500] + int64(i) },
	}
	for name, key := range spreads {
		t.Run(name, func(t *testing.T) {
			tr := tree{tie: byKeyAlone}
			keys := []int64{}
			for i := range 1000 {
				tr.put(0, key(i), &segment{start: key(i)})
				keys = append(keys, key(i))
			}
			tr.check(t)
			slices.Sort(keys)
			keys = slices.Compact(keys)
			for i, k := range keys {
				for _, d := range []int64{-1, 0, 1} {
					if d < 0 && k == math.MinInt64 || d > 0 && k == math.MaxInt64 {
						continue
					}
					want := i
					if d < 0 && i > 0 {
						want--
					}
					if d > 0 && i+1 < len(keys) && keys[i+1] == k+1 {
						want++
					}
					got, ok := tr.root.floor(k + d)
					if ok != (d >= 0 || i > 0) || ok && got.key != keys[want] {
						t.Fatalf("floor(%d) = %v, %v, want key %d", k+d, got.key, ok, keys[want])
					}
				}
			}
		})
	}
}
