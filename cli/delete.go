package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlm"
)

// deleteFlags say what to delete: exactly one of all, before, unfinished.
type deleteFlags struct {
	target
	all        bool
	before     int64
	unfinished bool
	olderThan  time.Duration
	yes        bool
}

func (a *app) deleteCmd() *cobra.Command {
	var f deleteFlags
	cmd := &cobra.Command{
		Use:   "delete --topic T --partition P (--all | --before-offset N | --unfinished --older-than D [--yes])",
		Short: "delete remote segments of a partition, in two phases",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.delete(cmd.Context(), &f)
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "every segment, whatever its state")
	cmd.Flags().Int64Var(&f.before, "before-offset", 0, "segments that end below `OFFSET`")
	cmd.Flags().BoolVar(&f.unfinished, "unfinished", false, "segments whose copy or delete did not end")
	cmd.Flags().DurationVar(&f.olderThan, "older-than", 0, "with --unfinished: only those whose latest event is older, such as 24h")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --unfinished: do not ask")
	return cmd
}

func (f *deleteFlags) check(cmd *cobra.Command) error {
	if err := f.target.check(true); err != nil {
		return err
	}
	chosen := 0
	for _, name := range []string{"all", "before-offset", "unfinished"} {
		if cmd.Flags().Changed(name) {
			chosen++
		}
	}
	switch {
	case chosen != 1:
		return usagef("say what to delete: one of --all, --before-offset N, --unfinished --older-than D")
	case f.unfinished && !cmd.Flags().Changed("older-than"):
		return usagef("--unfinished needs --older-than, such as 24h: a younger one may be a copy that is still running")
	case f.olderThan < 0:
		return usagef("--older-than is %v, it must not be negative", f.olderThan)
	case !f.unfinished && (f.yes || cmd.Flags().Changed("older-than")):
		return usagef("--older-than and --yes go with --unfinished")
	case f.before < 0:
		return usagef("--before-offset is %d, it must not be negative", f.before)
	}
	return nil
}

func (a *app) delete(ctx context.Context, f *deleteFlags) (err error) {
	s, err := a.openWriter(ctx, topicMustExist)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	tp, err := f.one(ctx, s.reader)
	if err != nil {
		return err
	}
	begin := a.Now()
	p := a.newResultPrinter(s)
	o := rlm.DeleteOptions{Protocol: s.protocol(), OnResult: p.result}
	var sum rlm.Summary
	switch {
	case f.all:
		sum, err = rlm.DeleteAll(ctx, s.meta, s.segments, tp, o)
	case f.unfinished:
		list, err := rlm.Unfinished(ctx, s.meta, tp, a.Now().Add(-f.olderThan))
		if err != nil {
			return err
		}
		if ok, err := a.confirm(f, list); err != nil || !ok {
			return err
		}
		if sum, err = rlm.DeleteSegments(ctx, s.meta, s.segments, list, o); err != nil {
			return errors.Join(err, p.finish(deleteSummary(sum, a.Now().Sub(begin))))
		}
	default:
		sum, err = rlm.DeleteBefore(ctx, s.meta, s.segments, tp, f.before, o)
	}
	return errors.Join(err, p.finish(deleteSummary(sum, a.Now().Sub(begin))))
}

// confirm lists what would be deleted and asks on a terminal. Elsewhere the list is all, unless --yes was given.
func (a *app) confirm(f *deleteFlags, list []remotelog.SegmentMetadata) (bool, error) {
	if len(list) == 0 && !f.yes && !a.json {
		return false, a.printf("no segment of %s-%d is unfinished for %v or longer\n", f.topic, f.partition, f.olderThan)
	}
	rows := make([]segmentRow, len(list))
	for i := range list {
		rows[i] = metadataRow(list[i], "")
	}
	if f.yes {
		return true, nil
	}
	if a.json {
		for i := range rows {
			if err := a.printJSON(rows[i].json()); err != nil {
				return false, err
			}
		}
	} else if err := a.lsText(rows); err != nil {
		return false, err
	}
	in, ok := a.In.(*os.File)
	if len(list) == 0 || !ok || !term.IsTerminal(int(in.Fd())) {
		if len(list) > 0 {
			a.notice("nothing was deleted: give --yes to delete these")
		}
		return false, nil
	}
	_, _ = fmt.Fprintf(a.Err, "delete %s? [y/N] ", count(len(list), "segment"))
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return false, nil //nolint:nilerr // the end of the input is a no
	}
	return strings.EqualFold(strings.TrimSpace(answer), "y"), nil
}
