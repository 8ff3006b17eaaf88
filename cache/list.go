package cache

// list is items without pins, the one used last first. It is linked through the items, so that pinning and unpinning allocate nothing.
type list[K comparable, V any] struct {
	root item[K, V] // root.next is the first, root.prev the last
}

func (l *list[K, V]) init() { l.root.prev, l.root.next = &l.root, &l.root }

func (l *list[K, V]) empty() bool { return l.root.next == &l.root }

// last returns the item unused for longest; the list must not be empty.
func (l *list[K, V]) last() *item[K, V] { return l.root.prev }

func (l *list[K, V]) pushFront(it *item[K, V]) {
	it.prev, it.next = &l.root, l.root.next
	it.prev.next, it.next.prev = it, it
}

func (l *list[K, V]) remove(it *item[K, V]) {
	it.prev.next, it.next.prev = it.next, it.prev
	it.prev, it.next = nil, nil
}
