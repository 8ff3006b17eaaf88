package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierkit/tierkit/internal/props"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/kafkalog"
)

// topicUse says what a command may do about a metadata topic that is not there. A topic made with other numbers than the brokers
// have configured keeps them from starting.
type topicUse int

const (
	topicMustExist topicUse = iota
	topicMayBeMade          // by explicit settings only
)

// readKafka reads the settings of the Kafka log, if that is the log.
func (s *session) readKafka() error {
	if s.metaLog.Kind != props.LogKafka {
		return nil
	}
	o := kafkalog.ConfigOptions{
		Prefix: s.file.RLMMPrefix, Getenv: s.app.LookupEnv, Bootstrap: s.metaLog.BootstrapServers, SecurityProtocol: s.metaLog.SecurityProtocol,
	}
	if id, ok := s.file.BrokerID(); ok {
		o.BrokerID = &id
	}
	c, notices, err := kafkalog.ParseConfig(s.metaLog.Kafka, o)
	if err != nil {
		return err
	}
	for _, n := range notices {
		s.app.notice(n)
	}
	s.kafka = c
	return nil
}

func (s *session) kafkaLog(ctx context.Context) (rlmm.Log, error) {
	l, err := kafkalog.Open(ctx, kafkalog.Options{
		Config: s.kafka, Logger: s.app.log, Now: s.app.Now,
		Create: s.topic == topicMayBeMade && s.kafka.Partitions > 0 && s.kafka.ReplicationFactor > 0,
	})
	switch {
	case errors.Is(err, kafkalog.ErrPartitions):
		return nil, asUsage(err)
	case errors.Is(err, kafkalog.ErrNoTopic):
		return nil, fmt.Errorf("%w; --from-store works from the store alone", err)
	case err != nil:
		return nil, err // not l, which would be a Log that is not nil
	}
	return l, nil
}
