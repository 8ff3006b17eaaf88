package cli

import (
	"strings"
	"testing"

	"github.com/tierkit/tierkit/rlmm"
)

func TestDangers_AreTheSettingsThatLoseMetadata(t *testing.T) {
	safe := map[string]string{"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete", "min.insync.replicas": "2", "segment.bytes": "1",
		"unclean.leader.election.enable": "false"}
	if got := dangers(safe); len(got) != 0 {
		t.Errorf("of settings as a broker makes the topic: %v", got)
	}
	if got := dangers(nil); got == nil || len(got) != 0 {
		t.Errorf("of no settings: %#v, want an empty list, which is [] in JSON", got)
	}
	for key, value := range map[string]string{
		"retention.ms": "604800000", "retention.bytes": "1", "cleanup.policy": "compact,delete", "min.insync.replicas": "1", "unclean.leader.election.enable": "true",
	} {
		got := dangers(map[string]string{key: value})
		if len(got) != 1 || !strings.HasPrefix(got[0], key+"="+value+": ") {
			t.Errorf("%s=%s: %v", key, value, got)
		}
	}
}

func TestLogStatus_GrownLogIsADanger(t *testing.T) {
	s := logStatus{Partitions: 5}
	s.described(rlmm.Description{Grown: 7})
	if len(s.Dangers) != 1 || !strings.Contains(s.Dangers[0], "has 7 partitions, and had 5") || s.Unknown != nil {
		t.Errorf("%+v", s)
	}
}
