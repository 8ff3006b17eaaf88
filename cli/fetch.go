package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/remotelog"
)

func (a *app) fetchCmd() *cobra.Command {
	var f segmentFlags
	var from, to int64
	cmd := &cobra.Command{
		Use:   "fetch --topic T --partition P --segment ID [--from N] [--to N] [-o FILE]",
		Short: "write bytes of a segment's .log",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case from < 0:
				return usagef("--from is %d, it must not be negative", from)
			case cmd.Flags().Changed("to") && to < from:
				return usagef("--to is %d, below --from %d (both are positions, --to is inclusive)", to, from)
			case !cmd.Flags().Changed("to"):
				to = remotelog.ToEnd
			}
			return a.withSegment(cmd.Context(), &f, func(ctx context.Context, sm remotelog.StorageManager, md remotelog.SegmentMetadata) (io.ReadCloser, error) {
				return sm.Fetch(ctx, md, from, to)
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().Int64Var(&from, "from", 0, "first `POSITION`")
	cmd.Flags().Int64Var(&to, "to", 0, "last `POSITION`, inclusive (default: the end)")
	return cmd
}

func (a *app) indexCmd() *cobra.Command {
	var f segmentFlags
	var kind string
	cmd := &cobra.Command{
		Use:   "index --topic T --partition P --segment ID --type TYPE [-o FILE]",
		Short: "write one index of a segment",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if kind == "" {
				return usagef("--type is required: offset, timestamp, producer-snapshot, leader-epoch or transaction")
			}
			it, err := remotelog.ParseIndexType(kind)
			if err != nil {
				return usagef("--type: %v", err)
			}
			return a.withSegment(cmd.Context(), &f, func(ctx context.Context, sm remotelog.StorageManager, md remotelog.SegmentMetadata) (io.ReadCloser, error) {
				return sm.FetchIndex(ctx, md, it)
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&kind, "type", "", "`TYPE`: offset, timestamp, producer-snapshot, leader-epoch or transaction")
	return cmd
}

// withSegment opens what the flags name and writes the stream that get opens.
func (a *app) withSegment(ctx context.Context, f *segmentFlags, get func(context.Context, remotelog.StorageManager, remotelog.SegmentMetadata) (io.ReadCloser, error)) (err error) {
	id, custom, err := f.check()
	if err != nil {
		return err
	}
	s, err := a.openReader(ctx, f.from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	md, err := f.segment(ctx, s.reader, id)
	if err != nil {
		return err
	}
	if custom != nil {
		md.CustomMetadata = custom
	}
	src, err := get(ctx, s.segments, md)
	switch {
	case errors.Is(err, remotelog.ErrInvalidArgument):
		return asUsage(err) // a position outside the file
	case err != nil:
		return err
	}
	return a.output(f.out, src)
}
