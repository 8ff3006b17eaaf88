package plugin

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	mrand "math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tierkit/tierkit/internal/testbed"
)

// bulkBytes is about the size of a record of bulk data in a log.
const bulkBytes = 1024

// bulkTexts are JSON events; the n-th record of a partition is a head of its own and one of them, so that it need not be remembered.
var bulkTexts = sync.OnceValue(func() [][]byte {
	rng := mrand.New(mrand.NewPCG(7, 7))
	texts := make([][]byte, 1009)
	for i := range texts {
		var b bytes.Buffer
		for b.Len() < bulkBytes-40 {
			fmt.Fprintf(&b, `{"user":"u%07d","event":"%s","page":"/shop/category-%d/item-%d","amount":%d.%02d,"session":"%016x"},`,
				rng.IntN(1e7), []string{"click", "view", "order", "return"}[rng.IntN(4)], rng.IntN(40), rng.IntN(9000), rng.IntN(500), rng.IntN(100), rng.Uint64())
		}
		texts[i] = b.Bytes()[:bulkBytes-40]
	}
	return texts
})

func appendBulk(dst []byte, partition int32, offset int64) []byte {
	texts := bulkTexts()
	dst = fmt.Appendf(dst, `{"partition":%d,"n":%d}`, partition, offset)
	return append(dst, texts[(offset*31+int64(partition))%int64(len(texts))]...)
}

// encrypted is the settings of zstd and AES with a fresh pair of keys.
func encrypted(t *testing.T) map[string]string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, "make a key", err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, "private key", err)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	must(t, "public key", err)
	dir := t.TempDir()
	privateFile, publicFile := filepath.Join(dir, "private.pem"), filepath.Join(dir, "public.pem")
	must(t, "write keys", errors.Join(
		os.WriteFile(privateFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
		os.WriteFile(publicFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600)))
	return map[string]string{
		"rsm.config.compression.enabled": "true", "rsm.config.encryption.enabled": "true",
		"rsm.config.encryption.key.pair.id": "k1", "rsm.config.encryption.key.pairs": "k1",
		"rsm.config.encryption.key.pairs.k1.public.key.file":  publicFile,
		"rsm.config.encryption.key.pairs.k1.private.key.file": privateFile,
	}
}

// defaults is those settings of the test bed that stand for the daemon's own, and an address for its metrics.
func defaults(more ...map[string]string) map[string]string {
	all := map[string]string{"rsm.config.chunk.size": "", "rsm.config.memory.budget.bytes": "", "rsm.config.tierkit.metrics.listen": "127.0.0.1:0"}
	for _, m := range more {
		maps.Copy(all, m)
	}
	return all
}

// bulkTopic makes a topic of segments of a size, whose other settings are Kafka's.
func bulkTopic(ctx context.Context, t *testing.T, c *testbed.KafkaCluster, name string, partitions, segment int, settings map[string]string) {
	t.Helper()
	all := map[string]string{"internal.segment.bytes": "", "segment.bytes": strconv.Itoa(segment), "segment.index.bytes": "", "index.interval.bytes": ""}
	maps.Copy(all, settings)
	_, err := c.TieredTopic(ctx, name, partitions, all)
	must(t, "make a topic", err)
}

// produceBulk appends records to each partition of a topic, whose next offset is from.
func produceBulk(ctx context.Context, c *testbed.KafkaCluster, topic string, partitions int, from, to int64) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.UnknownTopicRetries(-1)) // a busy broker hears of a new topic late; the context ends it
	if err != nil {
		return err
	}
	defer cl.Close()
	var mu sync.Mutex
	var failed error
	for n := from; n < to; n++ {
		for p := range int32(partitions) {
			cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: appendBulk(nil, p, n)}, func(r *kgo.Record, err error) {
				if err == nil && r.Offset != n {
					err = fmt.Errorf("record %d of %s-%d got offset %d", n, topic, p, r.Offset)
				}
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			})
		}
	}
	err = cl.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(err, failed)
}

// fetchTimes is how long a consumer's fetches took.
type fetchTimes struct {
	mu    sync.Mutex
	times []time.Duration
}

var _ kgo.HookBrokerE2E = (*fetchTimes)(nil)

// OnBrokerE2E is called for each request.
func (f *fetchTimes) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e2e kgo.BrokerE2E) {
	if key != int16(kmsg.Fetch) || e2e.Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.times = append(f.times, e2e.DurationE2E())
}

// at is a quantile.
func (f *fetchTimes) at(q float64) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(f.times))
	return sorted[int(q*float64(len(sorted)-1))]
}

// reading is how a partition was read.
type reading struct {
	bytes   int64
	took    time.Duration
	refused int // fetches that the broker could not answer; they were made again
	fetches fetchTimes
}

// speed is MB/s.
func (r *reading) speed() float64 { return float64(r.bytes) / 1e6 / r.took.Seconds() }

