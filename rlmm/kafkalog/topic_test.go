package kafkalog

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// dynamicConfigs are the settings that somebody gave the topic.
func (f *fake) dynamicConfigs() map[string]string {
	f.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, Topic
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(context.Background(), f.client())
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]string{}
	for _, c := range resp.Resources[0].Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
			out[c.Name] = *c.Value
		}
	}
	return out
}

// Scenario 69, and the topic as broker 4.4.0 makes it: the same settings, by default and with another min ISR.
func TestScenario69_TopicAsMadeByABroker(t *testing.T) {
	var golden struct {
		Configs []struct{ Name, Value, Source string }
	}
	b, err := os.ReadFile("testdata/4.4.0.topic.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, c := range golden.Configs {
		if c.Source == "DYNAMIC_TOPIC_CONFIG" {
			want[c.Name] = c.Value
		}
	}
	if len(want) != 4 {
		t.Fatalf("the golden topic has %d settings of its own, want 4", len(want))
	}
	for _, isr := range []string{"2", "3"} {
		f := newFake(t)
		c := f.config()
		c.Partitions, c.ReplicationFactor = 5, 1
		if isr != "2" {
			c.MinISR = 3
		}
		l := f.open(Options{Config: c, Create: true})
		want["min.insync.replicas"] = isr
		if diff := cmp.Diff(want, f.dynamicConfigs()); diff != "" {
			t.Errorf("min ISR %s: %s", isr, diff)
		}
		if l.Partitions() != 5 {
			t.Errorf("%d partitions, want 5", l.Partitions())
		}
		again := f.open(Options{Config: c, Create: true}) // it is there: nothing is made
		if again.Identity() != l.Identity() {
			t.Errorf("opened again as %s, was %s", again.Identity(), l.Identity())
		}
	}
}

// Scenario 56: a topic is there or it is not.
func TestScenario56_TopicIsThereOrNot(t *testing.T) {
	with, without := withTopic(t, 3), newFake(t)
	if st, err := describe(t.Context(), with.client()); err != nil || len(st.leaders) != 3 {
		t.Errorf("existing topic: %+v, %v", st, err)
	}
	if _, err := describe(t.Context(), without.client()); !errors.Is(err, ErrNoTopic) {
		t.Errorf("missing topic: %v, want ErrNoTopic", err)
	}
}

// Scenario 57: an error of the question is not the answer "missing": nothing is made.
func TestScenario57_ErrorIsNotMissing(t *testing.T) {
	f := newFake(t)
	c := f.config()
	c.Partitions, c.ReplicationFactor, c.ConnectTimeout = 5, 1, 300*time.Millisecond
	for _, code := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.UnknownServerError} {
		h := f.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: Topic, Err: code, Count: -1})
		_, err := Open(t.Context(), Options{Config: c, Create: true})
		for !errors.Is(err, code) && errors.Is(err, context.DeadlineExceeded) && c.ConnectTimeout < 10*time.Second {
			c.ConnectTimeout *= 2 // a busy machine did not get an answer in time
			_, err = Open(t.Context(), Options{Config: c, Create: true})
		}
		if !errors.Is(err, code) || errors.Is(err, ErrNoTopic) {
			t.Errorf("%v, want %v", err, code)
		}
		h.Remove()
		if _, err := describe(t.Context(), f.client()); !errors.Is(err, ErrNoTopic) {
			t.Errorf("after %v the topic is there: %v", code, err)
		}
	}
}

// Scenario 58: opened and closed without any partition.
func TestScenario58_StartAndClose(t *testing.T) {
	f := withTopic(t, 1)
	l, err := Open(t.Context(), Options{Config: f.config()})
	if err != nil {
		t.Fatal(err)
	}
	m, err := rlmm.New(l, rlmm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Close(t.Context()), l.Close()); err != nil {
		t.Error(err)
	}
}

// Scenario 68: without addresses Open is an error, where a broker ends.
func TestScenario68_NoBootstrapServers(t *testing.T) {
	if _, err := Open(t.Context(), Options{}); !errors.Is(err, remotelog.ErrInvalidArgument) {
		t.Errorf("%v, want ErrInvalidArgument", err)
	}
}

