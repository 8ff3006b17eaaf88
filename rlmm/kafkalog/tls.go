package kafkalog

import (
	"context"
	"crypto/tls"
	"net"
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialTLS makes the connections of dial TLS ones. The handshake has the time of a dial.
func dialTLS(dial dialFunc, c Client) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conf := c.TLS.Clone()
		if conf.ServerName == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			conf.ServerName = host
		}
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
		defer cancel()
		conn := tls.Client(raw, conf)
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close() // the handshake's error says why
			return nil, err
		}
		return conn, nil
	}
}
