package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/internal/props"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

func (a *app) metadataStatusCmd() *cobra.Command {
	var t target
	var n int32
	cmd := &cobra.Command{
		Use:   "status [--topic T] [--partition P] [--topic-id ID] [--metadata-partitions N]",
		Short: "where the metadata log stands, and what it says of each partition",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.check(false); err != nil {
				return err
			}
			if cmd.Flags().Changed("metadata-partitions") {
				return a.whereIs(&t, n)
			}
			return a.metadataStatus(cmd.Context(), &t)
		},
	}
	t.flags(cmd)
	cmd.Flags().Int32Var(&n, "metadata-partitions", 0, "only compute the metadata partition of one partition, of `N`; needs --topic-id, but no log and no --config")
	return cmd
}

// whereIs answers where the metadata of a partition is, from its id alone: the topic's name does not matter.
func (a *app) whereIs(t *target, n int32) error {
	switch {
	case t.topic == "" || t.partition < 0 || t.topicID == "":
		return usagef("--metadata-partitions goes with --topic, --partition and --topic-id (the file partition.metadata of the partition has the id)")
	case n < 1:
		return usagef("--metadata-partitions: %d, want 1 or more (remote.log.metadata.topic.num.partitions)", n)
	}
	id, err := remotelog.ParseUUID(t.topicID)
	if err != nil {
		return usagef("--topic-id: %v", err)
	}
	tp := remotelog.TopicIDPartition{TopicID: id, Topic: t.topic, Partition: t.partition}
	p := rlmm.MetadataPartition(tp, n)
	if a.json {
		return a.printJSON(struct {
			Type string `json:"type"`
			recordPlace
			MetadataPartition  int32 `json:"metadataPartition"`
			MetadataPartitions int32 `json:"metadataPartitions"`
		}{"partition", recordPlace{TopicID: t.topicID, Topic: t.topic, Partition: t.partition}, p, n})
	}
	return a.printf("%s (topic id %v): metadata partition %d of %d\n", printable(tp.String()), id, p, n)
}

// metaStatus is what one reading of the log found.
type metaStatus struct {
	log      logStatus
	parts    []*metaPartStatus
	audits   []*rlmm.Audit // by metadata partition
	describe rlmm.Description

	misplaced []string
}

// The JSON shapes of status. Scripts rely on the names.
type logStatus struct {
	Type       string            `json:"type"` // log
	LogID      string            `json:"logId"`
	Kind       props.LogKind     `json:"kind"`
	Partitions int32             `json:"metadataPartitions"`
	Settings   map[string]string `json:"settings"`      // of the topic; null where there is none, or they are not known
	Unknown    *string           `json:"settingsError"` // why they are not known
	Dangers    []string          `json:"dangers"`       // what endangers the metadata
}

type metaPartStatus struct {
	Type        string   `json:"type"` // metadataPartition
	Partition   int32    `json:"metadataPartition"`
	First       int64    `json:"first"`
	Next        int64    `json:"next"`
	Applied     int64    `json:"applied"` // read up to here
	Lag         int64    `json:"lag"`
	Leader      *int32   `json:"leader"` // null: the log has none
	Records     int64    `json:"records"`
	LastEventMs *int64   `json:"lastEventMs"`
	AgeMs       *int64   `json:"lastEventAgeMs"`
	Invalid     badCount `json:"invalid"`
	Fatal       badCount `json:"fatal"`
}

type badCount struct {
	Count int64  `json:"count"`
	First *int64 `json:"firstOffset"`
}

func (b *badCount) add(offset int64) {
	if b.Count++; b.First == nil {
		b.First = &offset
	}
}

