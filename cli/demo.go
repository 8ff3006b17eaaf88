package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlm"
)

func (a *app) demoCmd() *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use:   "demo [--keep DIR]",
		Short: "the whole cycle with real Kafka segments: copy, list, read by offset, verify, delete",
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.config != "" || a.json {
				return usagef("demo makes a configuration of its own and prints for people: it takes neither --config nor --json")
			}
			return a.demo(cmd.Context(), keep)
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "work in `DIR`, which must not exist or be empty, and leave everything there; the last step is then left to you")
	return cmd
}

// demo is one run of the demonstration. It drives the commands that a user would type.
type demo struct {
	app  *app
	dir  string
	kept bool
	step int
}

func (a *app) demo(ctx context.Context, keep string) (err error) {
	d := &demo{app: a, dir: keep, kept: keep != ""}
	if err := d.makeDir(); err != nil {
		return err
	}
	if !d.kept {
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	}
	if err := d.prepare(); err != nil {
		return err
	}
	a.config = filepath.Join(d.dir, "tierkit.properties")
	steps := []func(context.Context) error{d.copy, d.list, d.readRecords, d.readCommitted, d.verify}
	if !d.kept {
		steps = append(steps, d.remove)
	}
	for _, f := range steps {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return d.next()
}

func (d *demo) makeDir() (err error) {
	if !d.kept {
		d.dir, err = os.MkdirTemp("", "tierkit-demo-")
		return err
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return usagef("--keep %s: the directory is not empty", d.dir)
	}
	return nil
}

func (d *demo) title(format string, args ...any) error {
	d.step++
	return d.app.printf("\n%d. %s\n\n", d.step, fmt.Sprintf(format, args...))
}

// prepare lays out the log directory, the store, a key pair and the configuration.
func (d *demo) prepare() error {
	logs, store := filepath.Join(d.dir, "kafka-logs"), filepath.Join(d.dir, "store")
	if err := golden.CopyTree(logs, golden.Demo()); err != nil {
		return err
	}
	if err := os.Mkdir(store, 0o755); err != nil {
		return err
	}
	public, private := filepath.Join(d.dir, "public.pem"), filepath.Join(d.dir, "private.pem")
	if err := writeKeyPair(public, private); err != nil {
		return err
	}
	// Chunks are small so that segments of a few kilobytes have several.
	conf := []string{
		"storage.backend=fs",
		"storage.root=" + escapeValue(store),
		"chunk.size=4096",
		"compression.enabled=true",
		"compression.heuristic.enabled=true",
		"encryption.enabled=true",
		"encryption.key.pairs=demo",
		"encryption.key.pair.id=demo",
		"encryption.key.pairs.demo.public.key.file=" + escapeValue(public),
		"encryption.key.pairs.demo.private.key.file=" + escapeValue(private),
		"custom.metadata.fields.include=REMOTE_SIZE",
	}
	if err := os.WriteFile(filepath.Join(d.dir, "tierkit.properties"), []byte(strings.Join(conf, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := d.title("Four partitions of real Kafka brokers, and a configuration"); err != nil {
		return err
	}
	dirs, err := rlm.FindPartitions(logs)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		n, total, err := countFiles(dir)
		if err != nil {
			return err
		}
		if err := d.app.printf("   %-12s %2d files, %s\n", filepath.Base(dir), n, size(total)); err != nil {
			return err
		}
	}
	return d.app.printf("\n   %s\n", strings.Join(conf, "\n   "))
}

// escapeValue writes a path so that a properties file gives it back.
func escapeValue(s string) string {
	r := strings.NewReplacer(`\`, `\\`)
	return r.Replace(s)
}

func countFiles(dir string) (n int, total int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil {
			return 0, 0, err
		}
		n, total = n+1, total+fi.Size()
	}
	return n, total, nil
}

// writeKeyPair makes an RSA key pair and writes it as PEM files.
func writeKeyPair(public, private string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	pub, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	priv, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pub}), 0o644); err != nil {
		return err
	}
	return os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: priv}), 0o600)
}

func (d *demo) copy(ctx context.Context) error {
	if err := d.title("tierkit copy: closed segments go to the store, compressed and encrypted, the manifest last"); err != nil {
		return err
	}
	return d.app.copy(ctx, []string{filepath.Join(d.dir, "kafka-logs")}, rlm.OffloadOptions{})
}

func (d *demo) list(ctx context.Context) error {
	if err := d.title("tierkit ls: what the metadata log remembers"); err != nil {
		return err
	}
	return d.app.ls(ctx, &target{partition: -1}, fromLog)
}

func (d *demo) readRecords(ctx context.Context) error {
	if err := d.title("tierkit read --topic orders --partition 0 --offset 229 --max 3: across a change of leader"); err != nil {
		return err
	}
	return d.app.read(ctx, &readFlags{target: target{topic: "orders"}, offset: 229, max: 3, format: "text", isolation: "read_uncommitted"})
}

// readCommitted shows that aborted transactions are left out.
func (d *demo) readCommitted(ctx context.Context) error {
	if err := d.title("tierkit read --topic payments --partition 0 --isolation read_committed: without aborted transactions"); err != nil {
		return err
	}
	for _, isolation := range []string{"read_uncommitted", "read_committed"} {
		var records, notes bytes.Buffer
		quiet := *d.app
		quiet.Out, quiet.Err = &records, &notes
		err := quiet.read(ctx, &readFlags{target: target{topic: "payments"}, format: "raw", isolation: isolation})
		if err != nil {
			return err
		}
		if err := d.app.printf("   %-16s %d records\n", isolation, bytes.Count(records.Bytes(), []byte("\n"))); err != nil {
			return err
		}
		if note := strings.TrimSpace(strings.TrimPrefix(notes.String(), "tierkit: ")); note != "" {
			if err := d.app.printf("                    (%s)\n", note); err != nil {
				return err
			}
		}
	}
	return nil
}

// verify reads every byte back, the .log and the indexes of each segment, and compares.
func (d *demo) verify(ctx context.Context) (err error) {
	if err := d.title("Every byte back from the store, compared with what was copied"); err != nil {
		return err
	}
	s, err := d.app.openReader(ctx, fromLog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	begin, segments, objects, total := d.app.Now(), 0, 0, int64(0)
	dirs, err := rlm.FindPartitions(filepath.Join(d.dir, "kafka-logs"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		plan, err := rlm.PlanPartition(ctx, dir, rlm.PlanOptions{})
		if err != nil {
			return err
		}
		for _, local := range plan.Segments {
			n, bytes, err := d.verifySegment(ctx, s, local)
			if err != nil {
				return err
			}
			segments, objects, total = segments+1, objects+n, total+bytes
		}
	}
	took := d.app.Now().Sub(begin)
	return d.app.printf("   %d segments, %d files, %s: all equal (%s)\n", segments, objects, size(total), rate(total, took))
}

func (d *demo) verifySegment(ctx context.Context, s *session, local *rlm.LocalSegment) (files int, total int64, err error) {
	md, data, err := local.Prepare(ctx)
	if err != nil {
		return 0, 0, err
	}
	remote, err := find(ctx, s.reader, md)
	if err != nil {
		return 0, 0, err
	}
	check := func(name string, src remotelog.Source, open func() (io.ReadCloser, error)) error {
		if src == nil {
			return nil
		}
		want, err := readSource(ctx, src)
		if err != nil {
			return err
		}
		r, err := open()
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%w: the %s of segment %s came back different", remotelog.ErrCorrupt, name, remote.SegmentID)
		}
		files, total = files+1, total+int64(len(got))
		return nil
	}
	index := func(t remotelog.IndexType) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return s.segments.FetchIndex(ctx, remote, t) }
	}
	err = errors.Join(
		check("log", data.Log, func() (io.ReadCloser, error) { return s.segments.Fetch(ctx, remote, 0, remotelog.ToEnd) }),
		check("offset index", data.OffsetIndex, index(remotelog.OffsetIndex)),
		check("time index", data.TimeIndex, index(remotelog.TimestampIndex)),
		check("producer snapshot", data.ProducerSnapshot, index(remotelog.ProducerSnapshotIndex)),
		check("transaction index", data.TransactionIndex, index(remotelog.TransactionIndex)),
		check("leader epochs", remotelog.Bytes(data.LeaderEpochs), index(remotelog.LeaderEpochIndex)),
	)
	return files, total, err
}

// find returns the remote copy of a local segment.
func find(ctx context.Context, r remotelog.MetadataReader, local remotelog.SegmentMetadata) (remotelog.SegmentMetadata, error) {
	for md, err := range r.Segments(ctx, local.TopicIDPartition) {
		if err != nil {
			return remotelog.SegmentMetadata{}, err
		}
		if md.StartOffset == local.StartOffset && md.EndOffset == local.EndOffset && md.State == remotelog.CopySegmentFinished {
			return md, nil
		}
	}
	return remotelog.SegmentMetadata{}, fmt.Errorf("%w: segment %d of %s is not in the tier", remotelog.ErrNotFound, local.StartOffset, local.TopicIDPartition)
}

func readSource(ctx context.Context, src remotelog.Source) ([]byte, error) {
	r, _, err := src.Open(ctx)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

func (d *demo) remove(ctx context.Context) error {
	if err := d.title("tierkit delete --all: in two phases, nothing is left in the store"); err != nil {
		return err
	}
	for _, t := range []target{{topic: "orders"}, {topic: "orders", partition: 3}, {topic: "payments"}, {topic: "invoices"}} {
		var buf bytes.Buffer
		quiet := *d.app
		quiet.Out = &buf
		if err := quiet.delete(ctx, &deleteFlags{target: t, all: true}); err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
		if err := d.app.printf("   %-12s %s\n", fmt.Sprintf("%s-%d", t.topic, t.partition), lines[len(lines)-1]); err != nil {
			return err
		}
	}
	left := 0
	err := filepath.WalkDir(filepath.Join(d.dir, "store"), func(path string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == ".tierkit":
			return filepath.SkipDir // the metadata log
		case !e.IsDir():
			left++
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.app.printf("   objects left in the store: %d\n", left)
}

func (d *demo) next() error {
	if d.kept {
		return d.app.printf(`
Everything is in %[1]s. Next:
   tierkit ls      --config %[1]s/tierkit.properties
   tierkit read    --config %[1]s/tierkit.properties --topic orders --partition 3 --offset 100 --max 5 --format json
   tierkit inspect --chunks %[1]s/store/*/0/*.rsm-manifest
   tierkit delete  --config %[1]s/tierkit.properties --topic payments --partition 0 --all
`, d.dir)
	}
	return d.app.printf(`
All of it was in a temporary directory, which is gone. Next:
   tierkit demo --keep DIR        the same, left there to look at
   tierkit copy --config FILE /path/to/a/stopped/broker's/log.dir
`)
}
