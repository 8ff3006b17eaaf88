package logfiles

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/tierkit/tierkit/remotelog"
)

// Partition names a partition inside one log directory.
type Partition struct {
	Topic     string
	Partition int32
}

// ParseLeaderEpochs parses a leader-epoch-checkpoint: version 0, a count, and a line "epoch start-offset" each. Epochs are ascending,
// offsets not descending.
func ParseLeaderEpochs(b []byte) ([]remotelog.LeaderEpoch, error) {
	var epochs []remotelog.LeaderEpoch
	err := checkpointLines("leader-epoch-checkpoint", b, 2, func(f []string) bool {
		epoch, err1 := strconv.ParseInt(f[0], 10, 32)
		start, err2 := strconv.ParseInt(f[1], 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return false
		}
		e := remotelog.LeaderEpoch{Epoch: int32(epoch), StartOffset: start}
		if n := len(epochs); n > 0 && (e.Epoch <= epochs[n-1].Epoch || e.StartOffset < epochs[n-1].StartOffset) {
			return false
		}
		epochs = append(epochs, e)
		return true
	})
	return epochs, err
}

// ExtendLeaderEpochs returns the leader epochs of a log of which known is a part, and own those of a segment that ends behind it: what
// the metadata of a segment say where its leader epoch index cannot be read. Where they contradict each other own holds.
func ExtendLeaderEpochs(known, own []remotelog.LeaderEpoch) []remotelog.LeaderEpoch {
	n := slices.IndexFunc(known, func(e remotelog.LeaderEpoch) bool {
		return e.Epoch >= own[0].Epoch || e.StartOffset > own[0].StartOffset
	})
	if n < 0 {
		n = len(known)
	}
	out := slices.Concat(known[:n], own)
	if n < len(known) && known[n].Epoch == own[0].Epoch {
		out[n].StartOffset = min(known[n].StartOffset, own[0].StartOffset) // it began before the segment
	}
	return out
}

// MarshalLeaderEpochs writes the text that a broker hands to its storage plug-in.
func MarshalLeaderEpochs(epochs []remotelog.LeaderEpoch) []byte {
	b := append([]byte("0\n"), strconv.Itoa(len(epochs))...)
	b = append(b, '\n')
	for _, e := range epochs {
		b = strconv.AppendInt(b, int64(e.Epoch), 10)
		b = append(b, ' ')
		b = strconv.AppendInt(b, e.StartOffset, 10)
		b = append(b, '\n')
	}
	return b
}

// ParseOffsetCheckpoint parses replication-offset-checkpoint, log-start-offset-checkpoint and their like: version 0, a count, and a
// line "topic partition offset" each. name is for the error text.
func ParseOffsetCheckpoint(name string, b []byte) (map[Partition]int64, error) {
	offsets := map[Partition]int64{}
	err := checkpointLines(name, b, 3, func(f []string) bool {
		p, err1 := strconv.ParseInt(f[1], 10, 32)
		offset, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil || p < 0 || offset < 0 {
			return false
		}
		offsets[Partition{f[0], int32(p)}] = offset
		return true
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}

// checkpointLines walks over the entries of a checkpoint file; each has that many fields. Kafka splits at white space.
func checkpointLines(name string, b []byte, fields int, entry func([]string) bool) error {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if len(lines) < 2 {
		return corrupt("%s has no version and count", name)
	}
	if strings.TrimSpace(lines[0]) != "0" {
		return corrupt("%s has version %.20q, want 0", name, lines[0])
	}
	n, err := strconv.Atoi(strings.TrimSpace(lines[1]))
	if err != nil || n != len(lines)-2 {
		return corrupt("%s announces %.20q entries and has %d", name, lines[1], len(lines)-2)
	}
	for _, l := range lines[2:] {
		if f := strings.Fields(l); len(f) != fields || !entry(f) {
			return corrupt("%s: bad line %.80q", name, l)
		}
	}
	return nil
}

// ParsePartitionMetadata parses partition.metadata and returns the topic id.
func ParsePartitionMetadata(b []byte) (remotelog.UUID, error) {
	values := map[string]string{}
	for _, l := range strings.Split(string(b), "\n") {
		if k, v, ok := strings.Cut(l, ":"); ok {
			values[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	if v := values["version"]; v != "0" {
		return remotelog.UUID{}, corrupt("partition.metadata has version %.20q, want 0", v)
	}
	id, err := remotelog.ParseUUID(values["topic_id"])
	if err != nil || id.IsZero() {
		return remotelog.UUID{}, corrupt("partition.metadata has no topic id: %.40q", values["topic_id"])
	}
	return id, nil
}

// ParseMetaProperties returns the broker's id from meta.properties (node.id, or broker.id in older ones); ok is false if it names
// none.
func ParseMetaProperties(b []byte) (id int32, ok bool, err error) {
	values := map[string]string{}
	for _, l := range bytes.Split(b, []byte("\n")) {
		l = bytes.TrimSpace(l)
		if len(l) == 0 || l[0] == '#' || l[0] == '!' {
			continue
		}
		if k, v, found := strings.Cut(string(l), "="); found {
			values[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	for _, key := range []string{"node.id", "broker.id"} {
		v, found := values[key]
		if !found {
			continue
		}
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 {
			return 0, false, corrupt("meta.properties: %s is %.40q", key, v)
		}
		return int32(n), true, nil
	}
	return 0, false, nil
}
