package rlmm

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/tierkit/tierkit/remotelog"
)

// Audit applies the records of one metadata partition, one after the other, as a Manager with Options.All does, and tells of each
// what it changes and what it does to a real broker. It is for tools that look at a log: it has neither log nor goroutines. It is
// not safe for concurrent use. The zero value has seen nothing.
type Audit struct {
	users map[remotelog.TopicIDPartition]*audited
}

type audited struct {
	cache *cache
	gone  bool // DELETE_PARTITION_FINISHED was read: brokers have no cache for it from then on
}

// Verdict is what there is to say about one record.
type Verdict struct {
	// Record is the decoded value; nil if Err says why there is none.
	Record Record
	Err    error
	// Dropped is why the record changed nothing; 0: it took effect.
	Dropped DropReason
	Fatal   Fatality
}

// Fatality is what a record does to the metadata consumer of real brokers (Kafka 3.6 to 4.4): ended by a record, it stays so
// until the broker starts again, and then reads the same record. The broker runs on, its metadata frozen.
type Fatality uint8

// The kinds, from the harmless one on.
const (
	// Harmless: brokers survive it.
	Harmless Fatality = iota
	// FatalToLoading: ends it where a broker loads the partition, after a start or a change of leaders.
	FatalToLoading
	// FatalToAssigned: ends it on every broker that has the partition, as leader or follower.
	FatalToAssigned
	// FatalToReaders: ends it on every broker that reads the metadata partition, whatever partitions it has there.
	FatalToReaders
)

// String says what the record does, "" for Harmless.
func (f Fatality) String() string {
	switch f {
	case FatalToLoading:
		return "ends the metadata consumer of every broker that loads the partition"
	case FatalToAssigned:
		return "ends the metadata consumer of every broker that has the partition"
	case FatalToReaders:
		return "ends the metadata consumer of every broker that reads this metadata partition"
	default:
		return ""
	}
}

// Apply takes the next record in; nil is a tombstone.
func (a *Audit) Apply(value []byte) Verdict {
	r, err := Decode(value)
	if err != nil {
		v := Verdict{Err: err, Dropped: DropUndecodable, Fatal: FatalToReaders}
		var d *DecodeError
		if errors.As(err, &d) {
			v.Dropped = d.Reason
		}
		return v
	}
	v := Verdict{Record: r}
	switch r := r.(type) {
	case *SegmentRecord:
		u := a.user(r.Metadata.TopicIDPartition)
		if u.gone || !r.Metadata.State.CanBegin() {
			v.Fatal = FatalToAssigned
		}
		md := r.Segment()
		v.Dropped = u.cache.add(&md)
	case *UpdateRecord:
		u := a.user(r.Update.TopicIDPartition)
		s := u.cache.byID[r.Update.ID]
		if u.gone || s != nil && s.state == remotelog.CopySegmentStarted && r.Update.State == remotelog.CopySegmentStarted {
			v.Fatal = FatalToAssigned
		}
		v.Dropped = u.cache.update(&r.Update)
	case *PartitionDeleteRecord:
		u := a.user(r.Delete.TopicIDPartition)
		if r.Delete.State == remotelog.DeletePartitionFinished {
			u.gone, v.Fatal = true, FatalToLoading
		}
		v.Dropped = u.cache.deletePartition(&r.Delete)
	default:
		v.Dropped, v.Fatal = DropSnapshotRecord, FatalToReaders
	}
	return v
}

func (a *Audit) user(tp remotelog.TopicIDPartition) *audited {
	u := a.users[tp]
	if u == nil {
		if a.users == nil {
			a.users = map[remotelog.TopicIDPartition]*audited{}
		}
		u = &audited{cache: newCache(tp)}
		a.users[tp] = u
	}
	return u
}

// Partitions returns every partition that a record named, in order.
func (a *Audit) Partitions() []remotelog.TopicIDPartition {
	return slices.SortedFunc(maps.Keys(a.users), remotelog.TopicIDPartition.Compare)
}

// Segments lists the segments of a partition as MetadataReader.Segments does.
func (a *Audit) Segments(tp remotelog.TopicIDPartition) iter.Seq[remotelog.SegmentMetadata] {
	return func(yield func(remotelog.SegmentMetadata) bool) {
		if u := a.users[tp]; u != nil {
			u.cache.keepAll().walk(func(it item) bool { return yield(it.seg.metadata(tp)) })
		}
	}
}

// HighestOffsets returns the highest finished offset of every leader epoch of a partition that has one, by ascending epoch.
func (a *Audit) HighestOffsets(tp remotelog.TopicIDPartition) (out []EpochOffset) {
	u := a.users[tp]
	if u == nil {
		return nil
	}
	for e, st := range u.cache.epochs {
		if st.hasHighest {
			out = append(out, EpochOffset{Epoch: e, Offset: st.highest})
		}
	}
	slices.SortFunc(out, func(a, b EpochOffset) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return out
}

// EpochOffset is an offset in a leader epoch.
type EpochOffset struct {
	Epoch  int32
	Offset int64
}

// Deleted returns the delete state of a partition; ok is false if it has none.
func (a *Audit) Deleted(tp remotelog.TopicIDPartition) (s remotelog.DeleteState, ok bool) {
	if u := a.users[tp]; u != nil && u.cache.deletes.set {
		return u.cache.deletes.state, true
	}
	return 0, false
}
