package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlm"
)

// readFlags say which records to show and how.
type readFlags struct {
	target
	offset    int64
	timestamp int64
	byTime    bool
	max       int64
	format    string
	isolation string
	from      origin
}

func (a *app) readCmd() *cobra.Command {
	var f readFlags
	cmd := &cobra.Command{
		Use:   "read --topic T --partition P (--offset N | --timestamp MS) [--max N] [--format text|json|raw] [--isolation LEVEL]",
		Short: "print records, found by leader epoch, offset index and ranged reads",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkRead(cmd, &f); err != nil {
				return err
			}
			return a.read(cmd.Context(), &f)
		},
	}
	f.flags(cmd)
	cmd.Flags().Int64Var(&f.offset, "offset", 0, "begin at `OFFSET`")
	cmd.Flags().Int64Var(&f.timestamp, "timestamp", 0, "begin at the first record that is not older than `MS` since 1970")
	cmd.Flags().Int64Var(&f.max, "max", 0, "at most `N` records (0: all)")
	cmd.Flags().StringVar(&f.format, "format", "text", "text, json, or raw: the values alone, one a line")
	cmd.Flags().StringVar(&f.isolation, "isolation", "read_uncommitted", "read_uncommitted or read_committed")
	f.from.flag(cmd)
	return cmd
}

func (a *app) checkRead(cmd *cobra.Command, f *readFlags) error {
	if err := f.check(true); err != nil {
		return err
	}
	f.byTime = cmd.Flags().Changed("timestamp")
	if a.json && !cmd.Flags().Changed("format") {
		f.format = "json"
	}
	switch {
	case f.byTime == cmd.Flags().Changed("offset"):
		return usagef("say where to begin: one of --offset N and --timestamp MS")
	case f.offset < 0 || f.timestamp < 0:
		return usagef("--offset and --timestamp must not be negative")
	case f.max < 0:
		return usagef("--max is %d, it must not be negative", f.max)
	case f.format != "text" && f.format != "json" && f.format != "raw":
		return usagef("--format is %q, it must be text, json or raw", f.format)
	case f.isolation != "read_uncommitted" && f.isolation != "read_committed":
		return usagef("--isolation is %q, it must be read_uncommitted or read_committed", f.isolation)
	case a.json && f.format != "json":
		return usagef("--json and --format %s contradict each other", f.format)
	}
	return nil
}

func (a *app) read(ctx context.Context, f *readFlags) (err error) {
	s, err := a.openReader(ctx, f.from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	tp, err := f.one(ctx, s.reader)
	if err != nil {
		return err
	}
	v, err := rlm.Open(ctx, s.reader, s.segments, tp, rlm.ViewOptions{OnNotice: func(n rlm.Notice) { a.notice(n.Text) }})
	if err != nil {
		return err
	}
	offset := f.offset
	if f.byTime {
		at, ok, err := v.OffsetForTimestamp(ctx, f.timestamp)
		if err != nil {
			return err
		}
		if !ok {
			start, end := v.Range()
			return fmt.Errorf("%w: no record of %s has timestamp %d or a later one; offsets %d to %d are tiered", remotelog.ErrNotFound, tp, f.timestamp, start, end)
		}
		offset = at.Offset
	}
	return a.printRecords(ctx, v, tp, offset, f)
}

func (a *app) printRecords(ctx context.Context, v *rlm.View, tp remotelog.TopicIDPartition, offset int64, f *readFlags) error {
	o := rlm.ReadOptions{MaxRecords: f.max}
	if f.isolation == "read_committed" {
		o.Isolation = rlm.ReadCommitted
	}
	out := bufio.NewWriter(a.Out)
	var line []byte
	for rec, err := range v.Records(ctx, offset, o) {
		if err != nil {
			return errors.Join(out.Flush(), err)
		}
		switch f.format {
		case "json":
			line, err = appendRecordJSON(line[:0], tp, &rec)
		case "raw":
			line = append(line[:0], rec.Value...)
		default:
			line = appendRecordText(line[:0], &rec)
		}
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}
