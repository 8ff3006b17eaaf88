package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/remotelog"
)

// check finds what Open cannot work with.
func (o *Options) check() error {
	c := &o.Config
	for _, cl := range []*Client{&c.Producer, &c.Consumer, &c.Admin} {
		if len(cl.Bootstrap) == 0 {
			return fmt.Errorf("%w: metadata log on kafka: no bootstrap servers", remotelog.ErrInvalidArgument)
		}
	}
	if o.Create && (c.Partitions < 1 || c.ReplicationFactor < 1) {
		return errExplicit()
	}
	return nil
}

func errExplicit() error {
	return fmt.Errorf("%w: topic %s is made only with %s and %s set: brokers that have another number of partitions configured do not start",
		remotelog.ErrInvalidArgument, Topic, keyPartitions, keyReplication)
}

// sayAfter is how long Open waits for Kafka before it says so.
const sayAfter = time.Second

// sayWaiting logs that Open waits, once and if it does. The function that it returns ends that.
func (o *Options) sayWaiting(last *atomic.Value) (stop func()) {
	said := make(chan struct{})
	t := time.AfterFunc(sayAfter, func() {
		defer close(said)
		args := []any{"bootstrap", strings.Join(o.Config.Admin.Bootstrap, ","), "atMost", o.Config.ConnectTimeout}
		if err := last.Load(); err != nil {
			args = append(args, "error", err)
		}
		o.Logger.Warn("waiting for Kafka, which has not answered yet", args...)
	})
	return func() {
		if !t.Stop() {
			<-said
		}
	}
}

// openTopic finds or makes the topic.
func (o *Options) openTopic(ctx context.Context, cl *kgo.Client) (topicState, error) {
	tctx, cancel := context.WithTimeout(ctx, o.Config.ConnectTimeout)
	defer cancel()
	var last atomic.Value // of string, the error of the last attempt
	defer o.sayWaiting(&last)()
	made := false
	var failed error // why the last attempt failed that had its time
	for {
		st, err := describe(tctx, cl)
		switch {
		case err == nil:
			return st, o.checkPartitions(st)
		case errors.Is(err, ErrNoTopic) && made: // the broker that was asked has not heard of it yet
		case errors.Is(err, ErrNoTopic) && o.Create:
			if err = o.create(tctx, cl); err == nil {
				made = true
				continue
			}
		case errors.Is(err, ErrNoTopic):
			return topicState{}, fmt.Errorf("%w: brokers with tiered storage make it when they start, and tierkit copy does with %s and %s set",
				ErrNoTopic, keyPartitions, keyReplication)
		}
		if tctx.Err() == nil {
			failed = err
		} else if failed != nil && ctx.Err() == nil {
			err = failed // and not that this one was cut off
		}
		last.Store(err.Error())
		_, eof := errors.AsType[*kgo.ErrFirstReadEOF](err)
		if eof || surfaced(err) || !sleep(tctx, o.Config.RetryEvery) {
			return topicState{}, o.cannotOpen(ctx, tctx, err)
		}
	}
}

// cannotOpen is the error of Open when the last attempt ended with err. tctx is ctx until the time to connect is over.
func (o *Options) cannotOpen(ctx, tctx context.Context, err error) error {
	at := strings.Join(o.Config.Admin.Bootstrap, ",")
	switch {
	case ctx.Err() != nil:
		err = ended(ctx, err)
	case tctx.Err() != nil:
		return fmt.Errorf("metadata log on kafka at %s cannot be opened: tried for %v (%s): %w: check %s, and that the brokers run and can be reached",
			at, o.Config.ConnectTimeout, keyInitTimeout, err, clientKey(forAll, cBootstrap))
	}
	return fmt.Errorf("metadata log on kafka at %s cannot be opened: %w", at, err)
}

func (o *Options) checkPartitions(st topicState) error {
	if want, got := o.Config.Partitions, int32(len(st.leaders)); want != 0 && want != got {
		return fmt.Errorf("%w: it has %d, %s is %d; the topic's number is right if its records are: correct the setting", ErrPartitions, got, keyPartitions, want)
	}
	return nil
}

// topicConfigs are the settings that Kafka 4.3 and later give the topic (TopicBasedRemoteLogMetadataManager.newRemoteLogMetadataTopic).
func (o *Options) topicConfigs() [][2]string {
	return [][2]string{
		{"cleanup.policy", "delete"},
		{"min.insync.replicas", strconv.Itoa(int(o.Config.MinISR))},
		{"remote.storage.enable", "false"},
		{"retention.ms", strconv.FormatInt(o.Config.RetentionMs, 10)},
	}
}

// create makes the topic. That it is there already is success, as it is for brokers.
func (o *Options) create(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(o.Config.Admin.RequestTimeout.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = Topic, o.Config.Partitions, o.Config.ReplicationFactor
	for _, kv := range o.topicConfigs() {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = kv[0], kmsg.StringPtr(kv[1])
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	switch {
	case err != nil:
		return closedOr(err)
	case len(resp.Topics) != 1:
		return fmt.Errorf("answer to the creation of one topic has %d", len(resp.Topics))
	}
	err = codeOf(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
	switch {
	case err == nil:
		o.Logger.Info("made the metadata topic", "topic", Topic, "partitions", o.Config.Partitions, "replicationFactor", o.Config.ReplicationFactor)
		return nil
	case errors.Is(err, kerr.TopicAlreadyExists):
		return nil
	}
	return fmt.Errorf("topic %s cannot be made: %w", Topic, err)
}
