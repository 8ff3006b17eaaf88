package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlm"
)

func (a *app) copyCmd() *cobra.Command {
	var o rlm.OffloadOptions
	cmd := &cobra.Command{
		Use:   "copy LOGDIR...",
		Short: "tier every closed segment of partition directories, or of log directories above many",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("which directory? Give a partition directory (orders-0) or a broker's log directory")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.copy(cmd.Context(), args, o) },
	}
	cmd.Flags().BoolVar(&o.IncludeActive, "include-active", false, "take the last segment of each partition too")
	return cmd
}

func (a *app) copy(ctx context.Context, dirs []string, o rlm.OffloadOptions) (err error) {
	for _, dir := range dirs {
		if _, err := rlm.FindPartitions(dir); err != nil {
			return asUsage(err)
		}
	}
	s, err := a.openWriter(ctx, topicMayBeMade)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err := s.assign(ctx, partitionsOf(dirs)); err != nil {
		return err
	}
	// What cannot be cleaned up does not keep the other segments from being copied: an unfinished one counts as not there.
	left := s.recover(ctx)
	if ctx.Err() != nil {
		return left
	}
	begin := a.Now()
	p := a.newResultPrinter(s)
	o.Protocol = s.protocol()
	o.OnStart = func(md remotelog.SegmentMetadata) { p.start("copying", md) }
	o.OnResult = p.result
	o.OnNotice = func(n rlm.Notice) { a.notice(n.Dir + ": " + n.Text) }
	sum, err := rlm.Offload(ctx, s.meta, s.segments, dirs, o)
	return errors.Join(left, err, p.finish(copySummary(sum, a.Now().Sub(begin))))
}

// partitionsOf returns the partitions of the directories. What cannot be read is left out: Offload reports it.
func partitionsOf(dirs []string) []remotelog.TopicIDPartition {
	var out []remotelog.TopicIDPartition
	for _, path := range dirs {
		found, _ := rlm.FindPartitions(path)
		for _, dir := range found {
			if tp, err := rlm.PartitionOf(dir); err == nil {
				out = append(out, tp)
			}
		}
	}
	return out
}

// resultPrinter prints what became of each segment of a copy or delete, and a progress line in between on a terminal. Its methods
// are not called at the same time.
type resultPrinter struct {
	a        *app
	s        *session
	progress *progress
	head     bool
	err      error // of writing
}

func (a *app) newResultPrinter(s *session) *resultPrinter {
	return &resultPrinter{a: a, s: s, progress: a.newProgress()}
}

func (p *resultPrinter) start(what string, md remotelog.SegmentMetadata) {
	p.progress.show("%s %s from offset %d (%s)", what, md.TopicIDPartition, md.StartOffset, size(md.SizeBytes))
}

// resultJSON is the JSON shape of copy and delete.
type resultJSON struct {
	Topic       string  `json:"topic"`
	Partition   int32   `json:"partition"`
	SegmentID   *string `json:"segmentId"` // null: it failed before it got an id
	StartOffset int64   `json:"startOffset"`
	EndOffset   int64   `json:"endOffset"`
	SizeBytes   int64   `json:"segmentSizeInBytes"`
	StoredBytes *int64  `json:"storedBytes"` // null: not known
	Seconds     float64 `json:"seconds"`
	Result      string  `json:"result"`
	Error       *string `json:"error"`
}

func (p *resultPrinter) result(r rlm.SegmentResult) {
	p.progress.clear()
	stored := storedBytes(r.Segment.CustomMetadata)
	if n := p.s.stored.take(r.Segment.ID); n != nil {
		stored = n
	}
	if p.a.json {
		md := &r.Segment
		j := resultJSON{
			Topic: md.Topic, Partition: md.Partition, StartOffset: md.StartOffset, EndOffset: md.EndOffset,
			SizeBytes: md.SizeBytes, StoredBytes: stored, Seconds: seconds(r.Duration), Result: string(r.Result),
		}
		if !md.ID.IsZero() {
			id := md.ID.String()
			j.SegmentID = &id
		}
		if r.Err != nil {
			text := oneLine(r.Err)
			j.Error = &text
		}
		p.err = errors.Join(p.err, p.a.printJSON(j))
		return
	}
	p.text(r, stored)
}

func (p *resultPrinter) text(r rlm.SegmentResult, stored *int64) {
	const layout = "%-24s %21s %10s %10s %12s  %s\n"
	if !p.head {
		p.head = true
		p.err = errors.Join(p.err, p.a.printf(layout, "PARTITION", "OFFSETS", "BYTES", "STORED", "RATE", "RESULT"))
	}
	md := &r.Segment
	storedText, rateText, result := "-", "-", string(r.Result)
	if stored != nil {
		storedText = size(*stored)
	}
	if r.Result == rlm.Copied {
		rateText = rate(md.SizeBytes, r.Duration)
	}
	if r.Err != nil {
		result += ": " + oneLine(r.Err)
	}
	offsets := strconv.FormatInt(md.StartOffset, 10) + ".." + strconv.FormatInt(md.EndOffset, 10)
	p.err = errors.Join(p.err, p.a.printf(layout, printable(md.TopicIDPartition.String()), offsets, size(md.SizeBytes), storedText, rateText, printable(result)))
}

// summaryJSON is the last line of copy and delete.
type summaryJSON struct {
	Copied  *int    `json:"copied,omitempty"`
	Skipped *int    `json:"skipped,omitempty"`
	Deleted *int    `json:"deleted,omitempty"`
	Failed  int     `json:"failed"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// closing is the last line of a copy or delete, for people and for scripts.
type closing struct {
	text string
	json summaryJSON
}

func copySummary(sum rlm.Summary, took time.Duration) closing {
	return closing{
		text: fmt.Sprintf("%s copied (%s, %s), %d skipped, %d failed", count(sum.Copied, "segment"), size(sum.Bytes), rate(sum.Bytes, took), sum.Skipped, sum.Failed),
		json: summaryJSON{Copied: &sum.Copied, Skipped: &sum.Skipped, Failed: sum.Failed, Bytes: sum.Bytes, Seconds: seconds(took)},
	}
}

func deleteSummary(sum rlm.Summary, took time.Duration) closing {
	return closing{
		text: fmt.Sprintf("%s deleted (%s), %d failed", count(sum.Deleted, "segment"), size(sum.Bytes), sum.Failed),
		json: summaryJSON{Deleted: &sum.Deleted, Failed: sum.Failed, Bytes: sum.Bytes, Seconds: seconds(took)},
	}
}

// finish prints the summary.
func (p *resultPrinter) finish(c closing) error {
	p.progress.clear()
	if p.err != nil {
		return fmt.Errorf("write the results: %w", p.err)
	}
	if !p.a.json {
		return p.a.printf("%s\n", c.text)
	}
	raw, err := json.Marshal(c.json)
	if err != nil {
		return err
	}
	return p.a.printJSON(map[string]json.RawMessage{"summary": raw})
}

// storedBytes is what custom metadata say about the size in the store; nil if they do not.
func storedBytes(c remotelog.CustomMetadata) *int64 {
	custom, err := manifest.ParseCustom(c)
	if err != nil || !custom.Has[manifest.RemoteSize] {
		return nil
	}
	return &custom.RemoteSize
}
