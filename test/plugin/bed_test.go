package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(filepath.Join(os.TempDir(), built))
		testbed.Exit(code)
	}))
}

// onVersions runs a test for each of the versions of Kafka, several at a time: mostly they wait.
func onVersions(t *testing.T, versions []string, test func(t *testing.T, version string)) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// built is the directory of the program that all of these tests start, each by a name of its own.
var built = fmt.Sprintf("tierkit-test-plugin-%d", os.Getpid())

// build returns the program as it is now.
var build = sync.OnceValues(func() (string, error) {
	program := filepath.Join(os.TempDir(), built, "tierkit")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", program, "../../cmd/tierkit").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build tierkit: %w\n%s", err, out)
	}
	return program, nil
})

func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// patience is how long a test waits for one thing, on a machine that does much else.
const patience = 4 * time.Minute

// until asks again until the answer is nil, and ends the test with the last one if that takes too long.
func until(ctx context.Context, t *testing.T, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	testbed.Until(ctx, t, what, 200*time.Millisecond, ask)
}

// tier is brokers that tier through the plug-in to a bucket of MinIO.
type tier struct {
	*testbed.KafkaCluster
	t      *testing.T
	s3     *testbed.S3
	bucket string
	dir    string // program and state of the daemons
}

// start starts brokers. o has further settings; those of the daemon have the prefix "rsm.config.", and one that is "" is left to its default.
func start(t *testing.T, o testbed.KafkaOptions) *tier {
	t.Helper()
	need.Long(t)
	srv := testbed.MinIO(t)
	c := &tier{t: t, s3: srv, bucket: srv.Bucket(t), dir: t.TempDir()}
	need.Command(t, "go", "it comes with Go")
	program, err := build()
	must(t, "build", err)
	must(t, "give it a name", os.Link(program, c.program()))
	t.Cleanup(c.ended)
	o.RSM, o.RSMClassPath = "io.github.tierkit.kafka.RemoteStorageManager", testbed.PluginJar(t)
	all := map[string]string{
		"rsm.config.tierkit.serve.command": strconv.Quote(c.program()),
		"rsm.config.tierkit.state.dir":     c.state(),
		"rsm.config.storage.backend":       "s3", "rsm.config.storage.s3.bucket.name": c.bucket,
		"rsm.config.storage.s3.endpoint.url":       srv.Endpoint,
		"rsm.config.storage.aws.access.key.id":     srv.AccessKey,
		"rsm.config.storage.aws.secret.access.key": srv.SecretKey,
		"rsm.config.compression.enabled":           "true", "rsm.config.chunk.size": "65536",
		"rsm.config.memory.budget.bytes": "67108864",
		// Who leads is up to the test: a busy machine that keeps a broker or controller from saying that it lives must not change it. Copies are cut off
		// then and made twice, and the epochs are others. A broker that was killed is not taken back earlier: tests that kill leave this to the test bed.
		"broker.session.timeout.ms": "30000", "controller.quorum.fetch.timeout.ms": "30000", "auto.leader.rebalance.enable": "false",
	}
	maps.Copy(all, o.Properties)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	o.Properties = all
	c.KafkaCluster = testbed.Kafka(t, o)
	t.Cleanup(func() {
		if t.Failed() {
			c.explain()
		}
	})
	return c
}

// ended waits until no daemon is left, after the brokers were killed. One that still ends makes its directory anew when that is removed.
func (c *tier) ended() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), 2*time.Minute)
	defer cancel()
	testbed.Until(ctx, c.t, "the daemons end with their brokers", 20*time.Millisecond, c.noDaemon)
}

// explain shows what brokers and daemons said.
func (c *tier) explain() {
	for _, b := range c.Brokers {
		c.t.Logf("the end of what broker %d said:\n%s", b.ID, b.Log())
	}
	logs, _ := filepath.Glob(filepath.Join(c.state(), "*.log"))
	for _, log := range logs {
		text, _ := os.ReadFile(log)
		c.t.Logf("the end of %s:\n%s", filepath.Base(log), text[max(0, len(text)-4000):])
	}
}

func (c *tier) program() string { return filepath.Join(c.dir, "tierkit") }
func (c *tier) state() string   { return filepath.Join(c.dir, "state") }

// daemons is the process ids of the daemons of these brokers.
func (c *tier) daemons() []int { return c.pidsOf(c.program()) }

func (c *tier) noDaemon() error {
	if left := c.daemons(); len(left) > 0 {
		return fmt.Errorf("daemons %v run", left)
	}
	return nil
}

// stop stops the brokers. The plug-in waits for its daemon, for 10 s (Supervisor.Timing.stopMs): only after a stop that took longer may one be left that ends
// by itself.
func (c *tier) stop(ctx context.Context) {
	c.t.Helper()
	const waits = 9 * time.Second // a signal may have come before
	began := time.Now()
	must(c.t, "stop", c.Stop())
	if err := c.noDaemon(); err != nil && time.Since(began) < waits {
		c.t.Errorf("after the broker has stopped: %v", err)
	}
	until(ctx, c.t, "the daemon ends with its broker", c.noDaemon)
}

