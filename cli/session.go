package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/props"
	"github.com/tierkit/tierkit/internal/settings"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlm"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/filelog"
	"github.com/tierkit/tierkit/rlmm/kafkalog"
	"github.com/tierkit/tierkit/rlmm/memlog"
	"github.com/tierkit/tierkit/rsm"
)

// session is what one command has opened. Which fields are set depends on how it was opened.
type session struct {
	app   *app
	setup *rsm.Setup
	file  *props.File

	segments *rsm.Manager
	store    *backends.Store          // of segments
	meta     *rlmm.Manager            // of the metadata log
	ownLog   bool                     // no other process writes the log
	reader   remotelog.MetadataReader // meta, or index
	index    *rsm.StoreIndex          // with --from-store

	log     rlmm.Log
	metaLog props.MetadataLog
	kafka   kafkalog.Config // with metaLog.Kind == props.LogKafka
	topic   topicUse
	stored  storedSizes
}

// configure reads the configuration and reports every mistake in it at once. Nothing is opened.
func (a *app) configure() (*session, error) {
	if err := a.needConfig(storeFile); err != nil {
		return nil, err
	}
	file, err := props.Load(a.config)
	if file == nil {
		return nil, asUsage(err)
	}
	s := &session{app: a, file: file}
	var merr, serr error
	s.metaLog, merr = file.MetadataLog(settings.Options{Getenv: a.LookupEnv})
	s.setup, serr = rsm.ReadSettings(rsm.OpenOptions{
		Registry: a.registry, Props: file.RSM, Prefix: file.RSMPrefix, Getenv: a.LookupEnv, Logger: a.log, Now: a.Now,
		Hooks: rsm.Hooks{Copied: s.stored.put},
	})
	kerr := s.readKafka()
	if err := errors.Join(err, serr, merr, kerr); err != nil {
		return nil, asUsage(fmt.Errorf("%s: %w", a.config, err))
	}
	for _, n := range file.Notices {
		a.notice(n)
	}
	// The directory belongs to the daemon, which may be running, and a command that ends soon gains nothing by it.
	s.setup.Config.Disk = rsm.DiskConfig{}
	return s, nil
}

// openStore opens the store alone.
func (a *app) openStore(ctx context.Context) (*session, error) {
	s, err := a.configure()
	if err != nil {
		return nil, err
	}
	return s, s.openSegments(ctx)
}

func (s *session) openSegments(ctx context.Context) error {
	m, err := s.setup.Open(ctx)
	if err != nil {
		// What is wrong here is where the settings point to: a root or bucket that is not there, a key file that cannot be read.
		if errors.Is(err, backends.InvalidArgument) || settings.Problems(err) != nil {
			err = asUsage(err)
		}
		return err
	}
	s.segments, s.store = m, m.Store()
	return nil
}

// origin is where a command learns which segments there are.
type origin int

const (
	fromLog       origin = iota // the metadata log
	fromManifests               // the manifests in the store
)

// flag declares --from-store.
func (o *origin) flag(cmd *cobra.Command) {
	cmd.Flags().BoolFunc("from-store", "work from the manifests in the store alone, without metadata", func(text string) error {
		on, err := strconv.ParseBool(text)
		if *o = fromLog; on {
			*o = fromManifests
		}
		return err
	})
}

// openReader opens the store, and metadata to find segments by: the log, or else the manifests.
func (a *app) openReader(ctx context.Context, from origin) (*session, error) {
	s, err := a.configure()
	if err != nil {
		return nil, err
	}
	return s.finish(ctx, s.openSegments, func(ctx context.Context) error {
		if from == fromManifests {
			return s.openIndex()
		}
		return s.openMetadata(ctx, filelog.OpenReadOnly)
	})
}

// openLister opens what ls needs: the metadata without any request to the store, or the manifests.
func (a *app) openLister(ctx context.Context, from origin) (*session, error) {
	if from == fromManifests {
		return a.openReader(ctx, from)
	}
	s, err := a.configure()
	if err != nil {
		return nil, err
	}
	return s.finish(ctx, func(ctx context.Context) error { return s.openMetadata(ctx, filelog.OpenReadOnly) })
}

// openWriter opens the store and the metadata log for writing.
func (a *app) openWriter(ctx context.Context, topic topicUse) (*session, error) {
	s, err := a.configure()
	if err != nil {
		return nil, err
	}
	s.topic = topic
	// A store that cannot be written is found out before anything is recorded.
	probe := func(ctx context.Context) error { return s.store.Probe(ctx) }
	return s.finish(ctx, s.openSegments, probe, func(ctx context.Context) error {
		s.ownLog = s.metaLog.Kind != props.LogKafka // the file log is locked, the one in memory is nobody else's
		return s.openMetadata(ctx, filelog.Open)
	})
}

// finish runs the steps of an opening; if one fails, what the others opened is closed.
func (s *session) finish(ctx context.Context, steps ...func(context.Context) error) (*session, error) {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, s.close(ctx))
		}
	}
	return s, nil
}

