package testbed

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

// Versions of Apache Kafka that tests run: the oldest line whose metadata records are those of today, and the newest. The others are
// the newest of lines in between, for longer runs.
const (
	KafkaOldest = "3.9.2"
	KafkaNewest = "4.4.0"
)

// KafkaVersions returns all of them in ascending order.
func KafkaVersions() []string { return []string{KafkaOldest, "4.0.2", "4.3.1", KafkaNewest} }

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
