package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/internal/regular"
	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/remotelog"
)

const (
	journalVersion = 1
	journalSuffix  = ".json"
	badSuffix      = ".bad"
	doneSuffix     = ".done"
	tempSuffix     = ".tmp"
	maxOrder       = 1 << 20 // bytes of a file
	scanAtOnce     = 1024    // entries of the directory
)

// orderFile is what a file holds.
type orderFile struct {
	Version int             `json:"version"`
	Segment json.RawMessage `json:"segment"`
}

// openedOrder is the file of an order. It stays open while it is worked off, so that no other file can have its inode.
type openedOrder struct {
	md remotelog.SegmentMetadata
	f  *os.File // nil: it cannot be read
	fi fs.FileInfo
}

func (o *openedOrder) close() {
	if o.f != nil {
		_ = o.f.Close() // read only
	}
}

// aside is the name of the file of an order while it is removed.
func (j *journal) aside(id remotelog.UUID) string {
	return filepath.Join(j.dir, "."+id.String()+doneSuffix)
}

// remove removes the file that was worked off, and not one that was put in its place since, which may order more. Its name alone does not
// tell which one goes, so
//
//  1. the file of that name gets another one, which nobody else uses,
//  2. if it is the one that was read, it is removed,
//  3. else it gets its name back, perhaps in place of a third one: that orders no more.
//
// What a crash leaves between 1 and 3 is an order again at the next start.
func (j *journal) remove(o *order, f *openedOrder) error {
	same, err := j.move(o, f, j.aside(o.id))
	if err != nil || !same {
		return err
	}
	return durable.Remove(j.aside(o.id))
}

// setAside gives a file that is no order another name, where somebody can look at it.
func (j *journal) setAside(o *order, f *openedOrder, why error) error {
	to := j.path(o.id) + badSuffix
	same, err := j.move(o, f, to)
	if err == nil && !same {
		return nil
	}
	j.refuse(to, errors.Join(why, err))
	return nil
}

// refuse tells of a file that is no order, and was set aside.
func (j *journal) refuse(file string, why error) {
	j.log.Error("a file of the journal is no order and was set aside: its segment stays in the store", "file", file, "error", why)
	j.mu.Lock()
	j.bad++
	j.mu.Unlock()
}

// move renames the file of an order, if it is still the one that was opened; if another one is there, the order is tried again.
func (j *journal) move(o *order, f *openedOrder, to string) (same bool, err error) {
	err = os.Rename(j.path(o.id), to)
	if errors.Is(err, fs.ErrNotExist) { // somebody removed it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	fi, err := os.Stat(to)
	if err == nil && os.SameFile(fi, f.fi) {
		return true, nil
	}
	j.mu.Lock()
	o.again = true
	j.mu.Unlock()
	return false, errors.Join(err, os.Rename(to, j.path(o.id)), durable.SyncDir(j.dir))
}

// scan finds orders that others wrote, or an earlier process did.
func (j *journal) scan() error {
	fi, err := os.Stat(j.dir)
	if err != nil {
		j.seen = time.Time{} // it may come back as it was
		return err
	}
	if fi.ModTime().Equal(j.seen) && !j.again {
		return nil
	}
	now := j.now()
	if err := j.read(now); err != nil {
		return err
	}
	j.seen, j.again = fi.ModTime(), now.Sub(fi.ModTime()) < settled
	return nil
}

// read goes through the directory.
func (j *journal) read(now time.Time) error {
	d, err := os.Open(j.dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // read only
	j.mu.Lock()
	j.scans++
	j.mu.Unlock()
	for {
		list, err := d.ReadDir(scanAtOnce)
		for _, e := range list {
			j.found(e, now)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (j *journal) found(e fs.DirEntry, now time.Time) {
	name := e.Name()
	if strings.HasPrefix(name, ".") {
		j.foundHidden(e, now)
		return
	}
	if !strings.HasSuffix(name, journalSuffix) {
		return
	}
	id, err := remotelog.ParseUUID(strings.TrimSuffix(name, journalSuffix))
	if err != nil { // whoever wrote it believes that a segment will be deleted
		j.misnamed(name, err)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	since := now
	if j.orders[id] == nil {
		if fi, err := e.Info(); err == nil {
			since = fi.ModTime()
		}
	}
	j.add(id, since, now.Add(j.grace))
}

// misnamed sets a file aside whose name is no segment's, and which is therefore never worked off.
func (j *journal) misnamed(name string, why error) {
	to := filepath.Join(j.dir, name+badSuffix)
	err := os.Rename(filepath.Join(j.dir, name), to)
	if errors.Is(err, fs.ErrNotExist) { // its writer renamed it
		return
	}
	j.refuse(to, errors.Join(why, err))
}

// foundHidden looks at what a crash may have left.
func (j *journal) foundHidden(e fs.DirEntry, now time.Time) {
	name := e.Name()
	if strings.HasSuffix(name, tempSuffix) {
		if fi, err := e.Info(); err == nil && now.Sub(fi.ModTime()) > tempMaxAge {
			_ = os.Remove(filepath.Join(j.dir, name)) // the next scan sees whether it went
		}
		return
	}
	id, err := remotelog.ParseUUID(strings.TrimSuffix(name[1:], doneSuffix))
	if err != nil || !strings.HasSuffix(name, doneSuffix) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if o := j.orders[id]; o != nil && o.done != nil {
		return // it is being removed
	}
	if os.Rename(j.aside(id), j.path(id)) == nil {
		j.add(id, now, now.Add(j.grace))
	}
}

// openOrder opens and reads a file of the journal. ErrInvalidArgument: it is no order, and will not become one. Close what is not nil,
// which is so with an error too, where a file is there.
func openOrder(path string) (*openedOrder, error) {
	f, fi, err := regular.Open(path)
	if errors.Is(err, regular.ErrNot) {
		if fi, serr := os.Stat(path); serr == nil {
			return &openedOrder{fi: fi}, badOrder("%v", err)
		}
	}
	if err != nil {
		return nil, err
	}
	o := &openedOrder{f: f, fi: fi}
	if fi.Size() > maxOrder {
		return o, badOrder("it has more than %d bytes", maxOrder)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxOrder))
	if err != nil {
		return o, err
	}
	o.md, err = parseOrder(data)
	if err == nil && filepath.Base(path) != o.md.ID.String()+journalSuffix {
		err = badOrder("it orders about segment %s", o.md.ID)
	}
	return o, err
}

func badOrder(format string, args ...any) error {
	return fmt.Errorf("%w: %s", remotelog.ErrInvalidArgument, fmt.Sprintf(format, args...))
}

func parseOrder(data []byte) (md remotelog.SegmentMetadata, err error) {
	var file orderFile
	if err := json.Unmarshal(data, &file); err != nil {
		return md, fmt.Errorf("%w: %v", remotelog.ErrInvalidArgument, err) //nolint:errorlint // of no use to anybody
	}
	if file.Version != journalVersion {
		return md, fmt.Errorf("%w: version %d, known is %d", remotelog.ErrInvalidArgument, file.Version, journalVersion)
	}
	return segmentjson.Parse(file.Segment)
}