func (s *session) openIndex() error {
	s.index = s.segments.StoreIndex(rsm.StoreIndexOptions{Now: s.app.Now, OnNotice: func(n rsm.StoreNotice) {
		if n.Kind == rsm.NoticeManifest { // rlm.Open tells of the others itself
			s.app.notice(n.Key + ": " + n.Text)
		}
	}})
	s.reader = s.index
	return nil
}

// openMetadata opens the log and a manager over it that follows every partition, and waits until it has read the log.
func (s *session) openMetadata(ctx context.Context, open openFileLog) error {
	if err := s.openLog(ctx, open); err != nil {
		return err
	}
	m, err := rlmm.New(s.log, rlmm.Options{All: true, SnapshotDir: s.metaLog.SnapshotDir, Logger: s.app.log, Now: s.app.Now})
	if err != nil {
		return err
	}
	s.meta, s.reader = m, m
	return s.waitReady(ctx)
}

// openLog opens the metadata log alone.
func (s *session) openLog(ctx context.Context, open openFileLog) (err error) {
	switch s.metaLog.Kind {
	case props.LogFile:
		s.log, err = s.fileLog(ctx, open)
	case props.LogMemory:
		s.log = memlog.New(memlog.Options{Now: s.app.Now})
	case props.LogKafka:
		s.log, err = s.kafkaLog(ctx)
	}
	return err
}

// openFileLog is filelog.Open or filelog.OpenReadOnly.
type openFileLog func(ctx context.Context, dir string, o filelog.Options) (*filelog.Log, error)

func (s *session) fileLog(ctx context.Context, open openFileLog) (rlmm.Log, error) {
	l, err := open(ctx, s.metaLog.Dir, filelog.Options{Logger: s.app.log, Now: s.app.Now})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no metadata log in %s: nothing was copied with this configuration yet, or metadata.log.dir is another; "+
			"--from-store works from the store alone", s.metaLog.Dir)
	}
	if err != nil {
		return nil, err // not l, which would be a Log that is not nil
	}
	return l, nil
}

// assign makes the manager follow partitions that the log may not know yet.
func (s *session) assign(ctx context.Context, tps []remotelog.TopicIDPartition) error {
	if err := s.meta.OnLeadershipChange(tps, nil); err != nil {
		return err
	}
	return s.waitReady(ctx, tps...)
}

// stalledAfter ends a command whose metadata log is there and yet does not go on: a metadata partition without a leader, say.
const stalledAfter = 20 * time.Second

// sayAfter is how long a command waits for a metadata log that does not go on before it says so.
const sayAfter = time.Second

// waitReady waits for as long as the log goes on being read, however long that is.
func (s *session) waitReady(ctx context.Context, tps ...remotelog.TopicIDPartition) error {
	said := false
	for idle := time.Duration(0); ; {
		before := s.readSoFar()
		slice, cancel := context.WithTimeout(ctx, sayAfter)
		err := s.meta.WaitReady(slice, tps...)
		cancel()
		switch {
		case err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		case s.readSoFar() != before:
			idle = 0
			continue
		}
		if idle += sayAfter; idle >= stalledAfter {
			return fmt.Errorf("the metadata log does not go on for %v: %w", stalledAfter, err)
		}
		if !said {
			said = true
			s.app.log.Warn("waiting for the metadata log, which does not go on", "atMost", stalledAfter, "error", err)
		}
	}
}

// readSoFar counts the offsets that the manager has read.
func (s *session) readSoFar() (n int64) {
	for _, p := range s.meta.Status().Partitions {
		n += p.Next + 1 // -1: not begun
	}
	return n
}

// recover cleans up what a crash of an earlier command left, where this process owns the log alone.
func (s *session) recover(ctx context.Context) error {
	if !s.ownLog {
		return nil
	}
	found, err := rlm.Recover(ctx, s.meta, s.segments, rlm.RecoverOptions{OwnLog: true, DeleteOptions: rlm.DeleteOptions{Protocol: s.protocol()}})
	for i := range found {
		s.app.log.Warn("cleaned up after an interrupted command", "segment", found[i].SegmentID, "state", found[i].State)
	}
	return err
}

// protocol is how this process signs its events.
func (s *session) protocol() rlm.Protocol {
	p := rlm.Protocol{Now: s.app.Now}
	if id, ok := s.file.BrokerID(); ok {
		p.BrokerID = &id
	}
	return p
}

// closeTimeout bounds the end of a command that was interrupted.
const closeTimeout = 30 * time.Second

// close closes what was opened, in the other order. It is called even when ctx has ended.
func (s *session) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	var errs []error
	if s.meta != nil {
		errs = append(errs, s.meta.Close(ctx))
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.segments != nil {
		errs = append(errs, s.segments.Close())
	}
	return errors.Join(errs...)
}
