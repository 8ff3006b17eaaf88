package kafkalog

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
)

// Topic is the name of the metadata topic, which Kafka has fixed.
const Topic = "__remote_log_metadata"

// Options are the choices of Open.
type Options struct {
	// Config says where Kafka is and what the topic should be: see ParseConfig.
	Config Config
	// Create makes the topic if it is not there. Config.Partitions and Config.ReplicationFactor must be set then.
	Create bool
	// Logger gets what an operator should know; nil means nothing is logged.
	Logger *slog.Logger
	// Now is the clock for the times in records; nil means the system's.
	Now func() time.Time
	// Dial opens connections; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Config is what the settings say.
type Config struct {
	// Producer, Consumer and Admin are the three kinds of connections. Only Admin is used to open the log.
	Producer, Consumer, Admin Client
	// Partitions is the number of partitions that the topic must have; 0: whatever it has.
	Partitions int32
	// ReplicationFactor is that of a topic to be made; 0: not given.
	ReplicationFactor int16
	// MinISR and RetentionMs are topic settings of a topic to be made; 0 means the defaults of Kafka, 2 and -1 (for ever).
	MinISR      int16
	RetentionMs int64
	// ConnectTimeout bounds how long Open tries to reach Kafka, RetryEvery is the pause in between; 0 means 30 s and 250 ms.
	ConnectTimeout, RetryEvery time.Duration
}

// Client is how connections of one kind are made.
type Client struct {
	// Bootstrap are the addresses (host:port) to begin with.
	Bootstrap []string
	// ID is the client id that brokers log.
	ID string
	// TLS makes connections with TLS; the server name is that of each broker's address unless it is set. Nil: without.
	TLS *tls.Config
	// SASL authenticates; nil: nobody is authenticated.
	SASL sasl.Mechanism
	// RequestTimeout bounds one request, DialTimeout the making of a connection, IdleTimeout the life of one without use; 0 means
	// 30 s, 10 s and 9 min, as in Kafka's clients.
	RequestTimeout, DialTimeout, IdleTimeout time.Duration
	// DeliveryTimeout bounds how long an event is tried (of Producer alone); 0 means 2 min.
	DeliveryTimeout time.Duration
}

func (o *Options) withDefaults() Options {
	d := *o
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now //nolint:forbidigo // the default of an injectable clock
	}
	c := &d.Config
	c.MinISR = or(c.MinISR, 2)
	c.RetentionMs = or(c.RetentionMs, -1)
	c.ConnectTimeout = or(c.ConnectTimeout, 30*time.Second)
	c.RetryEvery = or(c.RetryEvery, 250*time.Millisecond)
	for _, cl := range []*Client{&c.Producer, &c.Consumer, &c.Admin} {
		cl.ID = or(cl.ID, "tierkit")
		cl.RequestTimeout = or(cl.RequestTimeout, 30*time.Second)
		cl.DialTimeout = or(cl.DialTimeout, 10*time.Second)
		cl.IdleTimeout = or(cl.IdleTimeout, 9*time.Minute)
		cl.DeliveryTimeout = or(cl.DeliveryTimeout, 2*time.Minute)
	}
	return d
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
