package rlmm

import (
	"cmp"
	"math"
	"slices"
)

// fanout is the number of entries of a full node: 256 entries of 16 bytes are 4 KiB, a size that Go allocates without waste. A
// million entries are three levels of few enough nodes that all but the leaves' entries stay in a processor's cache.
const fanout = 256

// sparse is the size below which a node tries to join a neighbour.
const sparse = fanout / 4

// tree is an ordered collection of segments: a B+ tree whose nodes are copied on write, but only those that a snapshot can
// see. A node belongs to the generation in which it was made. Taking a snapshot (keeping the root, and raising the generation
// of the tree's owner) costs nothing; afterwards a write copies each older node that it changes, once. So a listing of a million
// segments holds no lock and no copy, and a replay, during which nobody lists, copies nothing.
//
// Entries are ordered by key, then by tie. weigh, which may be nil, gives each entry a weight; every node knows the greatest
// weight below it, which is what the search for an interval that covers an offset prunes by.
type tree struct {
	root  *node
	tie   func(a, b *segment) int
	weigh func(*segment) int64
}

type item struct {
	key int64
	seg *segment
}

// node is a leaf (kids is nil) or an inner node; then items[i] is the first entry below kids[i].
type node struct {
	gen   uint64
	max   int64 // greatest weight below
	items []item
	kids  []*node
}

func (t *tree) weight(s *segment) int64 {
	if t.weigh == nil {
		return math.MinInt64
	}
	return t.weigh(s)
}

func (t *tree) compare(a, b item) int { return cmp.Or(cmp.Compare(a.key, b.key), t.tie(a.seg, b.seg)) }

// find returns the index of the first entry of n that is not below it, and whether it is equal.
func (t *tree) find(n *node, it item) (int, bool) {
	return slices.BinarySearchFunc(n.items, it, t.compare)
}

// kid returns the index of the child below which it belongs.
func (t *tree) kid(n *node, it item) int {
	i, same := t.find(n, it)
	if same || i == 0 {
		return i
	}
	return i - 1
}

// own returns n if it belongs to generation gen, else a copy that does.
func own(n *node, gen uint64) *node {
	if n.gen == gen {
		return n
	}
	c := &node{gen: gen, max: n.max, items: make([]item, len(n.items), cap(n.items))}
	copy(c.items, n.items)
	if n.kids != nil {
		c.kids = make([]*node, len(n.kids), cap(n.kids))
		copy(c.kids, n.kids)
	}
	return c
}

// put adds s under key, or replaces the entry that is equal, and returns what it replaced.
func (t *tree) put(gen uint64, key int64, s *segment) (old *segment) {
	it := item{key, s}
	if t.root == nil {
		t.root = &node{gen: gen, max: t.weight(s), items: []item{it}}
		return nil
	}
	t.root = own(t.root, gen)
	right, old := t.putBelow(gen, t.root, it)
	if right != nil {
		left := t.root
		t.root = &node{gen: gen, items: []item{left.items[0], right.items[0]}, kids: []*node{left, right}}
		t.remax(t.root)
	}
	return old
}

// putBelow puts it below n, which is owned, and returns the new right neighbour if n had to be divided.
func (t *tree) putBelow(gen uint64, n *node, it item) (right *node, old *segment) {
	if n.kids != nil {
		i := t.kid(n, it)
		k := own(n.kids[i], gen)
		before := k.max
		split, old := t.putBelow(gen, k, it)
		n.kids[i], n.items[i] = k, k.items[0]
		if split != nil {
			right = t.insert(gen, n, i+1, split.items[0], split)
		}
		switch {
		case right != nil:
			t.remax(n)
			t.remax(right)
		case split != nil:
			t.adjust(n, before, max(k.max, split.max))
		default:
			t.adjust(n, before, k.max)
		}
		return right, old
	}
	i, same := t.find(n, it)
	if same {
		old = n.items[i].seg
		n.items[i] = it
		t.adjust(n, t.weight(old), t.weight(it.seg))
		return nil, old
	}
	right = t.insert(gen, n, i, it, nil)
	if right == nil {
		n.max = max(n.max, t.weight(it.seg))
		return nil, nil
	}
	t.remax(n)
	t.remax(right)
	return right, nil
}

