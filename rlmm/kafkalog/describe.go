package kafkalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/rlmm"
)

// described are the settings that decide whether events stay in the topic. A broker leaves out those that it does not know, such
// as remote.storage.enable before 3.6.
func described() []string {
	return []string{
		"cleanup.policy", "min.insync.replicas", "remote.storage.enable", "retention.bytes", "retention.ms", "unclean.leader.election.enable",
	}
}

var _ rlmm.Describer = (*Log)(nil)

// Describe implements rlmm.Describer. Settings that cannot be had (DescribeConfigs is a permission of its own) are no error, but
// Description.SettingsErr. It takes twice the request timeout of Config.Admin at most.
func (l *Log) Describe(ctx context.Context) (rlmm.Description, error) {
	d := rlmm.Description{Leaders: make(map[int32]int32, l.partitions)}
	d.Settings, d.SettingsErr = l.topicSettings(ctx)
	// The settings were asked for by the topic's name: only by its id, which comes with the leaders, is it sure whose they are.
	if err := l.lookAgain(ctx); err != nil {
		return rlmm.Description{}, fmt.Errorf("metadata log on kafka: description of topic %s: %w", Topic, err)
	}
	for p := range l.partitions {
		to, _ := l.topo.of(p)
		d.Leaders[p] = to.node
	}
	d.Grown = l.Grown()
	return d, nil
}

// topicSettings asks once, at whatever broker.
func (l *Log) topicSettings(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Config.Admin.RequestTimeout)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName, rr.ConfigNames = kmsg.ConfigResourceTypeTopic, Topic, described()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, rr)
	resp, err := req.RequestWith(ctx, l.admin)
	switch {
	case err != nil:
		return nil, closedOr(err)
	case len(resp.Resources) != 1:
		return nil, fmt.Errorf("answer about the settings of one topic has %d", len(resp.Resources))
	}
	err = codeOf(resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage)
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return nil, fmt.Errorf("the principal needs DescribeConfigs on topic %s: %w", Topic, err)
	case err != nil:
		return nil, err
	}
	out := make(map[string]string, len(resp.Resources[0].Configs))
	for _, c := range resp.Resources[0].Configs {
		if c.Value != nil {
			out[c.Name] = *c.Value
		}
	}
	return out, nil
}

// lookAgain is look, which it tries for the request timeout while what hinders it may pass.
func (l *Log) lookAgain(ctx context.Context) error {
	tctx, cancel := context.WithTimeout(ctx, l.opts.Config.Admin.RequestTimeout)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	for pause := retryFirst; ; pause = min(2*pause, retryMost) {
		if err := l.usable(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.look(tctx)
		if err == nil || surfaced(err) {
			return err
		}
		if !sleep(tctx, pause) {
			if closed := l.usable(); closed != nil {
				return closed
			}
			return ended(ctx, err)
		}
	}
}
