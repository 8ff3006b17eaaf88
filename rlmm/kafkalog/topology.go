package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/remotelog"
)

// leader is who leads a partition, node -1 if nobody is known to.
type leader struct {
	node, epoch int32
}

// topicState is what a metadata answer says of the topic.
type topicState struct {
	cluster string
	id      remotelog.UUID
	leaders []leader
}

// describe asks for the topic. It is ErrNoTopic if there is none.
func describe(ctx context.Context, cl *kgo.Client) (topicState, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(Topic)
	req.Topics = []kmsg.MetadataRequestTopic{t}
	resp, err := req.RequestWith(ctx, cl)
	switch {
	case err != nil:
		return topicState{}, closedOr(err)
	case len(resp.Topics) != 1:
		return topicState{}, fmt.Errorf("metadata answer with %d topics, want 1", len(resp.Topics))
	}
	got := &resp.Topics[0]
	err = kerr.ErrorForCode(got.ErrorCode)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return topicState{}, ErrNoTopic
	case err != nil:
		return topicState{}, fmt.Errorf("topic %s: %w", Topic, err)
	case len(got.Partitions) == 0:
		return topicState{}, fmt.Errorf("topic %s: %w", Topic, kerr.LeaderNotAvailable)
	case remotelog.UUID(got.TopicID).IsZero():
		return topicState{}, fmt.Errorf("topic %s has no topic id: Kafka 2.8 or later is needed: %w", Topic, kerr.UnsupportedVersion)
	}
	st := topicState{id: got.TopicID, leaders: make([]leader, len(got.Partitions))}
	if resp.ClusterID != nil {
		st.cluster = *resp.ClusterID
	}
	for i := range st.leaders {
		st.leaders[i].node = -1
	}
	for _, p := range got.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(st.leaders) {
			return topicState{}, fmt.Errorf("topic %s: metadata answer has partition %d of %d", Topic, p.Partition, len(st.leaders))
		}
		st.leaders[p.Partition] = leader{p.Leader, p.LeaderEpoch}
	}
	return st, nil
}

// topology is who leads which partition, shared by everything of a Log that asks a leader.
type topology struct {
	// turn is held by whoever asks Kafka.
	turn chan struct{}

	mu      sync.Mutex
	version int // counts the answers
	leaders []leader
}

// of returns the leader of a partition, and the version of the answer that said so.
func (t *topology) of(p int32) (leader, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leaders[p], t.version
}

// set takes an answer. A leader with a lower epoch than the one known comes from a broker that lags behind.
func (t *topology) set(leaders []leader) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.version++
	for i := range t.leaders {
		if i < len(leaders) && (leaders[i].epoch >= t.leaders[i].epoch || leaders[i].epoch < 0) {
			t.leaders[i] = leaders[i]
		}
	}
}

// refresh asks for the leaders, unless somebody did since version.
func (l *Log) refresh(ctx context.Context, version int) error {
	select {
	case l.topo.turn <- struct{}{}:
		defer func() { <-l.topo.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l.topo.mu.Lock()
	known := l.topo.version
	l.topo.mu.Unlock()
	if known != version {
		return nil
	}
	return l.look(ctx)
}

// look asks for the topic and compares it with the one that was opened.
func (l *Log) look(ctx context.Context) error {
	st, err := describe(ctx, l.admin)
	if err != nil {
		return err
	}
	if st.id != l.topicID {
		err := &ReplacedError{Old: l.topicID.String(), New: st.id.String()}
		l.fail(err)
		return err
	}
	if n := int32(len(st.leaders)); n != l.partitions && n != l.grown.Swap(n) {
		l.opts.Logger.Warn("the metadata topic has another number of partitions than when it was opened; this process goes on with the old "+
			"number, under which its records are found; brokers refuse to start until their setting says the new one",
			"topic", Topic, "opened", l.partitions, "now", n)
	}
	l.topo.set(st.leaders)
	return nil
}
