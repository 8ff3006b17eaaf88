package testbed

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answering is a cluster of one broker with a topic, that answers requests of a kind with codes first, one after the other.
func answering(t *testing.T, topic string, key kmsg.Key, answer func(req kmsg.Request, code int16) kmsg.Response, codes ...*kerr.Error) (*KafkaCluster, *kfake.Cluster) {
	t.Helper()
	f, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	for _, code := range codes {
		f.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) { return answer(req, code.Code), nil, true })
	}
	return &KafkaCluster{t: t, Brokers: []*Broker{{Address: f.ListenAddrs()[0]}}}, f
}

func offsetsWith(req kmsg.Request, code int16) kmsg.Response {
	asked := req.(*kmsg.ListOffsetsRequest)
	resp := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.ErrorCode = code
	topic := kmsg.NewListOffsetsResponseTopic()
	topic.Topic, topic.Partitions = asked.Topics[0].Topic, append(topic.Partitions, p)
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func topicsWith(req kmsg.Request, code int16) kmsg.Response {
	asked := req.(*kmsg.CreateTopicsRequest)
	resp := asked.ResponseKind().(*kmsg.CreateTopicsResponse)
	topic := kmsg.NewCreateTopicsResponseTopic()
	topic.Topic, topic.ErrorCode = asked.Topics[0].Topic, code
	resp.Topics = append(resp.Topics, topic)
	return resp
}

func TestListOffset_AsksAgainAsKafkasClientsDo(t *testing.T) {
	c, _ := answering(t, "orders", kmsg.ListOffsets, offsetsWith, kerr.RequestTimedOut, kerr.OffsetNotAvailable, kerr.LeaderNotAvailable)
	if at, err := c.ListOffset(t.Context(), "orders", 0, Latest); at != 0 || err != nil {
		t.Errorf("%d, %v, want 0", at, err)
	}
	c, _ = answering(t, "orders", kmsg.ListOffsets, offsetsWith, kerr.TopicAuthorizationFailed)
	if _, err := c.ListOffset(t.Context(), "orders", 0, Latest); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("an answer that does not pass: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.ListOffset(ctx, "nowhere", 0, Latest); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an answer that would pass and does not: %v", err)
	}
}

func TestMakeTopic_OfWhichTheAnswerIsLate(t *testing.T) {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", 1, 1
	c, f := answering(t, topic.Topic, kmsg.CreateTopics, topicsWith, kerr.InvalidReplicationFactor, kerr.RequestTimedOut)
	if id, err := c.makeTopic(t.Context(), topic); err != nil || id != f.TopicInfo(topic.Topic).TopicID {
		t.Errorf("id %x, %v, want that of the topic, which was made at the second attempt", id, err)
	}
	c, _ = answering(t, topic.Topic, kmsg.CreateTopics, topicsWith)
	if _, err := c.makeTopic(t.Context(), topic); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("a topic that somebody else has made: %v", err)
	}
}
