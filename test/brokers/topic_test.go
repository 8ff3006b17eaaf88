package brokers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/rlmm/kafkalog"
)

// topicPartitions asks any broker where the partitions of the metadata topic are.
func topicPartitions(ctx context.Context, c *cluster) ([]kmsg.MetadataResponseTopicPartition, error) {
	return partitionsOf(ctx, c.Client(), kafkalog.Topic)
}

// partitionsOf asks a broker, or with a client any of them, where the partitions of a topic are.
func partitionsOf(ctx context.Context, broker kmsg.Requestor, topic string) ([]kmsg.MetadataResponseTopicPartition, error) {
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		return nil, err
	}
	ps := resp.Topics[0].Partitions
	slices.SortFunc(ps, func(a, b kmsg.MetadataResponseTopicPartition) int { return int(a.Partition - b.Partition) })
	return ps, kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

func leaderOf(ctx context.Context, c *cluster, p int) (int32, error) {
	ps, err := topicPartitions(ctx, c)
	if err != nil {
		return -1, err
	}
	return ps[p].Leader, nil
}

// healthy: every partition has a leader and all its replicas, and every broker knows: the next question may go to any of them.
func healthy(ctx context.Context, c *cluster) error {
	var known []string
	for _, b := range c.Brokers {
		ps, err := partitionsOf(ctx, c.Client().Broker(int(b.ID)), kafkalog.Topic)
		if err != nil {
			return fmt.Errorf("broker %d: %w", b.ID, err)
		}
		epochs := ""
		for _, p := range ps {
			if p.Leader < 0 || len(p.ISR) != len(c.Brokers) {
				return fmt.Errorf("broker %d: metadata partition %d: leader %d, in sync %v", b.ID, p.Partition, p.Leader, p.ISR)
			}
			epochs += fmt.Sprintf(" %d", p.LeaderEpoch)
		}
		known = append(known, epochs)
	}
	if len(slices.Compact(slices.Clone(known))) > 1 {
		return fmt.Errorf("the brokers know of different leader epochs: %q", known)
	}
	return nil
}

// move makes the next replica the leader of every partition: it becomes the preferred one, and those are elected.
func (f *faults) move(ctx context.Context) error {
	before, err := topicPartitions(ctx, f.c)
	if err != nil {
		return err
	}
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	et := kmsg.NewElectLeadersRequestTopic()
	rt.Topic, et.Topic = kafkalog.Topic, kafkalog.Topic
	for _, p := range before {
		i := slices.Index(p.Replicas, p.Leader) + 1
		rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		rp.Partition, rp.Replicas = p.Partition, append(slices.Clone(p.Replicas[i:]), p.Replicas[:i]...)
		rt.Partitions = append(rt.Partitions, rp)
		et.Partitions = append(et.Partitions, p.Partition)
	}
	assign := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	assign.TimeoutMillis, assign.Topics = 30_000, append(assign.Topics, rt)
	err = testbed.Again(ctx, func() error {
		resp, err := assign.RequestWith(ctx, f.c.Client())
		if err != nil {
			return err
		}
		all := []error{kerr.ErrorForCode(resp.ErrorCode)}
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				all = append(all, kerr.ErrorForCode(p.ErrorCode))
			}
		}
		return errors.Join(all...)
	})
	if err != nil {
		return fmt.Errorf("reassign: %w", err)
	}
	for {
		moved, err := f.elect(ctx, et, before)
		if moved == len(before) {
			return nil
		}
		if pe := pause(ctx); pe != nil {
			return fmt.Errorf("%d of %d leaders have moved: %w", moved, len(before), errors.Join(pe, err))
		}
	}
}

// elect elects the preferred leaders, and counts the partitions that have another one than before.
func (f *faults) elect(ctx context.Context, et kmsg.ElectLeadersRequestTopic, before []kmsg.MetadataResponseTopicPartition) (moved int, err error) {
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis, req.Topics = 30_000, append(req.Topics, et)
	if _, err := req.RequestWith(ctx, f.c.Client()); err != nil { // what it says of a partition is seen below
		return 0, err
	}
	now, err := topicPartitions(ctx, f.c)
	if err != nil || len(now) != len(before) {
		return 0, err
	}
	for i := range now {
		if now[i].Leader > 0 && now[i].Leader != before[i].Leader {
			moved++
		}
	}
	return moved, nil
}
