package rlmm

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

func partitionOf(t testing.TB, id string, p int32) remotelog.TopicIDPartition {
	t.Helper()
	u, err := remotelog.ParseUUID(id)
	if err != nil {
		t.Fatal(err)
	}
	return remotelog.TopicIDPartition{TopicID: u, Topic: "any", Partition: p}
}

func TestScenario15_PartitionerVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/metadata-records.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Partitions []struct {
			TopicID       string
			Partition     int32
			Hash, Murmur2 int32
			Mod           map[string]int32
		}
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Partitions) != 15 {
		t.Fatalf("%d vectors, want 15", len(file.Partitions))
	}
	for _, v := range file.Partitions {
		tp := partitionOf(t, v.TopicID, v.Partition)
		if got := int32(partitionHash(tp)); got != v.Hash {
			t.Errorf("%s %d: hash %d, want %d", v.TopicID, v.Partition, got, v.Hash)
		}
		if got := int32(murmur2(uint32(v.Hash))); got != v.Murmur2 {
			t.Errorf("%s %d: murmur2 %d, want %d", v.TopicID, v.Partition, got, v.Murmur2)
		}
		for mod, want := range v.Mod {
			n, err := strconv.Atoi(mod)
			if err != nil {
				t.Fatal(err)
			}
			if got := MetadataPartition(tp, int32(n)); got != want {
				t.Errorf("%s %d of %d: %d, want %d", v.TopicID, v.Partition, n, got, want)
			}
		}
	}
}

func TestScenario15_RecordsOfRealBrokersLieInTheirPartition(t *testing.T) {
	for _, version := range []string{"3.9.2", "4.4.0"} {
		for _, g := range goldenTopic(t, version) {
			tp := partitionOf(t, g.Decoded.TopicID, g.Decoded.Partition)
			if got := MetadataPartition(tp, 5); got != g.Partition {
				t.Errorf("%s %v: %d, want %d", version, tp, got, g.Partition)
			}
		}
	}
}

func TestScenario16_KafkasOwnConsumerTest(t *testing.T) {
	for n, want := range map[int32][]int32{5: {2, 2, 2, 4, 3}, 50: {47, 37, 12, 24, 23}} {
		for p, w := range want {
			if got := MetadataPartition(partitionOf(t, "Bp9TDduJRGa9Q5rlvCJOxg", int32(p)), n); got != w {
				t.Errorf("partition %d of %d: %d, want %d", p, n, got, w)
			}
		}
	}
}

func TestScenario17_EveryMetadataPartitionIsUsed(t *testing.T) {
	hit := map[int32]bool{}
	for p := range int32(50) {
		hit[MetadataPartition(partitionOf(t, "jF8s79t9SrG_PNqlwv7bAA", p), 2)] = true
	}
	if !hit[0] || !hit[1] {
		t.Errorf("hit %v, want both of 2", hit)
	}
}

func TestScenario18_TheTopicNamePlaysNoPart(t *testing.T) {
	a, b := testPartition("orders", 3), testPartition("other", 3)
	if x, y := MetadataPartition(a, 50), MetadataPartition(b, 50); x != y || x != 36 {
		t.Errorf("%d and %d, want 36 for both", x, y)
	}
}