// insert puts an entry (of an inner node: with its child) at index i of n. A full node is divided in the middle; at its right
// end, where a log grows, it stays full and the entry begins the neighbour. The caller computes the weights of both.
func (t *tree) insert(gen uint64, n *node, i int, it item, kid *node) (right *node) {
	if len(n.items) == fanout {
		at := fanout / 2
		if i == fanout {
			at = fanout
		}
		right = &node{gen: gen, items: slices.Clone(n.items[at:])}
		clear(n.items[at:])
		n.items = n.items[:at]
		if kid != nil {
			right.kids = slices.Clone(n.kids[at:])
			clear(n.kids[at:])
			n.kids = n.kids[:at]
		}
		if i > at || at == fanout {
			n, i = right, i-at
		}
	}
	n.items = slices.Insert(n.items, i, it)
	if kid != nil {
		n.kids = slices.Insert(n.kids, i, kid)
	}
	return right
}

// build fills an empty tree with entries that are in order, without equal ones.
func (t *tree) build(items []item) {
	var level []*node
	for part := range slices.Chunk(items, fanout) {
		n := &node{items: slices.Clone(part)}
		t.remax(n)
		level = append(level, n)
	}
	for len(level) > 1 {
		var above []*node
		for kids := range slices.Chunk(level, fanout) {
			n := &node{kids: slices.Clone(kids)}
			for _, k := range kids {
				n.items = append(n.items, k.items[0])
			}
			t.remax(n)
			above = append(above, n)
		}
		level = above
	}
	if len(level) == 1 {
		t.root = level[0]
	}
}

// remove takes out the entry that is equal to key and s (s may be nil where the key alone decides) and returns it.
func (t *tree) remove(gen uint64, key int64, s *segment) (old *segment) {
	if t.root == nil {
		return nil
	}
	t.root = own(t.root, gen)
	old = t.removeBelow(gen, t.root, item{key, s})
	for len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
	if len(t.root.items) == 0 {
		t.root = nil
	}
	return old
}

func (t *tree) removeBelow(gen uint64, n *node, it item) (old *segment) {
	if n.kids == nil {
		i, same := t.find(n, it)
		if !same {
			return nil
		}
		old = n.items[i].seg
		n.items = slices.Delete(n.items, i, i+1)
		t.adjust(n, t.weight(old), math.MinInt64)
		return old
	}
	i := t.kid(n, it)
	k := own(n.kids[i], gen)
	before := k.max
	old = t.removeBelow(gen, k, it)
	after := k.max
	n.kids[i] = k
	if len(k.items) == 0 {
		n.items, n.kids = slices.Delete(n.items, i, i+1), slices.Delete(n.kids, i, i+1)
		after = math.MinInt64
	} else {
		n.items[i] = k.items[0]
		t.join(gen, n, i)
	}
	t.adjust(n, before, after)
	return old
}

// join lets a sparse child of n take over its right neighbour, or its left neighbour take it over, where the two fit well into
// one node.
func (t *tree) join(gen uint64, n *node, i int) {
	const full = fanout - sparse // leaves room, so that the next entry does not divide the node again
	if len(n.kids[i].items) >= sparse {
		return
	}
	if i+1 == len(n.kids) || len(n.kids[i].items)+len(n.kids[i+1].items) > full {
		i--
	}
	if i < 0 || len(n.kids[i].items)+len(n.kids[i+1].items) > full {
		return
	}
	left, right := own(n.kids[i], gen), n.kids[i+1]
	left.items = append(left.items, right.items...)
	left.kids = append(left.kids, right.kids...)
	left.max = max(left.max, right.max)
	n.kids[i] = left
	n.items, n.kids = slices.Delete(n.items, i+1, i+2), slices.Delete(n.kids, i+1, i+2)
}

