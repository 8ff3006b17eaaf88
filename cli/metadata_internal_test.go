package cli

import (
	"strings"
	"testing"
)

func TestDangers_AreTheSettingsThatLoseMetadata(t *testing.T) {
	safe := map[string]string{"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete", "min.insync.replicas": "2", "segment.bytes": "1"}
	if got := dangers(safe); len(got) != 0 {
		t.Errorf("of settings as a broker makes the topic: %v", got)
	}
	if got := dangers(nil); got == nil || len(got) != 0 {
		t.Errorf("of no settings: %#v, want an empty list, which is [] in JSON", got)
	}
	for key, value := range map[string]string{"retention.ms": "604800000", "retention.bytes": "1", "cleanup.policy": "compact,delete", "min.insync.replicas": "1"} {
		got := dangers(map[string]string{key: value})
		if len(got) != 1 || !strings.HasPrefix(got[0], key+"="+value+": ") {
			t.Errorf("%s=%s: %v", key, value, got)
		}
	}
}
