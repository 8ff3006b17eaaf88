package memcore

import (
	"fmt"
	"slices"

	"github.com/tierkit/tierkit/rlmm"
)

// Put adds an event with a key or without a value, as a foreign writer may. It keeps both slices.
func (l *Log) Put(p int32, key, value []byte) (rlmm.Position, error) {
	var pos rlmm.Position
	ms := l.now().UnixMilli()
	err := l.change(p, func(pt *partition) {
		pt.mark()
		pt.events = append(pt.events, rlmm.Event{
			Partition: p, Offset: pt.next, Epoch: pt.epoch, TimestampMs: ms, Key: key, Value: value,
		})
		pt.next++
		pos = rlmm.Position{Offset: pt.next, Epoch: pt.epoch}
	})
	return pos, err
}

// Skip uses up n offsets without an event: control records, aborted data.
func (l *Log) Skip(p int32, n int64) error {
	return l.change(p, func(pt *partition) {
		pt.mark()
		pt.next += n
	})
}

// NewEpoch begins the next leader epoch.
func (l *Log) NewEpoch(p int32) error {
	return l.change(p, func(pt *partition) { pt.epoch++ })
}

// TrimHead removes what is below first, as retention does. It panics if first is behind the end.
func (l *Log) TrimHead(p int32, first int64) error {
	return l.change(p, func(pt *partition) {
		if first > pt.next {
			panic(fmt.Sprintf("memlog: head of partition %d to %d, behind its end %d", p, first, pt.next))
		}
		if first <= pt.first {
			return
		}
		pt.first = first
		pt.events = slices.DeleteFunc(slices.Clone(pt.events), func(e rlmm.Event) bool { return e.Offset < first })
	})
}

// Truncate removes what is at or behind end and begins the next epoch, as an unclean leader election does.
func (l *Log) Truncate(p int32, end int64) error {
	return l.change(p, func(pt *partition) {
		if end < pt.first || end > pt.next {
			panic(fmt.Sprintf("memlog: partition %d cut at %d, outside [%d, %d]", p, end, pt.first, pt.next))
		}
		pt.next = end
		pt.epoch++
		pt.events = slices.DeleteFunc(slices.Clone(pt.events), func(e rlmm.Event) bool { return e.Offset >= end })
		pt.epochs = slices.DeleteFunc(slices.Clone(pt.epochs), func(s epochStart) bool { return s.offset >= end })
	})
}

// mark records where the current epoch begins.
func (pt *partition) mark() {
	if n := len(pt.epochs); n == 0 || pt.epochs[n-1].epoch != pt.epoch {
		pt.epochs = append(pt.epochs, epochStart{epoch: pt.epoch, offset: pt.next})
	}
}
