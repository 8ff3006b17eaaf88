package kafkalog

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a kfake cluster that can be restarted, with its data changed while it is down.
type fake struct {
	t     testing.TB
	c     *kfake.Cluster
	addrs []string
	ports []int
	dir   string
	opts  []kfake.Opt
}

// newFake starts two brokers.
func newFake(t testing.TB, opts ...kfake.Opt) *fake {
	t.Helper()
	f := &fake{t: t, dir: t.TempDir()}
	f.opts = append([]kfake.Opt{kfake.DataDir(f.dir), kfake.ClusterID("fake-" + strings.ReplaceAll(f.dir, "/", "-"))}, opts...)
	f.ports = testbed.Ports(t, 2)
	f.start()
	t.Cleanup(func() { f.c.Close() })
	return f
}

// withTopic has the metadata topic, too.
func withTopic(t testing.TB, partitions int32, opts ...kfake.Opt) *fake {
	t.Helper()
	return newFake(t, append([]kfake.Opt{kfake.SeedTopics(partitions, Topic)}, opts...)...)
}

func (f *fake) start() {
	f.t.Helper()
	c, err := kfake.NewCluster(append(slices.Clone(f.opts), kfake.Ports(f.ports...))...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.c, f.addrs = c, c.ListenAddrs()
}

// restart stops all brokers, runs change while they are down, and starts them at the same addresses.
func (f *fake) restart(change func()) {
	f.t.Helper()
	f.c.Close()
	change()
	f.start()
}

// config is for connections without security.
func (f *fake) config() Config {
	cl := Client{Bootstrap: f.addrs, ID: "test", RequestTimeout: 5 * time.Second}
	return Config{Producer: cl, Consumer: cl, Admin: cl, ConnectTimeout: 10 * time.Second, RetryEvery: 20 * time.Millisecond}
}

func (f *fake) open(o Options) *Log {
	f.t.Helper()
	if len(o.Config.Admin.Bootstrap) == 0 {
		o.Config = f.config()
	}
	l, err := Open(context.Background(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = l.Close() })
	return l
}

// client is a client of franz-go's own, with its producer.
func (f *fake) client(opts ...kgo.Opt) *kgo.Client {
	f.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(f.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(20 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(cl.Close)
	return cl
}

// put produces a record with another client.
func (f *fake) put(p int32, key, value []byte) {
	f.t.Helper()
	r := &kgo.Record{Topic: Topic, Partition: p, Key: key, Value: value}
	if err := f.client().ProduceSync(context.Background(), r).FirstErr(); err != nil {
		f.t.Fatal(err)
	}
}

// trim deletes records as retention does.
func (f *fake) trim(p int32, first int64) {
	f.t.Helper()
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = p, first
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic, rt.Partitions = Topic, append(rt.Partitions, rp)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, rt), 5000
	resp, err := req.RequestWith(context.Background(), f.client())
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		f.t.Fatalf("DeleteRecords: %v, %+v", err, resp)
	}
}

// batches changes the record batches of a partition while the brokers are down.
func (f *fake) batches(p int32, change func(bs [][]byte) [][]byte) {
	f.t.Helper()
	f.restart(func() {
		dir := filepath.Join(f.dir, "partitions", fmt.Sprintf("%s-%d", Topic, p))
		raw, err := os.ReadFile(filepath.Join(dir, "0.dat"))
		if err != nil {
			f.t.Fatal(err)
		}
		var bs [][]byte
		for len(raw) > 0 {
			h, err := recordbatch.ParseHeader(raw)
			if err != nil {
				f.t.Fatal(err)
			}
			bs, raw = append(bs, raw[:h.Size()]), raw[h.Size():]
		}
		var dat, idx []byte
		for _, b := range change(bs) {
			dat = append(dat, b...)
			idx = append(idx, indexEntry(binary.BigEndian.Uint32(b[12:]))...)
		}
		for name, b := range map[string][]byte{"0.dat": dat, "0.idx": idx} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				f.t.Fatal(err)
			}
		}
		if err := os.Remove(filepath.Join(dir, "snapshot.json")); err != nil {
			f.t.Fatal(err)
		}
	})
}

