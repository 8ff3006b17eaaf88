package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/remotelog"
)

// session is the producer id of a Log, asked for with the first event.
type session struct {
	turn chan struct{}
	id   int64
	have bool
}

// verdict is what one attempt to append a group came to.
type verdict uint8

const (
	refused   verdict = iota // not appended, and trying again does not help
	notYet                   // not appended by this attempt
	uncertain                // perhaps appended
	tooLarge                 // not appended: as a whole too large
	broken                   // not appended by this attempt: the broker knows another state of this producer
)

// neverAppended are answers that a leader gives before it touches its log.
var neverAppended = []*kerr.Error{
	kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID,
	kerr.NotEnoughReplicas, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.ThrottlingQuotaExceeded,
}

// refusals are answers to what will never be appended.
var refusals = []*kerr.Error{
	kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.CorruptMessage,
	kerr.InvalidTopicException, kerr.InvalidRequiredAcks, kerr.UnsupportedForMessageFormat, kerr.UnsupportedCompressionType, kerr.PolicyViolation,
}

// sessionErrors are answers of a leader whose memory of this producer is not ours: events of it were truncated, or expired.
var sessionErrors = []*kerr.Error{
	kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.ProducerFenced,
}

func isOneOf(err error, codes []*kerr.Error) bool {
	return slices.ContainsFunc(codes, func(code *kerr.Error) bool { return errors.Is(err, code) })
}

// judge says what the answer of a broker means for the events. What is not known is uncertain.
func judge(err error) verdict {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return notYet
	}
	switch {
	case errors.Is(err, remotelog.ErrClosed):
		return uncertain
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return tooLarge
	case isOneOf(err, neverAppended):
		return notYet
	case isOneOf(err, refusals), surfaced(err): // what else is surfaced fails while a connection is made
		return refused
	case isOneOf(err, sessionErrors):
		return broken
	}
	return uncertain
}

// run sends what is in the queue, and ends when it is empty.
func (w *writer) run() {
	for group := w.take(); group != nil; group = w.take() {
		w.send(group)
	}
}

// delivery is the sending of one group.
type delivery struct {
	w        *writer
	group    []*pending
	pause    time.Duration
	maybe    bool // an attempt may have been appended
	sessions int  // producer epochs that were begun for it
}

// send tries until the group is appended, refused, or given up.
func (w *writer) send(group []*pending) {
	ctx, cancel := context.WithTimeout(w.log.ctx, w.log.opts.Config.Producer.DeliveryTimeout)
	defer cancel()
	d := &delivery{w: w, group: group, pause: retryFirst}
	for {
		if w.log.usable() != nil {
			d.giveUp(w.log.usable())
			return
		}
		first, err := d.attempt(ctx)
		if err == nil {
			w.seq = wrap(w.seq, len(group))
			w.resolve(group, first, nil)
			return
		}
		if d.decide(judge(err), err) {
			return
		}
		if w.abandoned(group) || ctx.Err() != nil {
			d.giveUp(fmt.Errorf("given up: %w", err))
			return
		}
		sleep(ctx, d.pause)
		d.pause = min(2*d.pause, retryMost)
	}
}

// notSent is an error of what comes before a produce request is written.
type notSent struct{ err error }

func (e *notSent) Error() string { return e.err.Error() }
func (e *notSent) Unwrap() error { return e.err }

// decide draws the conclusion from a failed attempt. It reports whether the delivery has ended.
func (d *delivery) decide(v verdict, err error) (ended bool) {
	if _, before := errors.AsType[*notSent](err); before {
		if surfaced(err) {
			d.giveUp(err)
			return true
		}
		return false
	}
	switch v {
	case refused:
		d.giveUp(err)
		return true
	case tooLarge:
		switch {
		case d.maybe:
			d.giveUp(err)
		case len(d.group) > 1:
			d.w.giveBack(d.group)
		default:
			d.w.resolve(d.group, 0, fmt.Errorf("%w: metadata partition %d: %w; raise max.message.bytes of topic %s",
				remotelog.ErrInvalidArgument, d.w.part, err, Topic))
		}
		return true
	case broken:
		const most = 3
		if d.sessions++; d.maybe || d.sessions > most {
			d.giveUp(err)
			return true
		}
		d.w.newEpoch()
	case uncertain:
		d.maybe = true
	case notYet:
	}
	return false
}

