package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
)

func (a *app) metadataCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "metadata",
		Short: "look at the metadata log: its records, its state, what comes in",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			names := strings.Join(commandNames(cmd), " ")
			if len(args) > 0 {
				return usagef("metadata: unknown command %q; it has: %s", args[0], names)
			}
			return usagef("metadata needs one of: %s", names)
		},
	}
	cmd.AddCommand(a.metadataDumpCmd(), a.metadataStatusCmd(), a.metadataWatchCmd())
	return cmd
}

func (a *app) metadataDumpCmd() *cobra.Command {
	var f recordFilter
	var logDir string
	cmd := &cobra.Command{
		Use:   "dump [--topic T] [--partition P] [--segment ID] [--from X] [--to X] [--fatal] [--log-dir DIR]",
		Short: "decode every record, and say what it changed and what it does to a broker",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.dump(cmd.Context(), &f, logDir)
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&logDir, "log-dir", "", "read the topic's partition directories in `DIR`, a log directory of a stopped broker")
	return cmd
}

func (a *app) metadataWatchCmd() *cobra.Command {
	var f recordFilter
	cmd := &cobra.Command{
		Use:   "watch [--topic T] [--partition P] [--segment ID] [--from X] [--to X] [--fatal]",
		Short: "show records as they come in, until Ctrl-C",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.watch(cmd.Context(), &f)
		},
	}
	f.flags(cmd)
	return cmd
}

// recordFilter says which records are shown.
type recordFilter struct {
	target
	segment  string
	from, to recordBound
	fatal    bool

	id remotelog.UUID // of segment
}

func (f *recordFilter) flags(cmd *cobra.Command) {
	f.target.flags(cmd)
	cmd.Flags().StringVar(&f.segment, "segment", "", "records of the segment with this `ID`")
	cmd.Flags().Var(&f.from, "from", "begin at this offset of a metadata partition, or this time (`X` is a number, or 2006-01-02T15:04:05Z)")
	cmd.Flags().Var(&f.to, "to", "end with this offset or time")
	cmd.Flags().BoolVar(&f.fatal, "fatal", false, "only records that end the metadata consumer of a broker")
}

func (f *recordFilter) check() (err error) {
	if err := f.target.check(false); err != nil {
		return err
	}
	if f.segment != "" {
		if f.id, err = remotelog.ParseUUID(f.segment); err != nil {
			return usagef("--segment: %v", err)
		}
	}
	return nil
}

// matches reports whether a record is to be shown. One that cannot be decoded belongs to no partition.
func (f *recordFilter) matches(r *metaRecord, v *rlmm.Verdict) bool {
	if f.fatal && v.Fatal == rlmm.Harmless || f.from.given && f.from.compare(r) > 0 || f.to.given && f.to.compare(r) < 0 {
		return false
	}
	if f.topic == "" && f.segment == "" {
		return true
	}
	var id remotelog.SegmentID
	switch rec := v.Record.(type) {
	case *rlmm.SegmentRecord:
		id = rec.Metadata.SegmentID
	case *rlmm.UpdateRecord:
		id = rec.Update.SegmentID
	case *rlmm.PartitionDeleteRecord:
		id.TopicIDPartition = rec.Delete.TopicIDPartition
	default:
		return false
	}
	return f.target.matches(id.TopicIDPartition) && (f.segment == "" || id.ID == f.id)
}

// recordBound is a place in the log: an offset, in whatever metadata partition, or a time.
type recordBound struct {
	text   string
	given  bool
	time   bool
	number int64 // offset, or milliseconds
}

// Set implements pflag.Value.
func (b *recordBound) Set(text string) error {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		*b = recordBound{text: text, given: true, number: n}
		return nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return usagef("%q is neither an offset nor a time such as 2006-01-02T15:04:05Z", text)
	}
	*b = recordBound{text: text, given: true, time: true, number: t.UnixMilli()}
	return nil
}

// String implements pflag.Value.
func (b *recordBound) String() string { return b.text }

// Type implements pflag.Value.
func (b *recordBound) Type() string { return "offset or time" }

// compare returns how the bound lies to a record: 1 behind it, -1 before it.
func (b *recordBound) compare(r *metaRecord) int {
	at := r.offset
	if b.time {
		at = r.timestampMs
	}
	switch {
	case b.number > at:
		return 1
	case b.number < at:
		return -1
	}
	return 0
}
