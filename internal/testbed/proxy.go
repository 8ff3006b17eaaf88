package testbed

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// The user and password that proxies want.
const (
	proxyUser     = "proxy user"
	proxyPassword = "pass:word"
)

// Proxy is a proxy on loopback that wants a user and password.
type Proxy struct {
	URL *url.URL // with user and password

	connections, refused atomic.Int64
	serve                func(p *Proxy, c net.Conn) error
	running              sync.WaitGroup
}

// Connections is how many connections it made for clients that it accepted.
func (p *Proxy) Connections() int { return int(p.connections.Load()) }

// Refused is how many clients came without the user and password.
func (p *Proxy) Refused() int { return int(p.refused.Load()) }

// HTTPProxy returns a proxy of HTTP: CONNECT for https, whole addresses for http. It ends with t.
func HTTPProxy(t testing.TB) *Proxy {
	return startProxy(t, "http", (*Proxy).serveHTTP)
}

// SOCKS5Proxy returns a proxy of RFC 1928 and RFC 1929. It ends with t.
func SOCKS5Proxy(t testing.TB) *Proxy {
	return startProxy(t, "socks5", (*Proxy).serveSOCKS)
}

func startProxy(t testing.TB, scheme string, serve func(*Proxy, net.Conn) error) *Proxy {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{URL: &url.URL{Scheme: scheme, User: url.UserPassword(proxyUser, proxyPassword), Host: l.Addr().String()}, serve: serve}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p.running.Go(func() { p.accept(ctx, l) })
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		p.running.Wait()
	})
	return p
}

func (p *Proxy) accept(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			defer c.Close()
			_ = p.serve(p, c) // the client sees its connection closed
		})
	}
}

// serveHTTP answers one request, which is a tunnel or is made to be the last of its connection.
func (p *Proxy) serveHTTP(c net.Conn) error {
	in := bufio.NewReader(c)
	req, err := http.ReadRequest(in)
	if err != nil {
		return err
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(proxyUser+":"+proxyPassword))
	if req.Header.Get("Proxy-Authorization") != want {
		p.refused.Add(1)
		_, err := io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return err
	}
	host := req.URL.Host
	if req.Method == http.MethodConnect {
		host = req.Host
	}
	to, err := p.dial(host)
	if err != nil {
		return err
	}
	defer to.Close()
	if req.Method == http.MethodConnect {
		if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			return err
		}
		return tunnel(c, in, to)
	}
	req.Header.Del("Proxy-Authorization")
	req.Close = true
	if err := req.Write(to); err != nil {
		return err
	}
	_, err = io.Copy(c, to)
	return err
}

func (p *Proxy) dial(host string) (net.Conn, error) {
	to, err := new(net.Dialer).DialContext(context.Background(), "tcp", host)
	if err == nil {
		p.connections.Add(1)
	}
	return to, err
}

// tunnel carries bytes both ways until the store's side ends.
func tunnel(c net.Conn, in io.Reader, to net.Conn) error {
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(to, in)
		_ = to.Close()
	})
	_, err := io.Copy(c, to)
	_ = c.Close()
	up.Wait()
	return err
}

var errSOCKS = errors.New("not what RFC 1928 has here")

func (p *Proxy) serveSOCKS(c net.Conn) error {
	in := bufio.NewReader(c)
	if err := p.greet(c, in); err != nil {
		return err
	}
	host, err := socksAddress(in)
	if err != nil {
		return err
	}
	to, err := p.dial(host)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	return tunnel(c, in, to)
}

// greet agrees on user and password, and checks them.
func (p *Proxy) greet(c net.Conn, in *bufio.Reader) error {
	methods, err := socksText(in, 5)
	if err != nil {
		return err
	}
	if !strings.Contains(methods, "\x02") {
		p.refused.Add(1)
		_, err := c.Write([]byte{5, 0xff})
		return err
	}
	if _, err := c.Write([]byte{5, 2}); err != nil {
		return err
	}
	user, err := socksText(in, 1)
	if err != nil {
		return err
	}
	password, err := socksText(in, -1)
	if err != nil {
		return err
	}
	if user != proxyUser || password != proxyPassword {
		p.refused.Add(1)
		_, err := c.Write([]byte{1, 1})
		return errors.Join(err, fmt.Errorf("user %q is not known", user))
	}
	_, err = c.Write([]byte{1, 0})
	return err
}

// socksText reads a version, where there is one, then a length and as many bytes.
func socksText(in *bufio.Reader, version int) (string, error) {
	if version >= 0 {
		if b, err := in.ReadByte(); err != nil || int(b) != version {
			return "", errors.Join(errSOCKS, err)
		}
	}
	n, err := in.ReadByte()
	if err != nil {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(in, text)
	return string(text), err
}

// socksAddress reads a request to connect.
func socksAddress(in *bufio.Reader) (string, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(in, head); err != nil {
		return "", err
	}
	if head[0] != 5 || head[1] != 1 {
		return "", errSOCKS
	}
	var host string
	switch head[3] {
	case 1:
		ip := make(net.IP, net.IPv4len)
		if _, err := io.ReadFull(in, ip); err != nil {
			return "", err
		}
		host = ip.String()
	case 3:
		name, err := socksText(in, -1)
		if err != nil {
			return "", err
		}
		host = name
	default:
		return "", errSOCKS
	}
	var port [2]byte
	if _, err := io.ReadFull(in, port[:]); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port[:])))), nil
}
