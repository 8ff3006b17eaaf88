package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// marked runs f between two system calls by which a tracer knows it.
func marked(f func() error) error {
	syscall.Getppid()
	err := f()
	syscall.Getppid()
	return err
}

// orderChild journals one delete and says what became of it.
func orderChild(dir string) error {
	j, md := newJournal(&journal{dir: dir, now: time.Now}), fixedMetadata()
	said := "ok"
	if marked(func() error { return j.put(&md) }) != nil {
		said = "error"
	}
	_, err := fmt.Println(said)
	return err
}

// workChild works the order of a directory off once: it removes a file beside it.
func workChild(dir string) error {
	md := fixedMetadata()
	j := newJournal(&journal{dir: dir, now: time.Now, work: func(context.Context, remotelog.SegmentMetadata) error { return removeObject(dir) }})
	_ = marked(func() error { return j.tryFile(context.Background(), &order{id: md.ID, at: -1}) }) // what is there afterwards tells
	return nil
}

func fixedMetadata() remotelog.SegmentMetadata {
	md := someMetadata()
	md.ID, md.TopicID = remotelog.UUID{1: 1}, remotelog.UUID{1: 2}
	return md
}

func object(dir string) string      { return filepath.Join(filepath.Dir(dir), "object") }
func removeObject(dir string) error { return os.RemoveAll(object(dir)) }
func makeObject(dir string) error   { return os.WriteFile(object(dir), nil, 0o600) }
func objectIsThere(dir string) bool { _, err := os.Stat(object(dir)); return err == nil }