// giveUp ends the delivery without an offset. If an attempt may have been appended, the events are in doubt, and the next ones
// come in a producer epoch of their own: after one of them was appended the broker refuses what is still on the wire.
//
// What ended the log comes out in place of what that did to the attempt: the attempt of a closed log fails with
// context.Canceled, and a caller whose own context lives would not know what to make of it.
func (d *delivery) giveUp(why error) {
	if end := d.w.log.usable(); end != nil && !errors.Is(why, end) {
		why = fmt.Errorf("%w (last: %v)", end, why) //nolint:errorlint // see above: errors.Is must not find it
	}
	why = fmt.Errorf("metadata partition %d: %w", d.w.part, why)
	if d.maybe {
		d.w.newEpoch()
		why = fmt.Errorf("%w: %w", remotelog.ErrOutcomeUnknown, why)
	}
	d.w.resolve(d.group, 0, why)
}

// newEpoch begins a producer epoch. Epochs are counted by partition: a broker keeps them so.
func (w *writer) newEpoch() {
	w.epoch++
	w.seq = 0
}

// attempt sends the group once and returns the offset of its first event.
func (d *delivery) attempt(ctx context.Context) (int64, error) {
	l, w := d.w.log, d.w
	ctx, cancel := context.WithTimeout(ctx, l.opts.Config.Producer.RequestTimeout)
	defer cancel()
	if err := w.begin(ctx); err != nil {
		return 0, &notSent{err}
	}
	to, version := l.topo.of(w.part)
	if to.node < 0 {
		err := l.refresh(ctx, version)
		return 0, &notSent{errors.Join(kerr.LeaderNotAvailable, err)}
	}
	req, err := w.request(d.group)
	if err != nil {
		return 0, &notSent{err}
	}
	first, err := d.exchange(ctx, to.node, req)
	if err != nil {
		// Whatever it was: the leader may be another by now. An error of this question comes again with the next attempt.
		_ = l.refresh(ctx, version)
	}
	return first, err
}

// begin asks for the producer id, once in the life of the Log.
func (w *writer) begin(ctx context.Context) error {
	if w.epoch == math.MaxInt16 {
		return fmt.Errorf("metadata partition %d: the producer has no epochs left: restart this process: %w", w.part, kerr.UnsupportedVersion)
	}
	if w.begun {
		return nil
	}
	id, err := w.log.producerID(ctx)
	if err != nil {
		return fmt.Errorf("producer id: %w", err)
	}
	w.begun, w.id = true, id
	return nil
}

func (l *Log) producerID(ctx context.Context) (int64, error) {
	s := &l.session
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if s.have {
		return s.id, nil
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = -1
	resp, err := req.RequestWith(ctx, l.producer)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return 0, closedOr(err)
	}
	s.id, s.have = resp.ProducerID, true
	return s.id, nil
}

// request makes the produce request of a group.
func (w *writer) request(group []*pending) (*kmsg.ProduceRequest, error) {
	events := make([][]byte, len(group))
	for i, a := range group {
		events[i] = a.event
	}
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition = w.part
	rp.Records = encodeBatch(events, batchHead{producer: w.id, epoch: w.epoch, seq: w.seq, timeMs: w.log.opts.Now().UnixMilli()})
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = Topic, w.log.topicID
	rt.Partitions = append(rt.Partitions, rp)
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	req.TimeoutMillis = int32(w.log.opts.Config.Producer.RequestTimeout.Milliseconds())
	req.Topics = append(req.Topics, rt)
	return req, nil
}

// exchange sends the request. An error that is not an answer of the broker leaves open whether it arrived.
func (d *delivery) exchange(ctx context.Context, node int32, req *kmsg.ProduceRequest) (int64, error) {
	resp, err := send[*kmsg.ProduceResponse](ctx, d.w.log.producer, node, req)
	if err != nil {
		return 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != d.w.part {
		return 0, fmt.Errorf("broker %d answers for other partitions than were asked", node)
	}
	p := &resp.Topics[0].Partitions[0]
	if err := codeOf(p.ErrorCode, p.ErrorMessage); err != nil {
		return 0, err
	}
	if p.BaseOffset < 0 {
		return 0, fmt.Errorf("broker %d acknowledges without an offset", node)
	}
	return p.BaseOffset, nil
}
