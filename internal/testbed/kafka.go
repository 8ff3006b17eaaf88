package testbed

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
)

// A broker that a busy machine keeps from its heartbeats for so long loses its partitions, which then have no leader or another one. One that was killed
// cannot begin again earlier.
const brokerSession = 6 * time.Second

// A broker has brokerWithin from its start to its metadata manager's being ready, and brokerStops to end by itself, on a machine that does
// much else.
const (
	brokerWithin = 5 * time.Minute
	brokerStops  = 90 * time.Second
	aloneStops   = 20 * time.Second // of that, once no controller is left that could let it go
)

// KafkaOptions say what to start. The zero value is one broker of the newest version.
type KafkaOptions struct {
	// Version is one of KafkaVersions; "" means KafkaNewest.
	Version string
	// Brokers is how many there are, each a controller too; 0 means 1. Topics of Kafka's own have as many replicas.
	Brokers int
	// MetadataPartitions is the number of partitions of the metadata topic, which the brokers make; 0 means 1, so that everything meets
	// there.
	MetadataPartitions int
	// LogDirs is how many log directories each broker has; 0 means 1.
	LogDirs int
	// RSM is the Java class of the remote storage manager, and RSMClassPath where it is, as Kafka's setting has it; "" means
	// LocalTieredStorage of Kafka's tests, in KafkaCluster.Store. Its settings are Properties with the prefix "rsm.config.".
	RSM, RSMClassPath string
	// Properties are further settings of each broker, which win over those of the test bed.
	Properties map[string]string
	// Heap is the most that the JVM of a broker takes; "" means 512m for one broker and 384m for several.
	Heap string
}

func (o KafkaOptions) withDefaults() KafkaOptions {
	if o.Version == "" {
		o.Version = KafkaNewest
	}
	o.Brokers = max(o.Brokers, 1)
	o.MetadataPartitions = max(o.MetadataPartitions, 1)
	o.LogDirs = max(o.LogDirs, 1)
	if o.Heap == "" {
		o.Heap = "512m"
		if o.Brokers > 1 {
			o.Heap = "384m"
		}
	}
	return o
}

// KafkaCluster is one or several Kafka brokers with tiered storage and Kafka's own metadata manager. They end with the test.
type KafkaCluster struct {
	Version string
	Brokers []*Broker
	// Store is the directory of LocalTieredStorage, which the brokers share.
	Store string

	t      testing.TB
	o      KafkaOptions
	java   string
	jars   string // class path
	voters string
	client kafkaClient
}

// Broker is a broker and controller in one process.
type Broker struct {
	ID      int32
	Address string // host:port

	c          *KafkaCluster
	controller string // host:port
	dir        string // data and configuration: they outlive a restart
	proc       *process
	before     []*process // its earlier lives
}

// Kafka starts brokers and waits until they are ready. With -short the test is skipped: it would take a minute and more.
func Kafka(t testing.TB, o KafkaOptions) *KafkaCluster {
	t.Helper()
	need.Long(t)
	o = o.withDefaults()
	c := &KafkaCluster{Version: o.Version, t: t, o: o, java: need.Command(t, "java", "install a JDK, 17 or newer"), jars: kafkaJars(t, o.Version)}
	for try := 1; ; try++ {
		err := c.format(t.TempDir())
		if err == nil {
			err = c.Start()
		}
		if err == nil {
			return c
		}
		c.Kill()
		if try == maxStarts { // another process may have taken one of the ports
			t.Fatalf("start Kafka %s: %v", o.Version, err)
		}
	}
}

// Properties of a broker. Times are short so that tests are. The controllers are given as voters, which all versions format alike.
const (
	brokerProperties = `process.roles=broker,controller
node.id=%[1]d
listeners=PLAINTEXT://%[2]s,CONTROLLER://%[3]s
advertised.listeners=PLAINTEXT://%[2]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.quorum.voters=%[4]s
log.dirs=%[5]s
offsets.topic.replication.factor=%[6]d
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=%[6]d
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=2
auto.create.topics.enable=false
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=500
log.segment.delete.delay.ms=500
broker.session.timeout.ms=%[7]d
broker.heartbeat.interval.ms=300
remote.log.storage.system.enable=true
remote.log.storage.manager.impl.prefix=rsm.config.
remote.log.metadata.manager.class.name=org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.listener.name=PLAINTEXT
remote.log.metadata.manager.impl.prefix=rlmm.config.
rlmm.config.remote.log.metadata.topic.num.partitions=%[8]d
rlmm.config.remote.log.metadata.topic.replication.factor=%[6]d
remote.log.manager.task.interval.ms=500
`
	localTieredStorage = `remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage
rsm.config.dir=%s
rsm.config.delete.on.close=false
`
)

