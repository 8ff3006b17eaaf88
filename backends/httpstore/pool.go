package httpstore

import "github.com/tierkit/tierkit/internal/transport"

// Pool is the http.RoundTripper of a driver: HTTP/1.1 over connections of its own, without compression, and with a watch over each request that ends
// it when no byte moves any more. There is no limit to how long a request may take as long as bytes flow. A driver closes it with CloseIdleConnections.
type Pool = transport.Transport

// PoolOptions are the timeouts, certificates and bounds of a Pool. The zero value is usable; a driver sets Wrap to Env.WrapTransport.
type PoolOptions = transport.Options

// NewPool returns a Pool. It fails if PoolOptions.CAFile cannot be read.
func NewPool(o PoolOptions) (*Pool, error) { return transport.New(o) }
