package fault

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// HandlerTransport serves h in this process, over net.Pipe: no socket, so that a client with all its timers and pauses can run inside testing/synctest.
// (A goroutine that waits for a real socket keeps the bubble's clock from moving.) The caller ends it with CloseIdleConnections once every answer is closed;
// nothing is left then.
func HandlerTransport(h http.Handler) *http.Transport {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Hour}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols: protocols, DisableCompression: true, MaxIdleConnsPerHost: 64,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			_ = srv.Serve(&oneConn{conn: server}) // the error of its second Accept; the connection has a goroutine of its own by then
			return client, nil
		},
	}
}

// oneConn is a listener of one connection that is there already.
type oneConn struct {
	conn net.Conn
	gone atomic.Bool
}

var _ net.Listener = (*oneConn)(nil)

func (l *oneConn) Accept() (net.Conn, error) {
	if l.gone.Swap(true) {
		return nil, io.EOF
	}
	return l.conn, nil
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
