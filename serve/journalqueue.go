package serve

import (
	"container/heap"
	"time"
)

// queue is a heap of orders, the one that is due first at its top, so that a turn of the journal looks at those alone that it begins.
type queue []*order

var _ heap.Interface = (*queue)(nil)

func (q queue) Len() int           { return len(q) }
func (q queue) Less(a, b int) bool { return q[a].due.Before(q[b].due) }

func (q queue) Swap(a, b int) {
	q[a], q[b] = q[b], q[a]
	q[a].at, q[b].at = a, b
}

// Push and Pop are for package heap.
func (q *queue) Push(x any) {
	o := x.(*order) //nolint:errcheck,forcetypeassert // schedule pushes nothing else
	o.at = len(*q)
	*q = append(*q, o)
}

// Pop removes the last one.
func (q *queue) Pop() any {
	last := len(*q) - 1
	o := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	o.at = -1
	return o
}

// schedule has an order tried once it is due. Called with mu held.
func (j *journal) schedule(o *order, due time.Time) {
	j.unschedule(o)
	o.due = due
	heap.Push(&j.waiting, o)
}

// unschedule takes an order out of the queue, if it is there. Called with mu held.
func (j *journal) unschedule(o *order) {
	if o.at >= 0 {
		heap.Remove(&j.waiting, o.at)
	}
}
