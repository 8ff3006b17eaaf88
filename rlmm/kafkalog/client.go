package kafkalog

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The pauses between attempts of what is tried again.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
)

// newClient makes connections of one kind. It does no I/O. franz-go serves as transport alone: it keeps the connections, finds
// the brokers and negotiates versions; topics are never given to it.
func (o *Options) newClient(c Client) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap...),
		kgo.ClientID(c.ID),
		kgo.DisableClientMetrics(),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RequestTimeoutOverhead(c.RequestTimeout),
		kgo.ConnIdleTimeout(c.IdleTimeout),
		kgo.RequestRetries(len(c.Bootstrap) + 1), // so that each address is tried; the rest is done here
		kgo.RetryBackoffFn(func(int) time.Duration { return retryFirst }),
	}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.DialTimeout}).DialContext
	}
	if c.TLS != nil {
		dial = dialTLS(dial, c)
	}
	opts = append(opts, kgo.Dialer(dial))
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(c.SASL))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("metadata log on kafka: client %q: %w", c.ID, err)
	}
	return cl, nil
}

// send asks one broker. The answer is of the type that R's requests have.
func send[R kmsg.Response](ctx context.Context, cl *kgo.Client, node int32, req kmsg.Request) (R, error) {
	var none R
	resp, err := cl.Broker(int(node)).Request(ctx, req)
	if err != nil {
		return none, closedOr(err)
	}
	r, ok := resp.(R)
	if !ok {
		return none, fmt.Errorf("broker %d answers %T to %T", node, resp, req)
	}
	return r, nil
}

// codeOf returns the error of a broker's code, nil for none.
func codeOf(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil && *message != "" {
		return fmt.Errorf("%w (%s)", err, *message)
	}
	return err
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
