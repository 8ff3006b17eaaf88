package rlm

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
)

// AbortedTxn is an aborted transaction: no record of that producer in [FirstOffset, LastOffset] is committed.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset int64
	LastOffset  int64 // of the marker
}

// stableEnd returns the first offset that a read_committed read does not reach. Behind the last tiered segment no further transaction
// index follows, so what belongs to a transaction that was open at its end is undecided here: the segment's producer snapshot names it.
func (v *View) stableEnd(ctx context.Context) (int64, error) {
	md, err := v.segment(ctx, v.end)
	if err != nil {
		return 0, err
	}
	b, err := v.index(ctx, md, remotelog.ProducerSnapshotIndex)
	if err != nil {
		return 0, err
	}
	states, err := logfiles.ParseSnapshot(b)
	if err != nil {
		return 0, fmt.Errorf("segment %s: %w: which transactions are open at its end is not known", md.SegmentID, err)
	}
	open, ok := logfiles.FirstOpen(states)
	if !ok || open > v.end {
		return v.end + 1, nil
	}
	v.notice("read_committed ends before offset %d: a transaction that begins there was still open at the end of what is tiered (%d)", open, v.end)
	return open, nil
}

// abortedSet collects aborted transactions from the transaction indexes of one segment after the other, each read once, as far as a
// read has to know them (RemoteLogManager.collectAbortedTransactions).
type abortedSet struct {
	v         *View
	next      int64 // first offset whose segment's index is not loaded yet
	decidedTo int64 // transactions that begin below it are known, if aborted
	txns      map[int64][]AbortedTxn
}

func newAbortedSet(v *View, from int64) *abortedSet {
	return &abortedSet{v: v, next: from, txns: map[int64][]AbortedTxn{}}
}

// load makes sure that every aborted transaction with records below upper is known: its marker, and so its index entry, can lie in any
// later segment, until an entry's last stable offset says that all before it are decided.
func (a *abortedSet) load(ctx context.Context, upper int64) error {
	for a.next <= a.v.end && a.decidedTo < upper {
		md, err := a.v.segment(ctx, a.next)
		if err != nil {
			return err
		}
		txns, err := a.v.txnIndex(ctx, md)
		if err != nil && a.v.replace(md, a.next, err) {
			continue
		}
		if err != nil {
			return err
		}
		for _, t := range txns {
			a.txns[t.ProducerID] = append(a.txns[t.ProducerID], AbortedTxn{t.ProducerID, t.FirstOffset, t.LastOffset})
			a.decidedTo = max(a.decidedTo, t.LastStableOffset)
		}
		a.next = md.EndOffset + 1
	}
	return nil
}

// has reports whether the batch belongs to an aborted transaction.
func (a *abortedSet) has(b recordbatch.Batch) bool {
	for _, t := range a.txns[b.ProducerID] {
		if t.FirstOffset <= b.BaseOffset && b.LastOffset() <= t.LastOffset {
			return true
		}
	}
	return false
}

// in returns the transactions that overlap [from, upper).
func (a *abortedSet) in(from, upper int64) []AbortedTxn {
	list := []AbortedTxn{}
	for _, txns := range a.txns {
		for _, t := range txns {
			if t.LastOffset >= from && t.FirstOffset < upper {
				list = append(list, t)
			}
		}
	}
	return list
}

// txnIndex reads the transaction index of a segment. Only ErrNoIndex means that there is none.
func (v *View) txnIndex(ctx context.Context, md remotelog.SegmentMetadata) ([]logfiles.AbortedTxn, error) {
	if md.TxnIndexEmpty {
		return nil, nil
	}
	b, err := v.index(ctx, md, remotelog.TransactionIndex)
	if errors.Is(err, remotelog.ErrNoIndex) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	txns, err := logfiles.ParseTxnIndex(b)
	if err != nil {
		return nil, fmt.Errorf("segment %s: %w", md.SegmentID, err)
	}
	return txns, nil
}
