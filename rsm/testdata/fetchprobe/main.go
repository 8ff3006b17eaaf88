// Command fetchprobe reads segments as consumers do and prints what that took, as JSON, one line for each pass. It is a process of its own, so
// that its first pass is cold and its memory is what a reader costs; it is never built with the race detector.
//
// With -prepare it copies a file as so many segments and prints their metadata, which -segments names for the passes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/s3"
	"github.com/tierkit/tierkit/internal/peakrss"
	"github.com/tierkit/tierkit/internal/slowstore"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

const (
	mib   = 1 << 20
	slack = 48 << 20 // what the Go runtime may have beside the budget
	// A broker reads a MiB and the rest of a batch, and begins the next time a little before the end of that.
	brokerRead    = mib + 16<<10
	brokerOverlap = 20 << 10
)

// pass is what one pass took.
type pass struct {
	Gets, Bytes   int64 // requests, and bytes that came over the wire
	Plain         int64 // bytes that readers got
	Seconds       float64
	P50, P90, P99 float64 // milliseconds of a fetch: open, read, close
	PeakRSS       int64
}

type probe struct {
	props    map[string]string
	first    time.Duration
	rate     int64
	scenario string
	readers  int
	most     int64 // bytes that each reader reads
	segments []remotelog.SegmentMetadata

	m    *rsm.Manager
	mu   sync.Mutex
	gets int64
	wire int64
	took []time.Duration
}

func main() {
	p := &probe{props: map[string]string{}}
	flag.Func("p", "a setting, name=value", func(s string) error {
		k, v, ok := strings.Cut(s, "=")
		if p.props[k] = v; !ok {
			return errors.New("no =")
		}
		return nil
	})
	flag.DurationVar(&p.first, "first-byte", 0, "time to the first byte of each request")
	flag.Int64Var(&p.rate, "rate", 0, "bytes per second of each connection")
	flag.StringVar(&p.scenario, "scenario", "broker", "broker, exact or random")
	flag.IntVar(&p.readers, "readers", 1, "readers at the same time, each of its own segment as far as there are so many")
	flag.Int64Var(&p.most, "most", 256*mib, "bytes for each reader")
	prepare := flag.String("prepare", "", "a file to copy")
	copies := flag.Int("copies", 1, "as how many segments")
	segments := flag.String("segments", "", "file with what -prepare printed")
	passes := flag.Int("passes", 1, "one after the other, in this process")
	flag.Parse()
	if err := p.run(context.Background(), *prepare, *copies, *segments, *passes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (p *probe) run(ctx context.Context, prepare string, copies int, segments string, passes int) error {
	var drivers backends.Registry
	for _, f := range []backends.Factory{fs.Factory(), s3.Factory()} {
		open := f.Open
		f.Open = func(ctx context.Context, c *backends.Config, env backends.Env) (backends.Driver, error) {
			d, err := open(ctx, c, env)
			if err != nil || p.first == 0 && p.rate == 0 {
				return d, err
			}
			return slowstore.New(d, slowstore.Options{FirstByte: p.first, BytesPerSecond: p.rate, Now: time.Now}), nil
		}
		if err := drivers.Register(f); err != nil {
			return err
		}
	}
	var err error
	p.m, err = rsm.Open(ctx, rsm.OpenOptions{Registry: &drivers, Props: p.props, Getenv: os.LookupEnv, Observer: p})
	if err != nil {
		return err
	}
	defer p.m.Close()
	debug.SetMemoryLimit(p.m.Budget().Stats().Limit + slack) // as the commands do
	if prepare != "" {
		return p.prepare(ctx, prepare, copies)
	}
	text, err := os.ReadFile(segments)
	if err == nil {
		err = json.Unmarshal(text, &p.segments)
	}
	for range passes {
		if err == nil {
			err = p.pass(ctx)
		}
	}
	return err
}

// OnOp implements backends.Observer.
func (p *probe) OnOp(_ context.Context, e backends.OpEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Op {
	case backends.OpGet:
		p.gets++
	case backends.OpRead:
		p.wire += e.Bytes
	}
}

func (p *probe) prepare(ctx context.Context, path string, copies int) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	tp := remotelog.TopicIDPartition{TopicID: remotelog.NewUUID(), Topic: "orders"}
	index := remotelog.Bytes(make([]byte, 100_000))
	var out []remotelog.SegmentMetadata
	for i := range copies {
		md := remotelog.SegmentMetadata{
			SegmentID: remotelog.SegmentID{TopicIDPartition: tp, ID: remotelog.NewUUID()}, StartOffset: int64(i) * 1000, EndOffset: int64(i)*1000 + 999,
			LeaderEpochs: []remotelog.LeaderEpoch{{Epoch: 0, StartOffset: int64(i) * 1000}}, SizeBytes: fi.Size(),
		}
		cm, err := p.m.Copy(ctx, md, remotelog.SegmentData{Log: remotelog.File(path), OffsetIndex: index, TimeIndex: index, ProducerSnapshot: index})
		if err != nil {
			return err
		}
		md.State, md.CustomMetadata = remotelog.CopySegmentFinished, cm
		out = append(out, md)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func (p *probe) pass(ctx context.Context) error {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak of memory begins anew
		return err
	}
	p.mu.Lock()
	p.gets, p.wire, p.took = 0, 0, nil
	p.mu.Unlock()
	began := time.Now()
	errs := make(chan error)
	var plain int64
	for i := range p.readers {
		go func() {
			n, err := p.read(ctx, p.segments[i%len(p.segments)], rand.New(rand.NewPCG(uint64(i), 1)))
			p.mu.Lock()
			plain += n
			p.mu.Unlock()
			errs <- err
		}()
	}
	var err error
	for range p.readers {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return err
	}
	took := time.Since(began)
	peak, err := peakrss.Of(os.Getpid())
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.took)
	at := func(q float64) float64 { return 1000 * p.took[int(q*float64(len(p.took)-1))].Seconds() }
	return json.NewEncoder(os.Stdout).Encode(pass{
		Gets: p.gets, Bytes: p.wire, Plain: plain, Seconds: took.Seconds(), P50: at(.5), P90: at(.9), P99: at(.99), PeakRSS: peak,
	})
}

// read is one reader.
func (p *probe) read(ctx context.Context, md remotelog.SegmentMetadata, r *rand.Rand) (int64, error) {
	var total int64
	buf := make([]byte, brokerRead)
	for at := int64(0); at < min(p.most, md.SizeBytes) && total < p.most; {
		end, want, next := int64(remotelog.ToEnd), min(int64(brokerRead), md.SizeBytes-at), at+brokerRead-brokerOverlap
		switch p.scenario {
		case "exact":
			want = min(mib, md.SizeBytes-at)
			end, next = at+want-1, at+want
		case "random":
			at, want = r.Int64N(md.SizeBytes-mib), mib
			next = 0
		}
		began := time.Now()
		rc, err := p.m.Fetch(ctx, md, at, end)
		if err != nil {
			return total, err
		}
		n, err := io.ReadFull(rc, buf[:want])
		if err = errors.Join(err, rc.Close()); err != nil {
			return total, err
		}
		took := time.Since(began)
		p.mu.Lock()
		p.took = append(p.took, took)
		p.mu.Unlock()
		total, at = total+int64(n), next
	}
	return total, nil
}