func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// pidsOf is the processes that run a program.
func (c *tier) pidsOf(program string) []int {
	var out []int
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range exes {
		target, err := os.Readlink(exe)
		if err != nil || strings.TrimSuffix(target, " (deleted)") != program {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(exe))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// killDaemons ends them as kill -9 does.
func (c *tier) killDaemons() int {
	c.t.Helper()
	pids := c.daemons()
	for _, pid := range pids {
		must(c.t, "kill a daemon", kill(pid))
	}
	return len(pids)
}

// objects is the keys in the bucket, without those that tierkit writes for itself.
func (c *tier) objects() []string {
	c.t.Helper()
	return slices.DeleteFunc(c.s3.Objects(c.t, c.bucket), func(key string) bool { return strings.HasPrefix(key, ".tierkit/") })
}

// onlyFinished says what is in the bucket that is no part of a finished segment: each has three objects.
func (c *tier) onlyFinished() error {
	byStem := map[string][]string{}
	for _, key := range c.objects() {
		dot := strings.LastIndexByte(key, '.')
		byStem[key[:dot]] = append(byStem[key[:dot]], key[dot+1:])
	}
	var errs []error
	for stem, suffixes := range byStem {
		slices.Sort(suffixes)
		if want := []string{"indexes", "log", "rsm-manifest"}; !slices.Equal(suffixes, want) {
			errs = append(errs, fmt.Errorf("%s has %v, want %v", stem, suffixes, want))
		}
	}
	return errors.Join(errs...)
}

// asked sends a request that may be sent twice, and again after an answer that may be another one soon.
func (c *tier) asked(ctx context.Context, what string, ask func() error) {
	c.t.Helper()
	must(c.t, what, testbed.Again(ctx, ask))
}

// deleteTopic asks the controller to delete a topic.
func (c *tier) deleteTopic(ctx context.Context, name string) {
	c.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 30_000
	req.TopicNames = []string{name}
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, c.Client())
	must(c.t, "delete topic", err)
	must(c.t, "delete topic", kerr.ErrorForCode(resp.Topics[0].ErrorCode))
}

// reassign moves partition 0 of a topic to brokers and waits until they are in sync and one of them leads.
func (c *tier) reassign(ctx context.Context, topic string, brokers ...int32) {
	c.t.Helper()
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	rt := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	rp.Replicas = brokers
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	c.asked(ctx, "reassign", func() error {
		resp, err := req.RequestWith(ctx, c.Client())
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		return err
	})
	until(ctx, c.t, "reassignment", func() error {
		for _, b := range c.Brokers {
			if err := c.assigned(ctx, b, topic, brokers); err != nil {
				return fmt.Errorf("broker %d: %w", b.ID, err) // a former leader that does not know may begin a copy
			}
		}
		return nil
	})
}

// assigned is an error while a broker knows other replicas of a topic's one partition.
func (c *tier) assigned(ctx context.Context, b *testbed.Broker, topic string, brokers []int32) error {
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr(topic)
	meta.Topics = append(meta.Topics, mt)
	resp, err := meta.RequestWith(ctx, c.Client().Broker(int(b.ID)))
	if err != nil {
		return err
	}
	if len(resp.Topics[0].Partitions) == 0 {
		return fmt.Errorf("it knows no partition of %s: %v", topic, kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	}
	got := resp.Topics[0].Partitions[0]
	if !slices.Equal(got.Replicas, brokers) || len(got.ISR) != len(brokers) || !slices.Contains(brokers, got.Leader) {
		return fmt.Errorf("leader %d, replicas %v, in sync %v, want %v", got.Leader, got.Replicas, got.ISR, brokers)
	}
	return nil
}

// configureTopic sets settings of a topic at once: each a name and a value.
func (c *tier) configureTopic(ctx context.Context, topic string, settings ...string) {
	c.t.Helper()
	must(c.t, fmt.Sprintf("configure %s as %v", topic, settings), c.ConfigureTopic(ctx, topic, settings...))
}

// evicted waits until a partition is in the tier up to an offset, and no longer on the broker's disk.
func (c *tier) evicted(ctx context.Context, topic string, partition int32, offset int64) {
	c.t.Helper()
	_, err := c.WaitTiered(ctx, topic, partition, offset)
	must(c.t, "tier", err)
	until(ctx, c.t, "the broker drops its local files", func() error {
		at, err := c.ListOffset(ctx, topic, partition, testbed.EarliestLocal)
		if err == nil && at <= offset {
			err = fmt.Errorf("%s-%d is on the disk from %d, want more than %d", topic, partition, at, offset)
		}
		return err
	})
}
