package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

func (a *app) lsCmd() *cobra.Command {
	var t target
	var from origin
	cmd := &cobra.Command{
		Use:   "ls [--topic T] [--partition P] [--from-store]",
		Short: "list remote segments with offsets, leader epochs, sizes and states",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.check(false); err != nil {
				return err
			}
			return a.ls(cmd.Context(), &t, from)
		},
	}
	t.flags(cmd)
	from.flag(cmd)
	return cmd
}

func (a *app) ls(ctx context.Context, t *target, from origin) (err error) {
	s, err := a.openLister(ctx, from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	partitions, err := t.partitions(ctx, s.reader)
	if err != nil {
		return err
	}
	var rows []segmentRow
	for _, tp := range partitions {
		list, err := s.list(ctx, tp)
		if err != nil {
			return err
		}
		rows = append(rows, list...)
	}
	if len(rows) == 0 && s.index != nil {
		a.notice(t.nothingStored(s.setup.Config.KeyPrefix))
	}
	slices.SortFunc(rows, func(x, y segmentRow) int { return x.md.Compare(&y.md) })
	if a.json {
		for i := range rows {
			if err := a.printJSON(rows[i].json()); err != nil {
				return err
			}
		}
		return nil
	}
	return a.lsText(rows)
}

// nothingStored says where segments were looked for. A wrong prefix looks like an empty store.
func (t *target) nothingStored(prefix string) string {
	of := ""
	if t.topic != "" {
		of = fmt.Sprintf(" of topic %s, or of the partition or topic id that was given,", t.topic)
	}
	return fmt.Sprintf("no manifest%s was found under key.prefix=%q: check key.prefix against the keys in the store, and the bucket, container or root in the settings below storage.", of, prefix)
}

// list returns the segments of a partition.
func (s *session) list(ctx context.Context, tp remotelog.TopicIDPartition) ([]segmentRow, error) {
	var rows []segmentRow
	if s.index != nil {
		for st, err := range s.index.Stored(ctx, tp) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, segmentRow{md: st.SegmentMetadata, state: inStore, stored: &st.StoredBytes, objectKey: st.Key})
		}
		return rows, nil
	}
	for md, err := range s.reader.Segments(ctx, tp) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, metadataRow(md, s.setup.Config.KeyPrefix))
	}
	return rows, nil
}

// segmentRow is one segment of a listing with what only one of its two sources knows.
type segmentRow struct {
	md        remotelog.SegmentMetadata
	state     string
	stored    *int64 // bytes in the store; nil: not known
	objectKey string // without suffix
}

// inStore is the state of a segment that is known from its manifest alone.
const inStore = "IN_STORE"

// metadataRow is a segment as the metadata have it.
func metadataRow(md remotelog.SegmentMetadata, keyPrefix string) segmentRow {
	r := segmentRow{md: md, state: md.State.String(), objectKey: keyPrefix + manifest.MainPath(md.SegmentID, md.StartOffset, manifest.ASCIIDigits)}
	custom, err := manifest.ParseCustom(md.CustomMetadata)
	if err != nil {
		return r // another plug-in's: the configured key holds
	}
	if custom.Has[manifest.RemoteSize] {
		r.stored = &custom.RemoteSize
	}
	if custom.Has[manifest.ObjectKey] {
		if custom.Has[manifest.ObjectPrefix] {
			keyPrefix = custom.ObjectPrefix
		}
		r.objectKey = keyPrefix + custom.ObjectKey
	}
	return r
}

// segmentJSON is the JSON shape of ls. Scripts rely on the names.
type segmentJSON struct {
	segmentjson.Segment
	StoredBytes *int64 `json:"storedBytes"`
	ObjectKey   string `json:"objectKey"`
}

func (r *segmentRow) json() segmentJSON {
	j := segmentJSON{Segment: segmentjson.Of(&r.md), StoredBytes: r.stored, ObjectKey: r.objectKey}
	j.State = r.state
	return j
}

// epochMap is leader epochs as Kafka's JSON has them.
type epochMap = segmentjson.Epochs

func (a *app) lsText(rows []segmentRow) error {
	if len(rows) == 0 {
		return a.printf("no remote segments\n")
	}
	t := newTable(a.Out, "PARTITION", "OFFSETS", "EPOCHS", "BYTES", "STORED", "LARGEST TIMESTAMP", "STATE", "SEGMENT")
	var total, stored int64
	known := 0 // rows with a size in the store
	for i := range rows {
		r := &rows[i]
		md := &r.md
		storedText := "-"
		if r.stored != nil {
			storedText = size(*r.stored)
			stored += *r.stored
			known++
		}
		total += md.SizeBytes
		t.row(md.TopicIDPartition.String(), strconv.FormatInt(md.StartOffset, 10)+".."+strconv.FormatInt(md.EndOffset, 10),
			epochRange(md.LeaderEpochs), size(md.SizeBytes), storedText, timestamp(md.MaxTimestampMs), r.state, md.ID.String())
	}
	if err := t.flush(); err != nil {
		return err
	}
	sum := count(len(rows), "segment") + ", " + size(total)
	switch known {
	case 0:
	case len(rows):
		sum += ", stored as " + size(stored)
	default:
		sum += fmt.Sprintf("; %s with a known size in the store: %s", count(known, "segment"), size(stored))
	}
	return a.printf("%s\n", sum)
}

func epochRange(es []remotelog.LeaderEpoch) string {
	switch len(es) {
	case 0:
		return "-"
	case 1:
		return strconv.Itoa(int(es[0].Epoch))
	}
	return strconv.Itoa(int(es[0].Epoch)) + ".." + strconv.Itoa(int(es[len(es)-1].Epoch))
}

// count prints a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
