package testbed

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
)

// Versions of Apache Kafka that tests run: the oldest line whose metadata records are those of today, and the newest.
const (
	KafkaOldest = "3.9.2"
	KafkaNewest = "4.4.0"
)

// brokerWithin is how long a broker may take from its start to the metadata manager's being ready, on a machine that does much else.
const brokerWithin = 2 * time.Minute

// Broker is a Kafka broker and controller in one process, with tiered storage: Kafka's own metadata manager, and LocalTieredStorage
// of Kafka's tests as its store.
type Broker struct {
	Version string
	Address string // host:port

	t      testing.TB
	java   string
	jars   string // class path
	dir    string // data, configuration, store: they outlive a restart
	config string
	proc   *process
}

// Kafka starts a broker of a version, with one partition of the metadata topic or more, and stops it with the test.
func Kafka(t testing.TB, version string, metadataPartitions int) *Broker {
	t.Helper()
	b := &Broker{Version: version, t: t, java: need.Command(t, "java", "install a JDK, 17 or newer"), jars: kafkaJars(t, version), dir: t.TempDir()}
	for try := 1; ; try++ {
		err := b.format(metadataPartitions)
		if err == nil {
			err = b.Start()
		}
		if err == nil {
			return b
		}
		if try == maxStarts { // another process may have taken one of the ports
			t.Fatalf("start Kafka %s: %v", version, err)
		}
	}
}

