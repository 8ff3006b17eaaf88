package kafkalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// values reads what partition p holds, to its end.
func values(t *testing.T, l *Log, p int32) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b, err := l.Bounds(ctx, []int32{p})
	if err != nil {
		t.Fatal(err)
	}
	f := l.Follow(map[int32]rlmm.Position{p: {Offset: b[p].First, Epoch: -1}})
	defer func() { _ = f.Close() }()
	var out []string
	for next := b[p].First; next < b[p].Next; {
		batch, err := f.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range batch.Events {
			out = append(out, string(ev.Value))
		}
		next = batch.Next[p].Offset
	}
	return out
}

func produceFault(err *kerr.Error, count int) kfake.Fault {
	return kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: Topic, Err: err, Count: count}
}

// What the answers of a broker mean for the caller, and what is in the log afterwards.
func TestAppend_Outcomes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		faults  []kfake.Fault
		want    error // nil: appended
		unknown bool
		times   int // in the log
	}{
		{name: "not leader twice", faults: []kfake.Fault{produceFault(kerr.NotLeaderForPartition, 2)}, times: 1},
		{name: "not enough replicas", faults: []kfake.Fault{produceFault(kerr.NotEnoughReplicas, 2)}, times: 1},
		{name: "appended, acknowledgement late", faults: []kfake.Fault{produceFault(kerr.NotEnoughReplicasAfterAppend, 2)}, times: 1},
		{name: "appended, timed out", faults: []kfake.Fault{produceFault(kerr.RequestTimedOut, 1)}, times: 1},
		{name: "storage error", faults: []kfake.Fault{produceFault(kerr.KafkaStorageError, 1)}, times: 1},
		{name: "not allowed", faults: []kfake.Fault{produceFault(kerr.TopicAuthorizationFailed, -1)}, want: kerr.TopicAuthorizationFailed},
		{name: "invalid", faults: []kfake.Fault{produceFault(kerr.InvalidRecord, -1)}, want: kerr.InvalidRecord},
		{
			name:   "not leader, then not allowed",
			faults: []kfake.Fault{produceFault(kerr.NotLeaderForPartition, 1), produceFault(kerr.TopicAuthorizationFailed, -1)},
			want:   kerr.TopicAuthorizationFailed,
		},
		{
			name:   "appended, then not allowed",
			faults: []kfake.Fault{produceFault(kerr.NotEnoughReplicasAfterAppend, 1), produceFault(kerr.TopicAuthorizationFailed, -1)},
			want:   kerr.TopicAuthorizationFailed, unknown: true, times: 1,
		},
		{
			name:   "perhaps appended, then refused as unknown producer",
			faults: []kfake.Fault{produceFault(kerr.KafkaStorageError, 1), produceFault(kerr.UnknownProducerID, 1)},
			want:   kerr.UnknownProducerID, unknown: true,
		},
		{name: "out of order", faults: []kfake.Fault{produceFault(kerr.OutOfOrderSequenceNumber, 1)}, times: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := withTopic(t, 1)
			l := f.open(Options{})
			if _, err := l.Append(t.Context(), 0, []byte("before")); err != nil {
				t.Fatal(err)
			}
			h := f.c.Fault(tc.faults...)
			_, err := l.Append(t.Context(), 0, []byte("event"))
			h.Remove()
			switch {
			case tc.want == nil && err != nil, tc.want != nil && !errors.Is(err, tc.want):
				t.Errorf("error %v, want %v", err, tc.want)
			case errors.Is(err, remotelog.ErrOutcomeUnknown) != tc.unknown:
				t.Errorf("error %v: unknown outcome, want %v", err, tc.unknown)
			}
			if h.Hits() == 0 {
				t.Error("no fault was met")
			}
			if _, err := l.Append(t.Context(), 0, []byte("after")); err != nil {
				t.Errorf("the next Append: %v", err)
			}
			got := strings.Join(values(t, l, 0), " ")
			want := "before " + strings.Repeat("event ", tc.times) + "after"
			if got != want {
				t.Errorf("the log holds %q, want %q", got, want)
			}
		})
	}
}

// deaf is a connection that loses the answer to every second produce request: the broker has sent it, and the connection ends.
type deaf struct {
	net.Conn
	produced *atomic.Int32
	lose     atomic.Bool
}

func (d *deaf) Write(b []byte) (int, error) {
	if len(b) > 6 && binary.BigEndian.Uint16(b[4:]) == 0 { // size, then the key of Produce
		d.lose.Store(d.produced.Add(1)%2 == 1)
	}
	return d.Conn.Write(b)
}