func (a *app) metadataStatus(ctx context.Context, t *target) (err error) {
	s, err := a.openMetadataLog(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	st, err := s.readStatus(ctx)
	if err != nil {
		return err
	}
	tps, err := st.partitions(t)
	if err != nil {
		return err
	}
	for _, text := range st.misplaced {
		a.notice(text)
	}
	rows := make([]partStatus, len(tps))
	for i, tp := range tps {
		rows[i] = st.partition(tp, a.Now())
	}
	if !a.json {
		return a.statusText(st, rows)
	}
	if err := a.printJSON(st.log); err != nil {
		return err
	}
	for _, p := range st.parts {
		if err := a.printJSON(p); err != nil {
			return err
		}
	}
	for i := range rows {
		if err := a.printJSON(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// readStatus reads the whole log.
func (s *session) readStatus(ctx context.Context) (*metaStatus, error) {
	bounds, err := s.log.Bounds(ctx, allPartitions(s.log))
	if err != nil {
		return nil, err
	}
	st := &metaStatus{log: logStatus{Type: "log", LogID: string(s.log.Identity()), Kind: s.metaLog.Kind, Partitions: s.log.Partitions(), Dangers: []string{}}}
	for _, p := range allPartitions(s.log) {
		st.parts = append(st.parts, &metaPartStatus{Type: "metadataPartition", Partition: p, First: bounds[p].First, Applied: bounds[p].Next})
		st.audits = append(st.audits, &rlmm.Audit{})
	}
	err = s.app.scanLog(ctx, s.log, bounds, func(r *metaRecord) error {
		p := st.parts[r.partition]
		v := st.audits[r.partition].Apply(r.value)
		p.Records++
		at := r.timestampMs
		p.LastEventMs = &at
		if v.Record == nil {
			p.Invalid.add(r.offset)
		}
		if v.Fatal != rlmm.Harmless {
			p.Fatal.add(r.offset)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if d, ok := s.log.(rlmm.Describer); ok {
		if st.describe, err = d.Describe(ctx); err != nil {
			return nil, err
		}
		st.log.described(st.describe)
	}
	if bounds, err = s.log.Bounds(ctx, allPartitions(s.log)); err != nil {
		return nil, err
	}
	now := s.app.Now().UnixMilli()
	for _, p := range st.parts {
		p.Next = bounds[p.Partition].Next
		p.Lag = max(0, p.Next-p.Applied)
		if p.LastEventMs != nil {
			age := max(0, now-*p.LastEventMs)
			p.AgeMs = &age
		}
		if leader, ok := st.describe.Leaders[p.Partition]; ok {
			p.Leader = &leader
		}
	}
	return st, nil
}

func (s *logStatus) described(d rlmm.Description) {
	s.Settings, s.Dangers = d.Settings, dangers(d.Settings)
	if d.SettingsErr != nil {
		text := d.SettingsErr.Error()
		s.Unknown = &text
	}
	if d.Grown != 0 {
		s.Dangers = append(s.Dangers, fmt.Sprintf("the log has %d partitions, and had %d when it was opened: records are looked for in others than they were written to, "+
			"and brokers do not start until remote.log.metadata.topic.num.partitions says so", d.Grown, s.Partitions))
	}
}

// dangers says which of a topic's settings lose metadata, or can.
func dangers(settings map[string]string) []string {
	out := []string{}
	is := func(key string) (string, bool) { v, ok := settings[key]; return v, ok }
	if v, ok := is("retention.ms"); ok && v != "-1" {
		out = append(out, "retention.ms="+v+": records expire, and with them the segments that they stand for; set -1")
	}
	if v, ok := is("retention.bytes"); ok && v != "-1" {
		out = append(out, "retention.bytes="+v+": records expire, and with them the segments that they stand for; set -1")
	}
	if v, ok := is("cleanup.policy"); ok && strings.Contains(v, "compact") {
		out = append(out, "cleanup.policy="+v+": the records have no keys, and a broker cannot append them to a compacted topic; set delete")
	}
	if v, ok := is("min.insync.replicas"); ok {
		if n, err := strconv.Atoi(v); err == nil && n < 2 {
			out = append(out, "min.insync.replicas="+v+": one broker that fails can take acknowledged records with it; set 2 where there are 3 replicas")
		}
	}
	if v, ok := is("unclean.leader.election.enable"); ok && v == "true" {
		out = append(out, "unclean.leader.election.enable="+v+": a replica that lags behind can become the leader, and acknowledged records are lost; set false")
	}
	return out
}

// partitions returns the user partitions that are meant; see target.partitions.
func (st *metaStatus) partitions(t *target) ([]remotelog.TopicIDPartition, error) {
	var out []remotelog.TopicIDPartition
	ids := map[remotelog.UUID]bool{}
	for at, audit := range st.audits {
		for _, tp := range audit.Partitions() {
			if t.topic == tp.Topic {
				ids[tp.TopicID] = true
			}
			if want := rlmm.MetadataPartition(tp, st.log.Partitions); int(want) != at {
				st.misplaced = append(st.misplaced, fmt.Sprintf("metadata partition %d has records of %s, which belong into %d: no broker reads them there",
					at, tp, want))
			}
			if t.matches(tp) && !slices.Contains(out, tp) {
				out = append(out, tp)
			}
		}
	}
	if t.topicID == "" && t.partition >= 0 && len(ids) > 1 {
		return nil, usagef("topic %s has several ids, choose one with --topic-id: %s", t.topic, idList(ids))
	}
	if len(out) == 0 && t.topic != "" {
		return nil, fmt.Errorf("%w: no record names %s; tierkit metadata status lists what there is, and with --topic-id and "+
			"--metadata-partitions tells where its records would be", remotelog.ErrNotFound, t.topic)
	}
	sortPartitions(out)
	return out, nil
}