// indexEntry is what kfake keeps beside a batch (persist.go, encodeIndexEntry).
func indexEntry(epoch uint32) []byte {
	b := make([]byte, 15)
	b[0] = 1
	binary.LittleEndian.PutUint32(b[2:], epoch)
	b[1] = byte(crc32.Checksum(b[2:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// batchAt makes a batch as a broker stores it.
func batchAt(base int64, epoch uint32, values ...[]byte) []byte {
	b := encodeBatch(values, batchHead{producer: -1, epoch: -1, seq: -1, timeMs: 1})
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[12:], epoch)
	return b
}

// hole makes a batch that takes n offsets and has no records, as compaction leaves one.
func hole(base int64, epoch uint32, n int64) []byte {
	b := batchAt(base, epoch, []byte("x"))[:recordbatch.HeaderSize]
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[23:], uint32(n-1))
	binary.BigEndian.PutUint32(b[57:], 0)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func epochOf(b []byte) uint32 { return binary.BigEndian.Uint32(b[12:]) }

func endOf(t testing.TB, bs [][]byte) (int64, uint32) {
	if len(bs) == 0 {
		return 0, 0
	}
	last := bs[len(bs)-1]
	h, err := recordbatch.ParseHeader(last)
	if err != nil {
		t.Fatal(err)
	}
	return h.LastOffset() + 1, epochOf(last)
}

// rig is a Log under the contract's table, with its cluster.
type rig struct {
	*Log
	f *fake
}

// TestLog_Contract runs the table of rlmm.Log against two fake brokers.
func TestLog_Contract(t *testing.T) {
	logtest.Run(t, logtest.Harness{
		Open: func(t testing.TB) rlmm.Log {
			f := withTopic(t, 2)
			return &rig{f.open(Options{}), f}
		},
		Reopen: func(t testing.TB, l rlmm.Log) rlmm.Log {
			r := l.(*rig)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			r.f.restart(func() {})
			return &rig{r.f.open(Options{}), r.f}
		},
		TrimHead: func(_ testing.TB, l rlmm.Log, p int32, first int64) rlmm.Log {
			l.(*rig).f.trim(p, first)
			return l
		},
		Regrow: func(t testing.TB, l rlmm.Log, p int32, end int64, events ...string) rlmm.Log {
			l.(*rig).f.batches(p, func(bs [][]byte) [][]byte {
				for at, _ := endOf(t, bs); at > end; at, _ = endOf(t, bs) {
					bs = bs[:len(bs)-1]
				}
				_, epoch := endOf(t, bs)
				for i, e := range events {
					bs = append(bs, batchAt(end+int64(i), epoch+1, []byte(e)))
				}
				return bs
			})
			return l
		},
		Skip: func(t testing.TB, l rlmm.Log, p int32, n int64) rlmm.Log {
			l.(*rig).f.batches(p, func(bs [][]byte) [][]byte {
				at, epoch := endOf(t, bs)
				return append(bs, hole(at, epoch, n))
			})
			return l
		},
		Foreign: func(_ testing.TB, l rlmm.Log, p int32, key, value []byte) rlmm.Log {
			l.(*rig).f.put(p, key, value)
			return l
		},
		Stall: func(_ testing.TB, l rlmm.Log, _ int32) func() { return l.(*rig).f.stall() },
	})
}

// stall holds produce requests up until release.
func (f *fake) stall() (release func()) {
	gate := make(chan struct{})
	f.c.ControlKey(0, func(kmsg.Request) (kmsg.Response, error, bool) {
		f.c.KeepControl()
		f.c.SleepControl(func() { <-gate })
		return nil, nil, false
	})
	return sync.OnceFunc(func() { close(gate) })
}
