package plugin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tierkit/tierkit/internal/testbed"
)

// ahead is how far the first record of a partition is in the future; each later one is a second younger. So every record is younger than the
// markers of transactions, which have the broker's own time, and a timestamp stands for one offset.
const ahead = 20 * time.Minute

// history is what was written to a partition.
type history struct {
	c         *tier
	topic     string
	partition int32
	firstMs   int64
	rng       *rand.Rand
	records   []*kgo.Record // in order of their offsets
	aborted   map[int64]bool
}

func (c *tier) history(topic string, partition int32) *history {
	return &history{c: c, topic: topic, partition: partition, firstMs: time.Now().Add(ahead).UnixMilli(), rng: rand.New(rand.NewPCG(uint64(partition), 7)), aborted: map[int64]bool{}}
}

// tieredTopic makes a topic of small segments that leave the broker's disk once they are in the tier.
func (c *tier) tieredTopic(ctx context.Context, name string, partitions int, settings map[string]string) {
	c.t.Helper()
	segment := "segment.bytes"
	if !testbed.Before41(c.Version) {
		segment = "internal.segment.bytes"
	}
	all := map[string]string{segment: "8000", "local.retention.bytes": "1"}
	for k, v := range settings {
		all[k] = v
	}
	_, err := c.TieredTopic(ctx, name, partitions, all)
	must(c.t, "make a topic", err)
}

// batch makes n records.
func (h *history) batch(n int) []*kgo.Record {
	out := make([]*kgo.Record, n)
	for i := range out {
		text := make([]byte, 200+h.rng.IntN(400))
		for j := range text {
			text[j] = byte('a' + h.rng.IntN(26))
		}
		at := len(h.records) + i
		out[i] = &kgo.Record{
			Topic: h.topic, Partition: h.partition, Key: []byte("key-" + strconv.Itoa(at)), Value: text, Timestamp: time.UnixMilli(h.firstMs + int64(at)*1000),
			Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(strconv.Itoa(at))}},
		}
		if at%17 == 0 {
			out[i].Key = nil
		}
	}
	return out
}

func (h *history) add(records []*kgo.Record, aborted bool) {
	for _, r := range records {
		h.aborted[r.Offset] = aborted
	}
	h.records = append(h.records, records...)
}

// write appends batches of every codec, and transactions that end either way.
func (h *history) write(ctx context.Context, rounds int) error {
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, codec := range codecs {
		opts := []kgo.Opt{kgo.SeedBrokers(h.c.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec),
			kgo.UnknownTopicRetries(-1)} // a busy broker hears of a new topic late; the context ends it
		plain, err := kgo.NewClient(opts...)
		if err != nil {
			return err
		}
		txn, err := kgo.NewClient(append(opts, kgo.TransactionalID(fmt.Sprintf("%s-%d-%d", h.topic, h.partition, i)))...)
		if err != nil {
			plain.Close()
			return err
		}
		for round := range rounds {
			if err = errors.Join(h.plain(ctx, plain), h.transaction(ctx, txn, round%2 == 1)); err != nil {
				break
			}
		}
		plain.Close()
		txn.Close()
		if err != nil {
			return fmt.Errorf("codec %d: %w", i, err)
		}
	}
	return nil
}

func (h *history) plain(ctx context.Context, cl *kgo.Client) error {
	records := h.batch(1 + h.rng.IntN(8))
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	h.add(records, false)
	return nil
}

func (h *history) transaction(ctx context.Context, cl *kgo.Client, abort bool) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	records := h.batch(1 + h.rng.IntN(5))
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	h.add(records, abort)
	return cl.EndTransaction(ctx, kgo.TransactionEndTry(!abort))
}

// last is the offset of the last record.
func (h *history) last() int64 { return h.records[len(h.records)-1].Offset }

// check is read, and it asks where the time of some records is.
func (h *history) check(ctx context.Context) error {
	if err := h.read(ctx, 0); err != nil {
		return err
	}
	return h.times(ctx)
}

// read reads the partition through the brokers, from an offset, at both isolation levels, and compares every record.
func (h *history) read(ctx context.Context, from int64) error {
	for _, level := range []kgo.IsolationLevel{kgo.ReadUncommitted(), kgo.ReadCommitted()} {
		var want []*kgo.Record
		for _, r := range h.records {
			if r.Offset >= from && (level == kgo.ReadUncommitted() || !h.aborted[r.Offset]) {
				want = append(want, r)
			}
		}
		if err := h.compare(ctx, from, level, want, thatIsAll); err != nil {
			return err
		}
	}
	return nil
}

func (h *history) times(ctx context.Context) error {
	for i := 0; i < len(h.records); i += 1 + len(h.records)/20 {
		r := h.records[i]
		at, err := h.c.ListOffset(ctx, h.topic, h.partition, r.Timestamp.UnixMilli()-500)
		if err != nil {
			return fmt.Errorf("the offset at the time of record %d: %w", r.Offset, err)
		}
		if at != r.Offset {
			return fmt.Errorf("the offset at the time of record %d: %d", r.Offset, at)
		}
	}
	return nil
}

// ending is what comes behind the records that are wanted.
type ending bool

const (
	thatIsAll   ending = false
	moreFollows ending = true
)

func (h *history) compare(ctx context.Context, from int64, level kgo.IsolationLevel, want []*kgo.Record, end ending) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(h.c.Bootstrap()...), kgo.FetchIsolationLevel(level), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{h.topic: {h.partition: kgo.NewOffset().At(from)}}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return err
	}
	defer cl.Close()
	n := 0
	for n < len(want) {
		fetches := cl.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return fmt.Errorf("%s-%d after %d of %d records: %w", h.topic, h.partition, n, len(want), err)
		}
		for it := fetches.RecordIter(); !it.Done(); n++ {
			got := it.Next()
			if n >= len(want) && end == moreFollows {
				return nil
			}
			if n >= len(want) {
				return fmt.Errorf("record %d is one too many", got.Offset)
			}
			if err := same(got, want[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// begins reads the beginning of the partition and compares it.
func (h *history) begins(ctx context.Context, want []*kgo.Record) error {
	return h.compare(ctx, 0, kgo.ReadUncommitted(), want, moreFollows)
}

func same(got, want *kgo.Record) error {
	g := fmt.Sprintf("%d %q %q %v %d", got.Offset, got.Key, got.Value, got.Headers, got.Timestamp.UnixMilli())
	w := fmt.Sprintf("%d %q %q %v %d", want.Offset, want.Key, want.Value, want.Headers, want.Timestamp.UnixMilli())
	if g != w {
		return fmt.Errorf("got %s\nwant %s", g, w)
	}
	return nil
}

// tieredUp waits until more than half of the records is in the tier and not on the brokers' disks any more.
func (h *history) tieredUp(ctx context.Context) {
	h.c.t.Helper()
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tiered, err := h.c.WaitTiered(within, h.topic, h.partition, h.last()/2)
	must(h.c.t, "tier", err)
	h.c.evicted(ctx, h.topic, h.partition, tiered)
}

// earliest is where the partition begins.
func (h *history) earliest(ctx context.Context) int64 {
	h.c.t.Helper()
	at, err := h.c.ListOffset(ctx, h.topic, h.partition, testbed.Earliest)
	must(h.c.t, "earliest offset", err)
	return at
}
