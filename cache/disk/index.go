package disk

import "time"

// IndexBytes is the most that the index needs in memory for each entry: 250 at the worst moment of its maps' growth, and what the list of
// the files takes while a start looks through them.
const IndexBytes = 384

// sameUse is the time within which uses of an entry count as one.
const sameUse = time.Minute

// node is an entry that is on disk. All fields are guarded by Cache.mu.
type node struct {
	key        Key
	length     int64     // of its bytes
	used       time.Time // last
	stamped    time.Time // what the file says: used, or a little before
	list       *list     // nil: no longer in the index
	prev, next *node
}

// list is nodes in the order of use, the one used last first.
type list struct {
	root  node // root.next is the first, root.prev the last
	bytes int64
}

func (l *list) init() { l.root.prev, l.root.next = &l.root, &l.root }

// last returns the node unused for longest, nil if there is none.
func (l *list) last() *node {
	if l.root.prev == &l.root {
		return nil
	}
	return l.root.prev
}

// insert puts n behind after, which is in the list or is its root.
func (l *list) insert(n, after *node) {
	n.list, n.prev, n.next = l, after, after.next
	n.prev.next, n.next.prev = n, n
	l.bytes += occupied(n.length)
}

func (l *list) pushFront(n *node) { l.insert(n, &l.root) }

func (l *list) pushBack(n *node) { l.insert(n, l.root.prev) }

func (n *node) unlink() {
	n.prev.next, n.next.prev = n.next, n.prev
	n.list.bytes -= occupied(n.length)
	n.list, n.prev, n.next = nil, nil, nil
}

// index knows which entries are on disk and which of them goes first.
type index struct {
	nodes    map[Key]*node
	prefixes map[Prefix]int // how many of nodes
	once     list           // used once
	again    list           // used again later
	most     int64
}

func (x *index) init(most int64) {
	x.nodes, x.prefixes, x.most = make(map[Key]*node), make(map[Prefix]int), most
	x.once.init()
	x.again.init()
}

func (x *index) bytes() int64 { return x.once.bytes + x.again.bytes }

// add puts a new entry in, used now.
func (x *index) add(n *node) {
	x.know(n)
	x.once.pushFront(n)
}

// addOld puts an entry in that was used before all that are there.
func (x *index) addOld(n *node) {
	x.know(n)
	x.once.pushBack(n)
}

func (x *index) know(n *node) {
	x.nodes[n.key] = n
	x.prefixes[n.key.Prefix()]++
}

// use says that n is used.
func (x *index) use(n *node, now time.Time) {
	to := n.list
	if now.Sub(n.used) >= sameUse {
		to = &x.again
	}
	n.used = now
	n.unlink()
	to.pushFront(n)
	for x.again.bytes > x.most/5*4 {
		old := x.again.last()
		old.unlink()
		x.once.pushFront(old)
	}
}

func (x *index) remove(n *node) {
	delete(x.nodes, n.key)
	if p := n.key.Prefix(); x.prefixes[p] > 1 {
		x.prefixes[p]--
	} else {
		delete(x.prefixes, p)
	}
	n.unlink()
}

// first returns the entry that is evicted first, nil if there is none.
func (x *index) first() *node {
	if n := x.once.last(); n != nil {
		return n
	}
	return x.again.last()
}

// expired returns an entry that was not used for so long, nil if there is none.
func (x *index) expired(now time.Time, retention time.Duration) *node {
	if retention <= 0 {
		return nil
	}
	for _, l := range []*list{&x.once, &x.again} {
		if n := l.last(); n != nil && now.Sub(n.used) >= retention {
			return n
		}
	}
	return nil
}
