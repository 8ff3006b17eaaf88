package conformance

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// silentCases are about connections that are made, and on which then nothing happens any more.
func silentCases() []Case {
	hole := []Facility{UsesEndpoint, UsesTimeouts, UsesAttempts}
	link := []Facility{UsesPlainServer, UsesTimeouts, UsesAttempts}
	return []Case{
		{ID: "net/silent", Rule: "A server that takes connections and says nothing, or that stops in the middle of an answer, ends in a timeout of each attempt, on a connection of its own.", Level: Driver, Needs: overHTTP, Uses: hole, Run: netSilent},
		{ID: "net/deaf", Rule: "An upload to a server that takes connections and reads nothing ends in a timeout, after which nothing holds its body.", Level: Driver, Needs: overHTTP, Uses: hole, Run: netDeaf},
		{ID: "net/download-stops", Rule: "A connection on which the bytes of an answer stop without being closed is given up after the stall timeout, and gone on with on another one.", Level: Store, Needs: overHTTP, Uses: link, Run: netDownloadStops},
		{ID: "net/upload-stops", Rule: "A connection on which the bytes of an upload stop without being closed is given up after the stall timeout, and they are sent again on another one.", Level: Driver, Needs: overHTTP, Uses: link, Run: netUploadStops},
	}
}

// silence is how long the clients of these cases bear it.
const silence = 500 * time.Millisecond

func (b *Bench) silentSettings(attempts int, url string) map[string]string {
	k := b.r.h.Knobs
	over := merged(k.Endpoint(url), k.Timeouts(silence), k.Attempts(attempts))
	if k.RetryDelay != nil {
		over = merged(over, k.RetryDelay(faultDelay))
	}
	return over
}

// hole opens a client to a Blackhole.
func (b *Bench) hole(h fault.Hole, attempts int) (*fault.Blackhole, *Client) {
	b.t.Helper()
	hole, err := fault.NewBlackhole(b.t.ctx, h)
	if err != nil {
		b.t.Fatalf("listen: %v", err)
	}
	b.t.Cleanup(hole.Close)
	return hole, b.ClientWith(ClientOptions{Override: b.silentSettings(attempts, "http://"+hole.Addr())})
}

func netSilent(t T, b *Bench) {
	for what, says := range map[string]string{
		"nothing":                       "",
		"the half of a status line":     "HTTP/1.1 2",
		"the half of a header":          "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nEta",
		"a header and a part of a body": "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 1000),
	} {
		hole, c := b.hole(fault.Hole{Says: says}, 2)
		began := b.Now()
		err := c.Lists(t.Context(), "", func(backends.Info) {})
		took := b.Now().Sub(began)
		if code := backends.CodeOf(err); !code.Temporary() {
			t.Errorf("list at a server that says %s: %s, want a timeout", what, shown(err))
		}
		if n := hole.Connections(); n != 2 {
			t.Errorf("a server that says %s: %d connections for two attempts, want one for each", what, n)
		}
		b.bears("a server that says "+what, 2, took)
	}
}

// bears checks that so many silences were borne no longer than allowed.
func (b *Bench) bears(what string, times time.Duration, took time.Duration) {
	b.t.Helper()
	if took < silence/2 || took > 2*times*silence+b.Prompt() { // of a request and of its answer each
		b.t.Errorf("%s: %d attempts: got an end after %s, want one that fits the timeout of %s", what, times, took, silence)
	}
}

func netDeaf(t T, b *Bench) {
	_, c := b.hole(fault.Hole{Deaf: true}, 1)
	data := b.Bytes(8 << 20) // more than the buffers of the system take
	body := &guarded{t: t, r: plain(data)}
	began := b.Now()
	_, err := c.Put(t.Context(), "k", body, backends.PutOptions{Size: int64(len(data))})
	body.over()
	if code := backends.CodeOf(err); !code.Temporary() {
		t.Errorf("put to a server that reads nothing: %s, want a timeout", shown(err))
	}
	b.bears("a server that reads nothing", 4, b.Now().Sub(began)) // what was begun is removed, too
}

// throughLink opens a client to the server through a proxy whose connections are as l says.
func (b *Bench) throughLink(l fault.Link) (p *fault.Proxy, c *Client) {
	b.t.Helper()
	p, err := fault.NewProxy(b.t.ctx, b.r.h.plainServer(), nil)
	if err != nil {
		b.t.Fatalf("proxy: %v", err)
	}
	b.t.Cleanup(p.Close)
	p.SetLink(l)
	return p, b.ClientWith(ClientOptions{Override: b.silentSettings(faultAttempts, "http://"+p.Addr())})
}

func netDownloadStops(t T, b *Bench) {
	data := b.Bytes(8 << 20)
	b.Client().Write("k", data)
	p, c := b.throughLink(fault.Link{DownStop: 100_000})
	obj, err := c.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
	if err != nil {
		t.Fatalf("get: got %v, want success", err)
	}
	defer obj.Body.Close()
	p.SetLink(fault.Link{})
	began := b.Now()
	got, err := io.ReadAll(obj.Body)
	b.bears("bytes that stop", 1, b.Now().Sub(began))
	if err != nil || string(got) != string(data) {
		t.Errorf("bytes that stop: got %s, want success; %s", shown(err), difference(got, data))
	}
	if n := p.Connections(); n != 2 {
		t.Errorf("%d connections, want the first and one more", n)
	}
}

func netUploadStops(t T, b *Bench) {
	p, c := b.throughLink(fault.Link{UpStop: 2000})
	data := b.Bytes(20_000)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		settles(ctx, b.Prompt(), func() []string {
			if p.Connections() == 0 {
				return []string{"no connection"}
			}
			return nil
		})
		p.SetLink(fault.Link{})
	}()
	began := b.Now()
	c.Write("k", data)
	took := b.Now().Sub(began)
	cancel()
	<-done
	b.bears("bytes that stop", 1, took)
	b.Client().Holds("k", data)
	if n := p.Connections(); n != 2 {
		t.Errorf("%d connections, want the first and one more", n)
	}
}
