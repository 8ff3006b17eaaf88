package fault

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestBlackhole: what it says arrives, and then the connection stays open and silent until Close.
func TestBlackhole(t *testing.T) {
	for name, h := range map[string]Hole{"silent": {}, "deaf": {Deaf: true}, "begins an answer": {Says: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}} {
		t.Run(name, func(t *testing.T) {
			b, err := NewBlackhole(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(c)
			got := make([]byte, len(h.Says))
			if _, err := io.ReadFull(in, got); err != nil || string(got) != h.Says {
				t.Errorf("it says %q, %v", got, err)
			}
			if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if n, err := in.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("then %d bytes came, %v", n, err)
			}
			if h.Deaf {
				fill(t, c)
			}
			if n := b.Connections(); n != 1 {
				t.Errorf("%d connections", n)
			}
			b.Close()
			if err := c.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			if _, err := in.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// fill writes until the buffers of the system take no more.
func fill(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(c, io.LimitReader(strings.NewReader(strings.Repeat("x", 64<<20)), 64<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it took %d bytes, %v", n, err)
	}
}
