package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/remotelog"
)

// target is which partition a command is about.
type target struct {
	topic     string
	topicID   string
	partition int32
}

// flags declares --topic, --partition and --topic-id.
func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.topic, "topic", "", "topic `NAME`")
	cmd.Flags().Int32Var(&t.partition, "partition", -1, "partition `NUMBER`")
	cmd.Flags().Lookup("partition").DefValue = "0" // help shows no default: there is none
	cmd.Flags().StringVar(&t.topicID, "topic-id", "", "topic `ID`, where one name has several")
}

// check reports what is missing or malformed before anything is opened.
func (t *target) check(partitionNeeded bool) error {
	switch {
	case t.topic == "" && partitionNeeded:
		return usagef("--topic is required")
	case t.topic == "" && (t.partition >= 0 || t.topicID != ""):
		return usagef("--partition and --topic-id need --topic")
	case partitionNeeded && t.partition < 0:
		return usagef("--partition is required")
	}
	if t.topicID != "" {
		if _, err := remotelog.ParseUUID(t.topicID); err != nil {
			return usagef("--topic-id: %v", err)
		}
	}
	return nil
}

// matches reports whether tp is meant; what was not given matches all.
func (t *target) matches(tp remotelog.TopicIDPartition) bool {
	return (t.topic == "" || t.topic == tp.Topic) && (t.topicID == "" || t.topicID == tp.TopicID.String()) &&
		(t.partition < 0 || t.partition == tp.Partition)
}

// partitions returns the partitions that are meant. One topic name with several ids is a mistake that lists them: they are
// different topics, and a command must not mix them.
func (t *target) partitions(ctx context.Context, r remotelog.MetadataReader) ([]remotelog.TopicIDPartition, error) {
	var out []remotelog.TopicIDPartition
	ids := map[remotelog.UUID]bool{}
	for tp, err := range r.Partitions(ctx) {
		if err != nil {
			return nil, err
		}
		if t.topic == "" || t.topic == tp.Topic {
			if t.topic != "" {
				ids[tp.TopicID] = true
			}
			if t.matches(tp) {
				out = append(out, tp)
			}
		}
	}
	if t.topicID == "" && len(ids) > 1 {
		var list []string
		for id := range ids {
			list = append(list, id.String())
		}
		slices.Sort(list)
		return nil, usagef("topic %s has several ids, choose one with --topic-id: %s", t.topic, strings.Join(list, " "))
	}
	return out, nil
}

// one returns the one partition that is meant.
func (t *target) one(ctx context.Context, r remotelog.MetadataReader) (remotelog.TopicIDPartition, error) {
	all, err := t.partitions(ctx, r)
	if err != nil {
		return remotelog.TopicIDPartition{}, err
	}
	if len(all) == 0 {
		return remotelog.TopicIDPartition{}, fmt.Errorf("%w: no remote segment of %s-%d is known; tierkit ls shows what is",
			remotelog.ErrNotFound, t.topic, t.partition)
	}
	return all[0], nil
}

// segment returns the segment with that id.
func (t *target) segment(ctx context.Context, r remotelog.MetadataReader, id remotelog.UUID) (remotelog.SegmentMetadata, error) {
	tp, err := t.one(ctx, r)
	if err != nil {
		return remotelog.SegmentMetadata{}, err
	}
	for md, err := range r.Segments(ctx, tp) {
		if err != nil {
			return remotelog.SegmentMetadata{}, err
		}
		if md.ID == id {
			return md, nil
		}
	}
	return remotelog.SegmentMetadata{}, fmt.Errorf("%w: %s has no segment %s; tierkit ls --topic %s --partition %d shows those that it has",
		remotelog.ErrNotFound, tp, id, t.topic, t.partition)
}

// segmentFlags are those of fetch and index: one segment, by metadata or from the store alone.
type segmentFlags struct {
	target
	id     string
	from   origin
	custom string
	out    string
}

func (f *segmentFlags) flags(cmd *cobra.Command) {
	f.target.flags(cmd)
	cmd.Flags().StringVar(&f.id, "segment", "", "segment `ID`, as tierkit ls shows it")
	f.from.flag(cmd)
	cmd.Flags().StringVar(&f.custom, "custom-metadata", "", "with --from-store: the segment's custom metadata in `BASE64`")
	cmd.Flags().StringVarP(&f.out, "output", "o", "", "write to `FILE` instead of standard output; it appears only when complete")
}

// check validates the flags before anything is opened.
func (f *segmentFlags) check() (id remotelog.UUID, custom remotelog.CustomMetadata, err error) {
	if err := f.target.check(true); err != nil {
		return id, nil, err
	}
	if f.id == "" {
		return id, nil, usagef("--segment is required")
	}
	if id, err = remotelog.ParseUUID(f.id); err != nil {
		return id, nil, usagef("--segment: %v", err)
	}
	if f.custom == "" {
		return id, nil, nil
	}
	if f.from != fromManifests {
		return id, nil, usagef("--custom-metadata goes with --from-store: without it the metadata has them")
	}
	if custom, err = base64.StdEncoding.DecodeString(f.custom); err != nil {
		return id, nil, usagef("--custom-metadata: not standard base64: %v", err)
	}
	return id, custom, nil
}