// What the broker logs goes to its standard output; without a configuration the fixtures' own hides almost everything.
const (
	log4j1 = "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\nlog4j.appender.out.layout=org.apache.log4j.PatternLayout\n" +
		"log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %m (%c)%n\n"
	log4j2 = "rootLogger.level=INFO\nrootLogger.appenderRef.out.ref=OUT\nappender.out.type=Console\nappender.out.name=OUT\n" +
		"appender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%d{HH:mm:ss.SSS} %p %m (%c)%n\n"
)

// format writes the configurations and empty log directories below dir.
func (c *KafkaCluster) format(dir string) error {
	ports, err := freePorts(2 * c.o.Brokers)
	if err != nil {
		return err
	}
	address := func(i int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i])) }
	c.Store, c.Brokers = filepath.Join(dir, "store"), nil
	var voters []string
	for i := range c.o.Brokers {
		b := &Broker{ID: int32(i + 1), Address: address(2 * i), controller: address(2*i + 1), c: c, dir: filepath.Join(dir, strconv.Itoa(i+1))}
		voters = append(voters, fmt.Sprintf("%d@%s", b.ID, b.controller))
		c.Brokers = append(c.Brokers, b)
	}
	c.voters = strings.Join(voters, ",")
	return c.each((*Broker).format)
}