// adjust keeps n.max right when a weight below n went from before to after.
func (t *tree) adjust(n *node, before, after int64) {
	if t.weigh == nil {
		return
	}
	if after < before && before == n.max {
		t.remax(n)
		return
	}
	n.max = max(n.max, after)
}

func (t *tree) remax(n *node) {
	n.max = math.MinInt64
	if t.weigh == nil {
		return
	}
	for _, k := range n.kids {
		n.max = max(n.max, k.max)
	}
	if n.kids == nil {
		for _, it := range n.items {
			n.max = max(n.max, t.weight(it.seg))
		}
	}
}

// The searches below read a root, of the tree or of a snapshot.

// floor returns the last entry whose key is not above key. At the scale of a million entries it waits for memory more than it
// computes, so it looks first where the key would be if the keys of a node were evenly spread, which those of a log's segments
// nearly are: one or two cache lines of a leaf instead of four.
func (n *node) floor(key int64) (item, bool) {
	if n == nil || key < n.items[0].key {
		return item{}, false
	}
	first, end := n.items[0].key, n.items[len(n.items)-1].key
	for {
		i := n.upToNear(key, n.guess(key, first, end))
		if n.kids == nil {
			return n.items[i-1], true
		}
		first = n.items[i-1].key // that of the child's first entry, without going there
		if i < len(n.items) {
			end = n.items[i].key
		} else if k := n.kids[i-1]; end <= first {
			end = k.items[len(k.items)-1].key // at the right end of the tree nothing says where it ends
		}
		n = n.kids[i-1]
	}
}

// guess returns the index at which key, which is not below first, would be if the keys of n were evenly spread between first and end.
func (n *node) guess(key, first, end int64) int {
	if end <= first {
		return 0
	}
	part := float64(uint64(key)-uint64(first)) / float64(uint64(end)-uint64(first)) // above 1 at the right end of the tree
	return min(int(min(part, 1)*float64(len(n.items))), len(n.items)-1)
}

// upToNear is upTo with an index to begin at. It goes away from there in steps that double, so that a bad one costs no more than
// beginning in the middle would, twice.
func (n *node) upToNear(key int64, at int) int {
	lo, hi := 0, len(n.items)
	if n.items[at].key <= key {
		for step := 1; lo < hi; step *= 2 {
			if n.items[at].key > key {
				hi = at
				break
			}
			lo = at + 1
			at = min(at+step, hi-1)
		}
	} else {
		for step := 1; lo < hi; step *= 2 {
			if n.items[at].key <= key {
				lo = at + 1
				break
			}
			hi = at
			at = max(at-step, lo)
		}
	}
	return n.upToBetween(key, lo, hi)
}

// upTo returns the number of entries whose key is not above key.
func (n *node) upTo(key int64) int { return n.upToBetween(key, 0, len(n.items)) }

// upToBetween is upTo where that number is known to be between lo and hi.
func (n *node) upToBetween(key int64, lo, hi int) int {
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); n.items[mid].key <= key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (n *node) last() (item, bool) {
	if n == nil {
		return item{}, false
	}
	for n.kids != nil {
		n = n.kids[len(n.kids)-1]
	}
	return n.items[len(n.items)-1], true
}

// covering returns the last entry whose key is not above key, whose weight is not below key and which ok accepts.
func (n *node) covering(key int64, ok func(*segment) bool) *segment {
	if n == nil || n.max < key {
		return nil
	}
	for i := n.upTo(key) - 1; i >= 0; i-- {
		if n.kids == nil {
			if s := n.items[i].seg; ok(s) {
				return s
			}
		} else if s := n.kids[i].covering(key, ok); s != nil {
			return s
		}
	}
	return nil
}

// walk gives every entry in order to yield, until it answers false.
func (n *node) walk(yield func(item) bool) bool {
	if n == nil {
		return true
	}
	for i := range n.items {
		if n.kids != nil {
			if !n.kids[i].walk(yield) {
				return false
			}
		} else if !yield(n.items[i]) {
			return false
		}
	}
	return true
}