func (d *deaf) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	if err == nil && d.lose.Load() {
		_ = d.Close()
		return 0, io.EOF
	}
	return n, err
}

// Acknowledgements that never arrive: the broker did the work, the connection ends before its answer. Each event is there once.
func TestAppend_LostAcknowledgements(t *testing.T) {
	f := withTopic(t, 1)
	var produced atomic.Int32
	l := f.open(Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return &deaf{Conn: c, produced: &produced}, err
	}})
	var want []string
	for i := range 10 {
		want = append(want, fmt.Sprint(i))
		if _, err := l.Append(t.Context(), 0, []byte(want[i])); err != nil {
			t.Errorf("Append(%d): %v", i, err)
		}
	}
	if got := values(t, l, 0); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the log holds %v, want %v", got, want)
	}
	if n := produced.Load(); n < 20 {
		t.Errorf("%d requests for 10 events: not every first acknowledgement was lost", n)
	}
}

func copyProduce(req *kmsg.ProduceRequest) *kmsg.ProduceRequest {
	c := *req
	c.Topics = append([]kmsg.ProduceRequestTopic(nil), req.Topics...)
	return &c
}

// An event in doubt is kept off the log once a later one was acknowledged: its request comes late, and is refused.
func TestAppend_DoubtNeverLandsLater(t *testing.T) {
	f := withTopic(t, 1)
	l := f.open(Options{})
	if _, err := l.Append(t.Context(), 0, []byte("first")); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var late *kmsg.ProduceRequest
	f.c.ControlKey(0, func(req kmsg.Request) (kmsg.Response, error, bool) {
		f.c.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		late = copyProduce(req.(*kmsg.ProduceRequest))
		return nil, io.EOF, true
	})
	delivery := l.opts.Config.Producer.DeliveryTimeout
	l.opts.Config.Producer.DeliveryTimeout = time.Second // of this one alone: the others have their time on a slow machine
	_, err := l.Append(t.Context(), 0, []byte("doubt"))
	l.opts.Config.Producer.DeliveryTimeout = delivery
	if !errors.Is(err, remotelog.ErrOutcomeUnknown) {
		t.Fatalf("Append without answers: %v, want ErrOutcomeUnknown", err)
	}
	f.restart(func() {}) // without the control
	if _, err := l.Append(t.Context(), 0, []byte("later")); err != nil {
		t.Fatal(err)
	}
	other := f.client()
	leader := f.c.LeaderFor(Topic, 0)
	resp, err := other.Broker(int(leader)).Request(t.Context(), late)
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != kerr.InvalidProducerEpoch.Code {
		t.Errorf("the late request is answered with %v, want INVALID_PRODUCER_EPOCH", kerr.ErrorForCode(code))
	}
	if got := strings.Join(values(t, l, 0), " "); got != "first later" {
		t.Errorf("the log holds %q, want %q", got, "first later")
	}
}

// Events that together are more than the topic takes are sent one by one; one that alone is too large is a definite failure.
func TestAppend_TooLarge(t *testing.T) {
	f := withTopic(t, 1, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "5000"}))
	l := f.open(Options{})
	release := f.stall()
	var wg sync.WaitGroup
	errs := make([]error, 12)
	w := l.writers[0]
	queued := func() (n int, running bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.queue), w.running
	}
	for i := range errs {
		size := 1000
		if i == 6 {
			size = 6000
		}
		wg.Go(func() { _, errs[i] = l.Append(t.Context(), 0, []byte(strings.Repeat("x", size))) })
		waitFor(t, func() bool { // the first is on its way, the others wait for it
			n, running := queued()
			return running && n == i
		})
	}
	release()
	wg.Wait()
	for i, err := range errs {
		if i == 6 != errors.Is(err, remotelog.ErrInvalidArgument) || i != 6 && err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if got := len(values(t, l, 0)); got != 11 {
		t.Errorf("%d events in the log, want 11", got)
	}
}

// waitFor waits until something that another goroutine does has happened.
func waitFor(t *testing.T, happened func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("it does not happen")
		}
	}
}