// each does something to all brokers at the same time.
func (c *KafkaCluster) each(do func(*Broker) error) error {
	errs := make(chan error, len(c.Brokers))
	for _, b := range c.Brokers {
		go func() {
			err := do(b)
			if err != nil {
				err = fmt.Errorf("broker %d: %w", b.ID, err)
			}
			errs <- err
		}()
	}
	var all []error
	for range c.Brokers {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

// Start starts all brokers, again after Stop or Kill, and waits until their metadata managers are ready.
func (c *KafkaCluster) Start() error { return c.each((*Broker).Start) }

// Stop ends all brokers as an operator does, at the same time. Each waits for an active controller to let it go, which takes most of them, and would wait for
// 5 minutes (BrokerServer.shutdown of Kafka 3.9.2 and 4.4.0) if the others were faster: then it is killed.
func (c *KafkaCluster) Stop() error {
	alone := make(chan struct{})
	var ended atomic.Int32
	return c.each(func(b *Broker) error {
		err := b.stop(alone)
		if n := len(c.Brokers); int(ended.Add(1)) == n-n/2 {
			close(alone)
		}
		return err
	})
}

// Kill ends all brokers as kill -9 does. Their data stay.
func (c *KafkaCluster) Kill() {
	for _, b := range c.Brokers {
		b.Kill()
	}
}

// Roll restarts one broker after the other, as an update does: stopped, started, and ready before the next one.
func (c *KafkaCluster) Roll() error {
	for _, b := range c.Brokers {
		if err := errors.Join(b.Stop(), b.Start()); err != nil {
			return fmt.Errorf("roll broker %d: %w", b.ID, err)
		}
	}
	return nil
}

// Configure gives the brokers further settings, with which they start the next time.
func (c *KafkaCluster) Configure(properties map[string]string) error {
	all := maps.Clone(c.o.Properties)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, properties)
	c.o.Properties = all
	return c.each(func(b *Broker) error { return os.WriteFile(b.config(), []byte(b.properties()), 0o600) })
}

// Bootstrap is the addresses of all brokers.
func (c *KafkaCluster) Bootstrap() []string {
	var all []string
	for _, b := range c.Brokers {
		all = append(all, b.Address)
	}
	return all
}

func (b *Broker) config() string { return filepath.Join(b.dir, "server.properties") }

func (b *Broker) logging() string {
	if strings.HasPrefix(b.c.Version, "3.") {
		return "-Dlog4j.configuration=file:" + filepath.Join(b.dir, "log4j.properties")
	}
	return "-Dlog4j2.configurationFile=" + filepath.Join(b.dir, "log4j.properties")
}

func (b *Broker) properties() string {
	c := b.c
	text := fmt.Sprintf(brokerProperties, b.ID, b.Address, b.controller, c.voters, strings.Join(b.DataDirs(), ","), c.o.Brokers, brokerSession.Milliseconds(),
		c.o.MetadataPartitions)
	if c.o.RSM == "" {
		text += fmt.Sprintf(localTieredStorage, c.Store)
	} else {
		text += "remote.log.storage.manager.class.name=" + c.o.RSM + "\n"
	}
	if c.o.RSMClassPath != "" {
		text += "remote.log.storage.manager.class.path=" + c.o.RSMClassPath + "\n"
	}
	for _, key := range slices.Sorted(maps.Keys(c.o.Properties)) {
		text += key + "=" + c.o.Properties[key] + "\n"
	}
	return text
}

// format writes the configuration and an empty log directory.
func (b *Broker) format() error {
	conf := log4j2
	if strings.HasPrefix(b.c.Version, "3.") {
		conf = log4j1
	}
	err := errors.Join(
		os.MkdirAll(b.dir, 0o755),
		os.WriteFile(b.config(), []byte(b.properties()), 0o600),
		os.WriteFile(filepath.Join(b.dir, "log4j.properties"), []byte(conf), 0o600),
	)
	if err != nil {
		return err
	}
	id := base64.RawURLEncoding.EncodeToString([]byte("tierkit testbed!"))
	cmd := exec.CommandContext(b.c.t.Context(), b.c.java, "-Xmx128m", "-cp", b.c.jars, b.logging(), "kafka.tools.StorageTool", "format", "-t", id, "-c", b.config())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Start starts the broker, again after Stop or Kill, and waits until its metadata manager is ready.
func (b *Broker) Start() error {
	run, err := os.MkdirTemp("", "tierkit-kafka-")
	if err != nil {
		return err
	}
	p, err := start(run, nil, b.c.java, "-Xmx"+b.c.o.Heap, "-XX:+UseSerialGC", "-cp", b.c.jars, b.logging(), "kafka.Kafka", b.config())
	if err != nil {
		return errors.Join(err, os.RemoveAll(run))
	}
	if b.proc != nil {
		b.before = append(b.before, b.proc)
	}
	b.proc = p
	b.c.t.Cleanup(p.stop)
	// Both: between the two a broker cannot be stopped in an orderly way, its metadata manager waits for itself.
	return p.says(b.c.t.Context(), "Kafka Server started", "Initialized topic-based RLMM resources successfully")
}

// Stop ends the broker as an operator does, with SIGTERM, and waits for it.
func (b *Broker) Stop() error { return b.stop(nil) }

func (b *Broker) stop(alone <-chan struct{}) error {
	if err := b.proc.terminate(brokerStops, alone, aloneStops); err != nil {
		return fmt.Errorf("%w; it said:\n%s", err, b.Log())
	}
	return nil
}

// Kill ends the broker as kill -9 does. Its data stay.
func (b *Broker) Kill() {
	if b.proc != nil {
		b.proc.stop()
	}
}

// Log is the end of what the broker said in each of its lives.
func (b *Broker) Log() string {
	var out strings.Builder
	for _, life := range append(slices.Clip(b.before), b.proc) {
		fmt.Fprintf(&out, "%s\n", life.tail())
	}
	return out.String()
}

// Lines counts the lines that the broker has said since its start and that have all of some texts.
func (b *Broker) Lines(texts ...string) (int, error) {
	said, err := os.ReadFile(b.proc.log)
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range strings.Lines(string(said)) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n, nil
}

// DataDir is the log directory of the broker, or the first one.
func (b *Broker) DataDir() string { return filepath.Join(b.dir, "data") }

// DataDirs are the log directories of the broker.
func (b *Broker) DataDirs() []string {
	dirs := []string{b.DataDir()}
	for i := 2; i <= b.c.o.LogDirs; i++ {
		dirs = append(dirs, b.DataDir()+strconv.Itoa(i))
	}
	return dirs
}

// says waits until the server has said every one of some lines.
func (p *process) says(ctx context.Context, lines ...string) error {
	ctx, cancel := context.WithTimeout(ctx, brokerWithin)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		said, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		missing := ""
		for _, l := range lines {
			if !bytes.Contains(said, []byte(l)) {
				missing = l
			}
		}
		switch {
		case missing == "":
			return nil
		case bytes.Contains(said, []byte("Exiting Kafka due to fatal exception")):
			return fmt.Errorf("it ended:\n%s", p.tail())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("it does not say %q: %w; it said:\n%s", missing, context.Cause(ctx), p.tail())
		}
	}
}
