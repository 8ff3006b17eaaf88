package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

// partStatus is the JSON shape of a user partition in status. Scripts rely on the names.
type partStatus struct {
	Type string `json:"type"` // partition
	recordPlace
	MetadataPartition int32              `json:"metadataPartition"`
	Segments          map[string]int64   `json:"segments"` // by state
	Bytes             map[string]int64   `json:"bytes"`
	StartOffset       *int64             `json:"startOffset"` // of what is finished; null: nothing is
	EndOffset         *int64             `json:"endOffset"`
	Highest           epochMap           `json:"highestOffsets"` // by leader epoch
	OldestUnfinished  *unfinishedSegment `json:"oldestUnfinished"`
	DeleteState       *string            `json:"deleteState"`
}

type unfinishedSegment struct {
	SegmentID        string `json:"segmentId"`
	State            string `json:"state"`
	StartOffset      int64  `json:"startOffset"`
	EndOffset        int64  `json:"endOffset"`
	EventTimestampMs int64  `json:"eventTimestampMs"`
	AgeMs            int64  `json:"ageMs"`

	age time.Duration
}

func sortPartitions(tps []remotelog.TopicIDPartition) {
	slices.SortFunc(tps, remotelog.TopicIDPartition.Compare)
}

func idList(ids map[remotelog.UUID]bool) string {
	list := make([]string, 0, len(ids))
	for id := range ids {
		list = append(list, id.String())
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// partition sums up what the log says of one user partition.
func (st *metaStatus) partition(tp remotelog.TopicIDPartition, now time.Time) partStatus {
	p := rlmm.MetadataPartition(tp, st.log.Partitions)
	// A record may stand in another metadata partition than the partitioner says, if its writer had another N; brokers do not
	// find it there, and it is shown where it should be.
	row := partStatus{
		Type: "partition", recordPlace: recordPlace{TopicID: tp.TopicID.String(), Topic: tp.Topic, Partition: tp.Partition}, MetadataPartition: p,
		Segments: map[string]int64{}, Bytes: map[string]int64{}, Highest: epochMap{},
	}
	audit := st.audits[p]
	for md := range audit.Segments(tp) {
		row.Segments[md.State.String()]++
		row.Bytes[md.State.String()] += md.SizeBytes
		if md.State == remotelog.CopySegmentFinished {
			if row.StartOffset == nil || md.StartOffset < *row.StartOffset {
				row.StartOffset = &md.StartOffset
			}
			if row.EndOffset == nil || md.EndOffset > *row.EndOffset {
				row.EndOffset = &md.EndOffset
			}
			continue
		}
		if o := row.OldestUnfinished; o == nil || md.EventTimestampMs < o.EventTimestampMs {
			age := max(0, now.Sub(time.UnixMilli(md.EventTimestampMs)))
			row.OldestUnfinished = &unfinishedSegment{
				SegmentID: md.ID.String(), State: md.State.String(), StartOffset: md.StartOffset, EndOffset: md.EndOffset,
				EventTimestampMs: md.EventTimestampMs, AgeMs: age.Milliseconds(), age: age,
			}
		}
	}
	for _, e := range audit.HighestOffsets(tp) {
		row.Highest = append(row.Highest, remotelog.LeaderEpoch{Epoch: e.Epoch, StartOffset: e.Offset})
	}
	if s, ok := audit.Deleted(tp); ok {
		text := s.String()
		row.DeleteState = &text
	}
	return row
}

func (a *app) statusText(st *metaStatus, rows []partStatus) error {
	if err := a.printf("log %s (%s), %s\n", st.log.LogID, st.log.Kind, count(int(st.log.Partitions), "metadata partition")); err != nil {
		return err
	}
	if err := a.settingsText(&st.log); err != nil {
		return err
	}
	t := newTable(a.Out, "METADATA PARTITION", "FIRST", "NEXT", "LAG", "LEADER", "LAST EVENT", "AGE", "INVALID", "FATAL")
	for _, p := range st.parts {
		leader, last, age := "-", "-", "-"
		if p.Leader != nil {
			leader = strconv.Itoa(int(*p.Leader))
		}
		if p.LastEventMs != nil {
			last, age = timestamp(*p.LastEventMs), (time.Duration(*p.AgeMs) * time.Millisecond).Round(time.Second).String()
		}
		t.row(strconv.Itoa(int(p.Partition)), num(p.First), num(p.Next), num(p.Lag), leader, last, age, p.Invalid.String(), p.Fatal.String())
	}
	if err := t.flush(); err != nil || len(rows) == 0 {
		return err
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	t = newTable(a.Out, "PARTITION", "TOPIC ID", "IN", "OFFSETS", "HIGHEST", "FINISHED", "COPYING", "DELETING", "OLDEST UNFINISHED", "DELETE STATE")
	for i := range rows {
		t.row(rows[i].cells()...)
	}
	return t.flush()
}

// settingsText shows the settings of the topic, and what is dangerous about it.
func (a *app) settingsText(s *logStatus) error {
	if s.Unknown != nil {
		if err := a.printf("settings not known: %s\n", printable(*s.Unknown)); err != nil {
			return err
		}
	}
	if len(s.Settings) > 0 {
		var all []string
		for _, key := range slices.Sorted(maps.Keys(s.Settings)) {
			all = append(all, key+"="+s.Settings[key])
		}
		if err := a.printf("settings %s\n", printable(strings.Join(all, " "))); err != nil {
			return err
		}
	}
	for _, d := range s.Dangers {
		if err := a.printf("DANGER: %s\n", printable(d)); err != nil {
			return err
		}
	}
	return nil
}

func (r *partStatus) cells() []string {
	offsets, high, oldest, state := "-", "-", "-", "-"
	if r.StartOffset != nil {
		offsets = num(*r.StartOffset) + ".." + num(*r.EndOffset)
	}
	if n := len(r.Highest); n > 0 {
		high = num(r.Highest[n-1].StartOffset) + " (epoch " + strconv.Itoa(int(r.Highest[n-1].Epoch)) + ")"
	}
	if o := r.OldestUnfinished; o != nil {
		oldest = o.SegmentID + " for " + o.age.Round(time.Second).String()
	}
	if r.DeleteState != nil {
		state = *r.DeleteState
	}
	of := func(s remotelog.State) string {
		if n := r.Segments[s.String()]; n > 0 {
			return num(n) + " (" + size(r.Bytes[s.String()]) + ")"
		}
		return "-"
	}
	return []string{
		r.Topic + "-" + strconv.Itoa(int(r.Partition)), r.TopicID, strconv.Itoa(int(r.MetadataPartition)), offsets, high,
		of(remotelog.CopySegmentFinished), of(remotelog.CopySegmentStarted), of(remotelog.DeleteSegmentStarted), oldest, state,
	}
}

// String is the number, with the offset of the first one.
func (b badCount) String() string {
	if b.First == nil {
		return "0"
	}
	return num(b.Count) + " (first at " + num(*b.First) + ")"
}

func num(n int64) string { return strconv.FormatInt(n, 10) }