// No broker answers: every call ends with its context, and says what it may.
func TestLog_DeadlinesWithoutBrokers(t *testing.T) {
	f := withTopic(t, 2)
	l := f.open(Options{})
	if _, err := l.Append(t.Context(), 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	fol := l.Follow(map[int32]rlmm.Position{0: {Offset: 1, Epoch: -1}, 1: {Epoch: -1}})
	defer func() { _ = fol.Close() }()
	f.c.Close()
	for name, call := range map[string]func(context.Context) error{
		"Append": func(ctx context.Context) error { _, err := l.Append(ctx, 0, []byte("y")); return err },
		"Bounds": func(ctx context.Context) error { _, err := l.Bounds(ctx, []int32{0, 1}); return err },
		"Check": func(ctx context.Context) error {
			_, err := l.Check(ctx, map[int32]rlmm.Position{0: {Offset: 1, Epoch: 0}})
			return err
		},
		"Next": func(ctx context.Context) error { _, err := fol.Next(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		begun := time.Now()
		err := call(ctx)
		cancel()
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("%s took %v with a deadline of 300 ms", name, took)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the context's error", name, err)
		}
	}
}

func TestEncodeBatch_ReadsBack(t *testing.T) {
	var events [][]byte
	for i := range 300 {
		events = append(events, []byte(strings.Repeat("e", i)))
	}
	b := encodeBatch(events, batchHead{producer: 7, epoch: 3, seq: 9, timeMs: 1700000000000})
	h, err := recordbatch.Check(b)
	if err != nil {
		t.Fatal(err)
	}
	if h.ProducerID != 7 || h.ProducerEpoch != 3 || h.BaseSequence != 9 || h.RecordCount != 300 || h.PartitionLeaderEpoch != -1 {
		t.Errorf("header %+v", h)
	}
	d := recordbatch.NewDecoder(recordbatch.Limits{})
	defer d.Close()
	n := 0
	for r, err := range d.Records(b) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Key != nil || string(r.Value) != string(events[n]) || r.TimestampMs != 1700000000000 || len(r.Headers) != 0 {
			t.Fatalf("record %d: %+v", n, r)
		}
		n++
	}
	if n != 300 {
		t.Errorf("%d records, want 300", n)
	}
	// The same bytes as franz-go's own types read.
	var rb kmsg.RecordBatch
	if err := rb.ReadFrom(b); err != nil || rb.NumRecords != 300 || int(rb.Length) != len(b)-12 || binary.BigEndian.Uint32(b[17:]) != uint32(rb.CRC) {
		t.Errorf("kmsg reads %+v, %v", rb, err)
	}
}

func TestWrap(t *testing.T) {
	const most = 1<<31 - 1
	for _, tc := range []struct {
		seq  int32
		n    int
		want int32
	}{{0, 1, 1}, {most - 1, 1, most}, {most, 1, 0}, {most - 2, 5, 2}} {
		if got := wrap(tc.seq, tc.n); got != tc.want {
			t.Errorf("wrap(%d, %d) = %d, want %d", tc.seq, tc.n, got, tc.want)
		}
	}
}

// Close of the log: what waits to be sent is not in the log, what is on its way may be, and both say that the log was closed and
// nothing of a context that is not the caller's. The Appends are looked at without their callers, who may learn of the end in
// two ways.
func TestAppend_EndedByClose(t *testing.T) {
	f := withTopic(t, 1)
	l := f.open(Options{})
	if _, err := l.Append(t.Context(), 0, []byte("before")); err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	var once sync.Once
	f.c.ControlKey(0, func(kmsg.Request) (kmsg.Response, error, bool) {
		f.c.KeepControl()
		once.Do(func() { close(sent) })
		<-l.ctx.Done() // a stalled broker
		return nil, errors.New("no answer"), true
	})
	first := &pending{event: []byte("on its way"), done: make(chan struct{})}
	if !l.writers[0].add(first) {
		t.Fatal("the log is closed")
	}
	<-sent
	second := &pending{event: []byte("waits"), done: make(chan struct{})}
	if !l.writers[0].add(second) {
		t.Fatal("the log is closed")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	<-first.done
	<-second.done
	if !errors.Is(first.err, remotelog.ErrClosed) || !errors.Is(first.err, remotelog.ErrOutcomeUnknown) || errors.Is(first.err, context.Canceled) {
		t.Errorf("an event on its way: %v, want closed and outcome unknown", first.err)
	}
	if !errors.Is(second.err, remotelog.ErrClosed) || errors.Is(second.err, remotelog.ErrOutcomeUnknown) || errors.Is(second.err, context.Canceled) {
		t.Errorf("an event that waits: %v, want closed", second.err)
	}
}
