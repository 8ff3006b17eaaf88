package kafkalog

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierkit/tierkit/internal/settings"
)

// ConfigOptions say what ParseConfig cannot know from the properties.
type ConfigOptions struct {
	// Prefix is put before names in messages: what the caller cut off the keys ("rlmm.config.").
	Prefix string
	// Getenv looks up environment variables for secrets of the form env:NAME; nil: there are none.
	Getenv func(name string) (string, bool)
	// Bootstrap and SecurityProtocol hold where the properties say nothing: those of the broker's listener.
	Bootstrap        []string
	SecurityProtocol string
	// BrokerID becomes part of the client ids; nil: there is none.
	BrokerID *int32
}

// ParseConfig reads properties with the names that Kafka gives them. The error joins every mistake found; notices are what the
// user should hear once.
func ParseConfig(props map[string]string, o ConfigOptions) (c Config, notices []string, err error) {
	so := settings.Options{Getenv: o.Getenv, Prefix: o.Prefix, Ignored: ignored}
	v, err := settings.Parse(Settings(), props, so)
	r := &configReader{o: o, so: so, v: v, props: props}
	r.add(err)
	r.clientNames()
	if props[keyRetention] != "" && v.Int(keyRetention) == 0 {
		r.add(settings.Problemf(o.Prefix+keyRetention, props[keyRetention], "must be -1 or greater than 0"))
	}
	c = Config{
		Partitions: int32(v.Int(keyPartitions)), ReplicationFactor: int16(v.Int(keyReplication)), MinISR: int16(v.Int(keyMinISR)), RetentionMs: v.Int(keyRetention),
		ConnectTimeout: v.Duration(keyInitTimeout), RetryEvery: v.Duration(keyInitRetry),
	}
	c.Producer, c.Consumer, c.Admin = r.client(forProducer), r.client(forConsumer), r.client(forAdmin)
	if err := r.err(); err != nil {
		return Config{}, v.Notices(), err
	}
	return c, v.Notices(), nil
}

// configReader gathers what is wrong while it reads.
type configReader struct {
	o        ConfigOptions
	so       settings.Options
	v        *settings.Values
	props    map[string]string
	problems []error
}

// add takes a mistake. What all clients share is read for each of them and would be told three times.
func (r *configReader) add(err error) {
	for _, p := range settings.Problems(err) {
		if !slices.ContainsFunc(r.problems, func(e error) bool { return e.Error() == p.Error() }) {
			r.problems = append(r.problems, p)
		}
	}
}

func (r *configReader) err() error {
	slices.SortStableFunc(r.problems, func(a, b error) int {
		switch x, y := a.Error(), b.Error(); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return errors.Join(r.problems...)
}

func (r *configReader) problem(key, format string, args ...any) {
	r.add(settings.Missing(r.o.Prefix+key, format, args...))
}

// clientNames refuses settings of clients that there are not.
func (r *configReader) clientNames() {
	known := []string{forAll, forProducer, forConsumer, forAdmin}
	table := append(clientSettings(), securitySettings()...)
	for i := range table {
		name := strings.TrimPrefix(table[i].Name, clientKey(settings.ID, ""))
		for _, id := range r.v.IDs(table[i].Name) {
			if slices.Contains(known, id) {
				continue
			}
			what := ": what follows " + keyAll + " is common.client, producer, consumer or admin"
			if near := settings.Nearest(id, known); near != "" {
				what = ", did you mean " + r.o.Prefix + clientKey(near, name) + "?"
			}
			r.problem(clientKey(id, name), "unknown setting%s", what)
		}
	}
}

// key returns where the property of a client is set: for itself, else for all; "" for neither.
func (r *configReader) key(client, name string) string {
	for _, c := range []string{client, forAll} {
		if key := clientKey(c, name); r.v.IsSet(key) {
			return key
		}
	}
	return ""
}

func value[T any](r *configReader, get func(string) T, client, name string) T {
	if key := r.key(client, name); key != "" {
		return get(key)
	}
	var zero T
	return zero
}

func (r *configReader) client(name string) Client {
	c := Client{
		Bootstrap:      value(r, r.v.List, name, cBootstrap),
		ID:             value(r, r.v.String, name, cID),
		RequestTimeout: value(r, r.v.Duration, name, cRequestTimeout),
		DialTimeout:    value(r, r.v.Duration, name, cDialTimeout),
		IdleTimeout:    value(r, r.v.Duration, name, cIdle),
	}
	if name == forProducer {
		c.DeliveryTimeout = value(r, r.v.Duration, name, cDelivery)
	}
	for _, d := range []time.Duration{c.RequestTimeout, c.DialTimeout, c.DeliveryTimeout} {
		if d.Milliseconds() > 1<<31-1 {
			r.problem(clientKey(name, cRequestTimeout), "and the other timeouts must be below 24 days")
		}
	}
	r.addresses(name, &c)
	if c.ID == "" {
		c.ID = "tierkit_" + name
		if r.o.BrokerID != nil {
			c.ID = fmt.Sprintf("tierkit_%d_%s", *r.o.BrokerID, name)
		}
	}
	r.security(name, &c)
	return c
}

// addresses checks the bootstrap servers.
func (r *configReader) addresses(client string, c *Client) {
	key := r.key(client, cBootstrap)
	if key == "" {
		c.Bootstrap = r.o.Bootstrap
	}
	if len(c.Bootstrap) == 0 {
		r.problem(clientKey(forAll, cBootstrap), "is required: addresses host:port of brokers, separated by commas")
		return
	}
	for _, a := range c.Bootstrap {
		_, port, err := net.SplitHostPort(a)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil && key != "" {
			r.add(settings.Problemf(r.o.Prefix+key, a, "must be host:port, or several separated by commas"))
		}
	}
}
