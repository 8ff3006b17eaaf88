package testbed

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// KafkaTested returns the versions that tests with brokers run on: the oldest and the newest, or with TIERKIT_KAFKA=all every one.
func KafkaTested() []string { return tested(KafkaOldest, KafkaNewest) }

// KafkaTestedLong returns the versions that a test runs on which takes minutes: the newest, or with TIERKIT_KAFKA=all every one.
func KafkaTestedLong() []string { return tested(KafkaNewest) }

func tested(usually ...string) []string {
	if os.Getenv("TIERKIT_KAFKA") == "all" {
		return KafkaVersions()
	}
	return usually
}

// Before41 tells the versions that lack what came with 4.1 to 4.3: the setting internal.segment.bytes, exceptions that may be tried again, and an index
// cache that can be full (KAFKA-17184).
func Before41(version string) bool {
	return strings.HasPrefix(version, "3.") || strings.HasPrefix(version, "4.0.")
}

// Within is the time that a whole test has, on a machine that does much else.
func Within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Until asks again every tick until the answer is nil, and ends the test with the last one when ctx ends.
func Until(ctx context.Context, t testing.TB, what string, tick time.Duration, ask func() error) {
	t.Helper()
	again := time.NewTicker(tick)
	defer again.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