// consumeBulk reads a partition from its beginning up to an offset, and compares every record. It does as Java's consumer: its fetches ask for 1 MiB and wait
// 500 ms, and after UNKNOWN_SERVER_ERROR, which brokers answer when a read of the tier fails, it asks again (FetchCollector of Kafka 4.4).
func consumeBulk(ctx context.Context, c *testbed.KafkaCluster, topic string, partition int32, to int64) (*reading, error) {
	r := &reading{}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.FetchMaxWait(500*time.Millisecond), kgo.FetchMaxPartitionBytes(1<<20), kgo.WithHooks(&r.fetches),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	began := time.Now()
	var want []byte
	next := int64(0)
	for next < to {
		fetches := cl.PollFetches(ctx)
		err := ctx.Err()
		for _, failed := range fetches.Errors() {
			if !errors.Is(failed.Err, kerr.UnknownServerError) {
				err = errors.Join(err, failed.Err)
			}
			r.refused++
		}
		if err != nil {
			return nil, fmt.Errorf("%s-%d at %d of %d after %v and %d refusals: %w", topic, partition, next, to, time.Since(began), r.refused, err)
		}
		for it := fetches.RecordIter(); !it.Done(); next++ {
			rec := it.Next()
			want = appendBulk(want[:0], partition, next)
			if rec.Offset != next || !bytes.Equal(rec.Value, want) {
				return nil, fmt.Errorf("%s-%d: record %d is %q, want record %d: %q", topic, partition, rec.Offset, rec.Value, next, want)
			}
			r.bytes += int64(len(rec.Value))
		}
	}
	r.took = time.Since(began)
	return r, nil
}

// rolled is where the active segment of a partition begins, and the bytes of the segments before it that are on the disk.
func rolled(t *testing.T, c *testbed.KafkaCluster, topic string, partition int32) (active, size int64) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(c.Brokers[0].DataDir(), fmt.Sprintf("%s-%d", topic, partition), "*.log"))
	must(t, "look for segments", err)
	if len(logs) == 0 {
		t.Fatalf("%s-%d has no segments", topic, partition)
	}
	slices.Sort(logs)
	last := len(logs) - 1
	for _, log := range logs[:last] {
		if info, err := os.Stat(log); err == nil { // else it is in the tier and has left
			size += info.Size()
		}
	}
	active, err = strconv.ParseInt(strings.TrimSuffix(filepath.Base(logs[last]), ".log"), 10, 64)
	must(t, "the name of a segment", err)
	return active, size
}

// tieredAll waits until all of every partition but its active segment is in the tier, and returns where the active segments begin.
func tieredAll(ctx context.Context, t *testing.T, c *testbed.KafkaCluster, topic string, partitions int) []int64 {
	t.Helper()
	var all []int64
	for p := range int32(partitions) {
		active, _ := rolled(t, c, topic, p)
		_, err := c.WaitTiered(ctx, topic, p, active-1)
		must(t, "tier", err)
		all = append(all, active)
	}
	return all
}

// evictedAll waits until a partition is on the broker's disk from an offset on only.
func evictedAll(ctx context.Context, t *testing.T, c *testbed.KafkaCluster, topic string, partition int32, offset int64) {
	t.Helper()
	until(ctx, t, "the broker drops its local files", func() error {
		at, err := c.ListOffset(ctx, topic, partition, testbed.EarliestLocal)
		if err == nil && at < offset {
			err = fmt.Errorf("%s-%d is on the disk from %d, want %d", topic, partition, at, offset)
		}
		return err
	})
}

var metricsAddress = regexp.MustCompile(`metrics are ready.*?(127\.0\.0\.1:\d+)\D`)

// metric is the sum of the series of the daemon's that have a name and some labels, written as Prometheus does.
func (c *tier) metric(ctx context.Context, name string, labels ...string) float64 {
	c.t.Helper()
	sum, err := c.readMetric(ctx, name, labels...)
	must(c.t, "metric", err)
	return sum
}

// readMetric is metric, and an error while there is no daemon.
func (c *tier) readMetric(ctx context.Context, name string, labels ...string) (float64, error) {
	text, err := c.metrics(ctx)
	if err != nil {
		return 0, err
	}
	sum, found := 0.0, false
lines:
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		of, has, _ := strings.Cut(series, "{")
		if of != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(has, l) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("the daemon has no series %s %v", name, labels)
	}
	return sum, nil
}

// metrics is what the daemon tells Prometheus.
func (c *tier) metrics(ctx context.Context) ([]byte, error) {
	log, err := os.ReadFile(filepath.Join(c.state(), "broker-1.log"))
	if err != nil {
		return nil, err
	}
	all := metricsAddress.FindAllSubmatch(log, -1)
	if all == nil {
		return nil, errors.New("the daemon does not say where its metrics are; see defaults")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+string(all[len(all)-1][1])+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// fetchRaw asks a broker for a partition once, as a consumer does that never waits after an error, and returns the error it got.
func fetchRaw(ctx context.Context, cl *kgo.Client, broker int, topic string, id [16]byte, offset int64) error {
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID, ft.Partitions = topic, id, append(ft.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 500, 1, 50<<20, -1
	req.Topics = append(req.Topics, ft)
	answer, err := cl.Broker(broker).RetriableRequest(ctx, req)
	if err != nil {
		return err
	}
	resp, ok := answer.(*kmsg.FetchResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errors.Join(errNoAnswer, kerr.ErrorForCode(resp.ErrorCode))
	}
	got := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return err
	}
	if len(got.RecordBatches) > 0 {
		return errRecords
	}
	return nil
}

var (
	errNoAnswer = errors.New("the answer is about other partitions than were asked for")
	errRecords  = errors.New("records came")
)
