package logfiles

import (
	"cmp"
	"slices"

	"github.com/tierkit/tierkit/internal/recordbatch"
)

// Producers follows the producers of a log batch by batch, as Kafka's ProducerStateManager does when it loads one. It is not safe
// for concurrent use.
type Producers struct {
	states map[int64]*ProducerState
	dec    *recordbatch.Decoder
}

// NewProducers begins with the producers of a snapshot; nil at the beginning of a log. Close ends it.
func NewProducers(snapshot []ProducerState) *Producers {
	p := &Producers{states: make(map[int64]*ProducerState, len(snapshot)), dec: recordbatch.NewDecoder(recordbatch.Limits{})}
	for _, s := range snapshot {
		p.states[s.ProducerID] = &s
	}
	return p
}

// Close releases the decoder of control batches.
func (p *Producers) Close() { p.dec.Close() }

// Apply takes in the next batch. If it is the marker that aborts a transaction with data, that transaction is returned (without
// its last stable offset).
func (p *Producers) Apply(b recordbatch.Batch) (aborted AbortedTxn, ok bool, err error) {
	if b.ProducerID < 0 {
		return AbortedTxn{}, false, nil
	}
	if b.Control() {
		return p.marker(b)
	}
	s := p.state(b.ProducerID)
	s.setEpoch(b.ProducerEpoch)
	s.LastSequence, s.LastOffset, s.OffsetDelta, s.TimestampMs = b.LastSequence(), b.LastOffset(), b.LastOffsetDelta, b.MaxTimestampMs
	if b.Transactional() && s.CurrentTxnFirstOffset < 0 {
		s.CurrentTxnFirstOffset = b.BaseOffset
	}
	return AbortedTxn{}, false, nil
}

func (p *Producers) marker(b recordbatch.Batch) (aborted AbortedTxn, ok bool, err error) {
	m, ok, err := p.dec.EndTxn(b.Bytes)
	if !ok || err != nil {
		return AbortedTxn{}, false, err
	}
	s := p.state(b.ProducerID)
	first := s.CurrentTxnFirstOffset
	s.setEpoch(b.ProducerEpoch)
	s.CoordinatorEpoch, s.TimestampMs, s.CurrentTxnFirstOffset = m.CoordinatorEpoch, m.TimestampMs, -1
	// A marker without data has no effect on the last stable offset and no entry in the index.
	if m.Type != recordbatch.Abort || first < 0 {
		return AbortedTxn{}, false, nil
	}
	return AbortedTxn{ProducerID: b.ProducerID, FirstOffset: first, LastOffset: b.BaseOffset}, true, nil
}

func (p *Producers) state(id int64) *ProducerState {
	s := p.states[id]
	if s == nil {
		s = &ProducerState{ProducerID: id, ProducerEpoch: -1, LastSequence: -1, LastOffset: -1, TimestampMs: -1, CoordinatorEpoch: -1,
			CurrentTxnFirstOffset: -1}
		p.states[id] = s
	}
	return s
}

// setEpoch forgets the batches of another epoch (ProducerStateEntry.maybeUpdateProducerEpoch).
func (s *ProducerState) setEpoch(epoch int16) {
	if s.ProducerEpoch != epoch {
		s.ProducerEpoch, s.LastSequence, s.LastOffset, s.OffsetDelta = epoch, -1, -1, 0
	}
}

// Snapshot returns the producers by ascending id.
func (p *Producers) Snapshot() []ProducerState {
	states := make([]ProducerState, 0, len(p.states))
	for _, s := range p.states {
		states = append(states, *s)
	}
	slices.SortFunc(states, func(a, b ProducerState) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return states
}