// kafkaPom resolves a broker. LocalTieredStorage comes from the newest version that publishes it.
const kafkaPom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>io.github.tierkit</groupId><artifactId>kafka-broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>%s</dependencies>
</project>
`

const (
	dependency      = `<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>`
	storageFixtures = `<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-storage</artifactId><version>%s</version><classifier>test</classifier>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>`
	fixturesNewest = "4.3.1" // 4.4.0 has none
)

// kafkaJars installs a version into the cache, once, and returns its class path.
func kafkaJars(t testing.TB, version string) string {
	t.Helper()
	dir := filepath.Join(need.CacheDir(t), "kafka", version+"-1")
	if _, err := os.Stat(dir); err != nil {
		mvn := need.Command(t, "mvn", "install Maven")
		if err := installKafka(t.Context(), mvn, version, dir); err != nil {
			t.Fatalf("resolve Kafka %s from Maven Central: %v", version, err)
		}
	}
	return strings.Join([]string{filepath.Join(dir, "libs", "*"), filepath.Join(dir, "fixtures", "*"), filepath.Join(dir, "classes")}, ":")
}

func installKafka(ctx context.Context, mvn, version, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), "partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	deps := fmt.Sprintf(dependency, "org.apache.kafka", "kafka_2.13", version)
	if strings.HasPrefix(version, "3.") {
		deps += fmt.Sprintf(dependency, "org.slf4j", "slf4j-reload4j", "1.7.36")
	} else {
		for _, a := range []string{"log4j-slf4j-impl", "log4j-core"} {
			deps += fmt.Sprintf(dependency, "org.apache.logging.log4j", a, "2.25.5")
		}
	}
	fixtures := version
	if version == KafkaNewest {
		fixtures = fixturesNewest
	}
	sets := map[string]string{"libs": deps, "fixtures": fmt.Sprintf(storageFixtures, fixtures)}
	if fixtures != version {
		sets["other"] = fmt.Sprintf(dependency, "org.apache.kafka", "kafka-clients", fixtures)
	}
	for name, deps := range sets {
		if err := resolve(ctx, mvn, partial, name, deps); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(partial, "classes"), 0o755); err != nil {
		return err
	}
	if fixtures != version {
		// The class of 4.3.1 needs these, which 4.4.0 has moved.
		if err := extract(filepath.Join(partial, "other", "kafka-clients-"+fixtures+".jar"), "org/apache/kafka/common/utils/LogContext", filepath.Join(partial, "classes")); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(filepath.Join(partial, "other")); err != nil {
		return err
	}
	err = os.Rename(partial, dir)
	if _, there := os.Stat(dir); there == nil { // another run may have been faster
		return nil
	}
	return err
}

// resolve copies artifacts and what they need into partial/name.
func resolve(ctx context.Context, mvn, partial, name, deps string) error {
	pom := filepath.Join(partial, name+".xml")
	if err := os.WriteFile(pom, fmt.Appendf(nil, kafkaPom, deps), 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", pom, "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies",
		"-DoutputDirectory="+filepath.Join(partial, name), "-DincludeScope=runtime")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// extract takes the classes with a prefix out of a jar.
func extract(jar, prefix, dir string) error {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		if !strings.HasPrefix(f.Name, prefix) || path.Ext(f.Name) != ".class" {
			continue
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		b, err := io.ReadAll(io.LimitReader(r, 1<<20))
		if err := errors.Join(err, r.Close(), os.WriteFile(to, b, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// properties of a broker. Times are short so that tests are.
const brokerProperties = `process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.quorum.bootstrap.servers=%[2]s
log.dirs=%[3]s/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
num.network.threads=2
num.io.threads=2
auto.create.topics.enable=false
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=500
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=300
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage
remote.log.storage.manager.impl.prefix=rsm.config.
rsm.config.dir=%[3]s/store
rsm.config.delete.on.close=false
remote.log.metadata.manager.class.name=org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
remote.log.metadata.manager.listener.name=PLAINTEXT
remote.log.metadata.manager.impl.prefix=rlmm.config.
rlmm.config.remote.log.metadata.topic.num.partitions=%[4]d
rlmm.config.remote.log.metadata.topic.replication.factor=1
remote.log.manager.task.interval.ms=500
`

// What the broker logs goes to its standard output; without a configuration the fixtures' own hides almost everything.
const (
	log4j1 = "log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\nlog4j.appender.out.layout=org.apache.log4j.PatternLayout\n" +
		"log4j.appender.out.layout.ConversionPattern=%p %m (%c)%n\n"
	log4j2 = "rootLogger.level=INFO\nrootLogger.appenderRef.out.ref=OUT\nappender.out.type=Console\nappender.out.name=OUT\n" +
		"appender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%p %m (%c)%n\n"
)

func (b *Broker) logging() string {
	if strings.HasPrefix(b.Version, "3.") {
		return "-Dlog4j.configuration=file:" + filepath.Join(b.dir, "log4j.properties")
	}
	return "-Dlog4j2.configurationFile=" + filepath.Join(b.dir, "log4j.properties")
}

// format writes the configuration and an empty log directory.
func (b *Broker) format(metadataPartitions int) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	b.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	controller := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[1]))
	b.config = filepath.Join(b.dir, "server.properties")
	conf, logs := log4j2, filepath.Join(b.dir, "log4j.properties")
	if strings.HasPrefix(b.Version, "3.") {
		conf = log4j1
	}
	err = errors.Join(
		os.RemoveAll(filepath.Join(b.dir, "data")),
		os.WriteFile(b.config, fmt.Appendf(nil, brokerProperties, b.Address, controller, b.dir, metadataPartitions), 0o600),
		os.WriteFile(logs, []byte(conf), 0o600),
	)
	if err != nil {
		return err
	}
	id := base64.RawURLEncoding.EncodeToString([]byte("tierkit testbed!"))
	cmd := exec.CommandContext(b.t.Context(), b.java, "-Xmx128m", "-cp", b.jars, b.logging(), "kafka.tools.StorageTool", "format", "-t", id, "-c", b.config, "--standalone")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Start starts the broker, again after Kill, and waits until its metadata manager is ready.
func (b *Broker) Start() error {
	run, err := os.MkdirTemp("", "tierkit-kafka-")
	if err != nil {
		return err
	}
	b.proc, err = start(run, nil, b.java, "-Xmx512m", "-XX:+UseSerialGC", "-cp", b.jars, b.logging(), "kafka.Kafka", b.config)
	if err != nil {
		return errors.Join(err, os.RemoveAll(run))
	}
	p := b.proc
	b.t.Cleanup(func() { p.stop() })
	return p.says(b.t.Context(), "Kafka Server started", "Initialized topic-based RLMM resources successfully")
}

// Kill ends the broker as kill -9 does. Its data stay.
func (b *Broker) Kill() { b.proc.stop() }

// Log is the end of what the broker said.
func (b *Broker) Log() string { return string(b.proc.tail()) }

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
