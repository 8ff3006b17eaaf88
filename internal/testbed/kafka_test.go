package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
)

// TestKafka_Installs: every version is in the cache with what its brokers run with. The stage `tools` runs it for that.
func TestKafka_Installs(t *testing.T) {
	for _, version := range KafkaVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var jars []string
			for _, entry := range strings.Split(kafkaJars(t, version), ":") {
				found, err := filepath.Glob(entry)
				if err != nil {
					t.Fatal(err)
				}
				jars = append(jars, found...)
			}
			all := strings.Join(jars, "\n")
			for _, want := range []string{"kafka_2.13-" + version + ".jar", "kafka-storage-api-" + version + ".jar", "-test.jar"} {
				if !strings.Contains(all, want) {
					t.Errorf("no %s among\n%s", want, all)
				}
			}
			logContext := filepath.Join(need.CacheDir(t), "kafka", version+"-1", "classes", "org/apache/kafka/common/utils/LogContext.class")
			if _, err := os.Stat(logContext); (err == nil) != (version == KafkaNewest) {
				t.Errorf("%s: %v; only the newest version needs it", logContext, err)
			}
		})
	}
}