func TestOpen_Refusals(t *testing.T) {
	t.Run("no topic and none to be made", func(t *testing.T) {
		f := newFake(t)
		_, err := Open(t.Context(), Options{Config: f.config()})
		if !errors.Is(err, ErrNoTopic) || !strings.Contains(err.Error(), keyPartitions) {
			t.Errorf("%v, want ErrNoTopic with a way out", err)
		}
		if st, err := describe(t.Context(), f.client()); !errors.Is(err, ErrNoTopic) {
			t.Errorf("the topic is there afterwards: %+v, %v", st, err)
		}
	})
	t.Run("to be made without numbers", func(t *testing.T) {
		f := newFake(t)
		for _, n := range [][2]int{{0, 0}, {5, 0}, {0, 1}} {
			c := f.config()
			c.Partitions, c.ReplicationFactor = int32(n[0]), int16(n[1])
			if _, err := Open(t.Context(), Options{Config: c, Create: true}); !errors.Is(err, remotelog.ErrInvalidArgument) {
				t.Errorf("%v: %v, want ErrInvalidArgument", n, err)
			}
		}
	})
	t.Run("another number of partitions", func(t *testing.T) {
		f := withTopic(t, 3)
		c := f.config()
		c.Partitions = 50
		_, err := Open(t.Context(), Options{Config: c})
		if !errors.Is(err, ErrPartitions) || !strings.Contains(err.Error(), "3") || !strings.Contains(err.Error(), "50") {
			t.Errorf("%v, want ErrPartitions with both numbers", err)
		}
	})
	t.Run("not allowed", func(t *testing.T) {
		f := withTopic(t, 1)
		defer f.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: Topic, Err: kerr.TopicAuthorizationFailed, Count: -1}).Remove()
		if _, err := Open(t.Context(), Options{Config: f.config()}); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("%v, want %v", err, kerr.TopicAuthorizationFailed)
		}
	})
	t.Run("creation refused", func(t *testing.T) {
		f := newFake(t)
		c := f.config()
		c.Partitions, c.ReplicationFactor = 5, 1
		defer f.c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAuthorizationFailed, Count: -1}).Remove()
		if _, err := Open(t.Context(), Options{Config: c, Create: true}); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("%v, want %v", err, kerr.TopicAuthorizationFailed)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		f := newFake(t)
		c := f.config()
		c.ConnectTimeout = 200 * time.Millisecond
		f.c.Close()
		_, err := Open(t.Context(), Options{Config: c})
		if err == nil || !strings.Contains(err.Error(), f.addrs[0]) {
			t.Errorf("%v, want the address", err)
		}
	})
}

// Brokers that do not know of the topic at first, and that are not there at first.
func TestOpen_TriesAgain(t *testing.T) {
	f := newFake(t)
	c := f.config()
	c.Partitions, c.ReplicationFactor = 2, 1
	h := f.c.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.NotController, Count: 1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: Topic, Err: kerr.UnknownTopicOrPartition, Count: 3},
	)
	if l := f.open(Options{Config: c, Create: true}); l.Partitions() != 2 {
		t.Errorf("%d partitions, want 2", l.Partitions())
	}
	if h.Hits() < 4 {
		t.Errorf("%d faults were met, want 4", h.Hits())
	}
}

// lines keeps what is logged.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// A topic that grew is a warning, once, and the old number goes on to hold.
func TestLog_GrownTopic(t *testing.T) {
	f := withTopic(t, 2)
	var said lines
	l := f.open(Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = Topic, 7
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 5000
	if _, err := req.RequestWith(t.Context(), f.client()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := l.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := said.count("another number of partitions"); got != 1 || l.Grown() != 7 || l.Partitions() != 2 {
		t.Errorf("%d warnings, grown %d, partitions %d; want 1, 7, 2", got, l.Grown(), l.Partitions())
	}
	if d, err := l.Describe(t.Context()); err != nil || d.Grown != 7 || len(d.Leaders) != 2 {
		t.Errorf("described as %+v, %v; want grown 7 and the leaders of 2", d, err)
	}
	if _, err := l.Append(t.Context(), 1, []byte("x")); err != nil {
		t.Error(err)
	}
}

// The last try is cut off by the end of the time for all: what is told is why those before it failed.
func TestOpen_SaysWhyTheTriesFailedThatHadTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		f := &fake{t: t, addrs: []string{"127.0.0.1:1"}}
		_, err := Open(t.Context(), Options{Config: f.config(), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if tries.Add(1) > 3 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}})
		if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "tried for 10s") || tries.Load() < 4 {
			t.Errorf("after %d tries: %v, want that connections are refused", tries.Load(), err)
		}
	})
}

// Nobody reads or writes: the topic is looked at every 30 seconds all the same.
func TestLog_WatchesTheTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		f := &fake{t: t}
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ListenFn(network.Listen), kfake.SeedTopics(1, Topic))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f.c, f.addrs = c, c.ListenAddrs()
		l, err := Open(t.Context(), Options{Config: f.config(), Dial: network.DialContext})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		asked := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: Topic, Count: -1, Observe: true})
		begun := time.Now()
		if err := asked.Wait(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 60*time.Second || took > 100*time.Second {
			t.Errorf("three looks after %v, want about 90 s", took)
		}
		if l.Err() != nil {
			t.Errorf("Err() = %v", l.Err())
		}
	})
}
