package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tierkit/tierkit/internal/logfiles"
	"github.com/tierkit/tierkit/internal/recordbatch"
	"github.com/tierkit/tierkit/internal/regular"
)

// metadataTopic is the name of the topic in every Kafka (Topic.REMOTE_LOG_METADATA_TOPIC_NAME).
const metadataTopic = "__remote_log_metadata"

// maxMetadataBatch and maxMetadataRecords bound what a damaged length field or a compressed batch makes the command allocate.
const (
	maxMetadataBatch   = 256 << 20
	maxMetadataRecords = 1 << 30
)

// scanFiles reads the partition directories of the topic in a log directory of a stopped broker, by number.
func (a *app) scanFiles(ctx context.Context, dir string, each func(*metaRecord) error) error {
	if err := logfiles.CheckNotInUse(dir); err != nil {
		return asUsage(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return asUsage(fmt.Errorf("--log-dir: %w", err))
	}
	var found []int32
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e.Name(), metadataTopic+"-"); ok {
			if n, err := strconv.ParseInt(number, 10, 32); err == nil && n >= 0 {
				found = append(found, int32(n))
			}
		}
	}
	if len(found) == 0 {
		return usagef("--log-dir: no directory %s-<n> in %s: give a broker's log directory that has partitions of the topic", metadataTopic, dir)
	}
	slices.Sort(found)
	d := recordbatch.NewDecoder(recordbatch.Limits{MaxDecompressedBytes: maxMetadataRecords})
	defer d.Close()
	for _, p := range found {
		if err := a.scanFilesOf(ctx, filepath.Join(dir, metadataTopic+"-"+strconv.Itoa(int(p))), p, d, each); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) scanFilesOf(ctx context.Context, dir string, p int32, d *recordbatch.Decoder, each func(*metaRecord) error) error {
	names, err := filepath.Glob(filepath.Join(globEscape(dir), strings.Repeat("[0-9]", 20)+".log"))
	if err != nil {
		return err
	}
	slices.Sort(names) // 20 digits: by base offset
	for i, name := range names {
		err := scanSegment(ctx, name, p, d, each)
		if errors.Is(err, recordbatch.ErrTruncated) && i == len(names)-1 {
			// A broker that was killed leaves it, and cuts it when it starts.
			a.notice(fmt.Sprintf("%s ends inside a batch (%v): what the broker wrote last is not shown", name, err))
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// globEscape makes a path match itself.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func scanSegment(ctx context.Context, name string, p int32, d *recordbatch.Decoder, each func(*metaRecord) error) error {
	f, _, err := regular.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	r := recordbatch.NewReader(f, recordbatch.ReaderOptions{MaxBatchBytes: maxMetadataBatch})
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if b.Control() {
			continue // a transaction marker; brokers read aborted records, too
		}
		for rec, err := range d.Records(b.Bytes) {
			if err != nil {
				return fmt.Errorf("%s: position %d: %w", name, b.Position, err)
			}
			if err := each(&metaRecord{partition: p, offset: rec.Offset, timestampMs: rec.TimestampMs, key: rec.Key, value: rec.Value}); err != nil {
				return err
			}
		}
	}
}
