package kafkalog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/remotelog"
)

var (
	// ErrNoTopic: the cluster has no metadata topic.
	ErrNoTopic = errors.New("kafka has no topic " + Topic)
	// ErrPartitions: the topic has another number of partitions than was demanded.
	ErrPartitions = errors.New("topic " + Topic + " has another number of partitions than configured")

	errClosed = fmt.Errorf("metadata log on kafka: %w", remotelog.ErrClosed)
)

// ReplacedError says that the topic is not the one that was opened: it was deleted and made again, or the addresses lead to
// another cluster.
type ReplacedError struct {
	// Old and New are the topic ids as Kafka writes them.
	Old, New string
}

// Error implements error.
func (e *ReplacedError) Error() string {
	return fmt.Sprintf("topic %s was deleted and made again: it was opened with id %s and has id %s now; "+
		"nothing of the old topic can be trusted: restart this process", Topic, e.Old, e.New)
}

// fatalCodes are the answers of a broker that trying again does not change.
var fatalCodes = []*kerr.Error{
	kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.GroupAuthorizationFailed,
	kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.SecurityDisabled,
	kerr.InvalidTopicException, kerr.UnsupportedVersion, kerr.PolicyViolation,
	kerr.InvalidReplicationFactor, kerr.InvalidPartitions, kerr.InvalidConfig,
}

// surfaced reports whether an error has to come out instead of being tried again.
func surfaced(err error) bool {
	for _, code := range fatalCodes {
		if errors.Is(err, code) {
			return true
		}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*ReplacedError](err); ok {
		return true
	}
	return errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, remotelog.ErrClosed)
}

// closedOr puts an error that only says that the client was closed into this package's words.
func closedOr(err error) error {
	if errors.Is(err, kgo.ErrClientClosed) {
		return errClosed
	}
	return err
}

// ended returns the error of ctx if it has ended, else err.
func ended(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && err != nil {
		return fmt.Errorf("%w (last: %w)", cause, err)
	}
	return err
}
