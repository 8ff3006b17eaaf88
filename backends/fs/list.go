package fs

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/tierkit/tierkit/backends"
)

const (
	pageSize  = 10_000 // every page reads the directories on its way anew, so few big ones
	batchSize = 16_384 // entries of one directory that are held at a time
	dirStep   = 512    // entries read at a time
)

// List implements backends.Driver. It walks the tree in the order of keys, with a stack of one batch of names per level; a directory with
// more names than a batch is read again for the next one.
func (d *Driver) List(ctx context.Context, opts backends.ListOptions) (backends.Page, error) {
	done, err := d.use(ctx)
	if err != nil {
		return backends.Page{}, err
	}
	defer done()
	after, err := backends.ParseAfterKey(opts.Token, opts.Prefix)
	if err != nil {
		return backends.Page{}, err
	}
	n := pageSize
	if opts.Limit > 0 {
		n = min(n, opts.Limit)
	}
	w := &walk{d: d, ctx: ctx, prefix: opts.Prefix, after: after, want: n + 1, batch: batchSize}
	if err := w.run(); err != nil {
		return backends.Page{}, err
	}
	page := backends.Page{Infos: w.infos}
	if len(w.infos) > n {
		page.Infos = w.infos[:n]
		page.Next = backends.AfterKey(w.infos[n-1].Key)
	}
	return page, nil
}

// walk gathers the first infos behind after.
type walk struct {
	d             *Driver
	ctx           context.Context //nolint:containedctx // lives for one call of List
	prefix, after string
	want          int
	batch         int // names of one directory held at a time
	stack         []*level
	infos         []backends.Info
}

// level is a directory on the way: "" is the root, others end with "/".
type level struct {
	dir   string
	batch []string // names still to be visited, in order; those of directories end with "/"
	more  bool     // the directory has names behind the batch
	last  string   // the last name of the batch
}

func (w *walk) run() error {
	start := w.prefix[:strings.LastIndexByte(w.prefix, '/')+1]
	if start != "" && backends.CheckKey(w.d.Properties(), start+"x") != nil {
		return nil //nolint:nilerr // no key starts like that
	}
	if err := w.descend(start); err != nil {
		return err
	}
	for len(w.stack) > 0 && len(w.infos) < w.want {
		top := w.stack[len(w.stack)-1]
		if len(top.batch) == 0 {
			if err := w.refill(top); err != nil {
				return err
			}
			continue
		}
		name := top.batch[0]
		top.batch = top.batch[1:]
		if err := w.visit(top.dir + name); err != nil {
			return err
		}
	}
	if len(w.infos) == 0 {
		return w.d.present() // an empty answer must not hide a lost mount
	}
	return nil
}

// refill reads the next batch of a directory, or leaves it.
func (w *walk) refill(top *level) error {
	if !top.more {
		w.stack = w.stack[:len(w.stack)-1]
		return nil
	}
	return w.read(top)
}

func (w *walk) visit(full string) error {
	if strings.HasSuffix(full, "/") {
		return w.descend(full)
	}
	st, err := w.d.root.Stat(full)
	switch {
	case isAny(err, syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP):
		return nil // gone meanwhile, or a link to nowhere
	case err != nil && !isErrno(err):
		return nil // a link that leads out of the root is no object
	case err != nil:
		return classify(err)
	case st.Mode().IsRegular():
		w.infos = append(w.infos, infoOf(full, st))
	}
	return nil
}

func isErrno(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}

// descend puts a directory on the stack, if it is still there.
func (w *walk) descend(dir string) error {
	l := &level{dir: dir}
	w.stack = append(w.stack, l)
	return w.read(l)
}

// read fills the level with the smallest names behind its last one that can lead to a wanted key.
func (w *walk) read(l *level) error {
	l.batch, l.more = nil, false
	f, err := w.d.root.OpenFile(strings.TrimSuffix(l.dir, "/")+dotIfRoot(l.dir), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if isAny(err, syscall.ENOENT, syscall.ENOTDIR) || l.dir == "lost+found/" && isAny(err, syscall.EACCES) {
		return nil
	}
	if err != nil {
		return classify(err)
	}
	defer func() { _ = f.Close() }() // read only
	for {
		entries, err := f.ReadDir(dirStep)
		for _, e := range entries {
			if err := w.d.live(w.ctx); err != nil {
				return err
			}
			if name, ok := w.wanted(l, e); ok {
				l.add(name, w.batch)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrNotExist) { // at its end, or removed meanwhile
			break
		}
		if err != nil {
			return classify(err)
		}
	}
	l.trim(w.batch)
	if l.more { // only now: while it is read the batch may still get smaller names
		l.last = l.batch[len(l.batch)-1]
	}
	return nil
}

func dotIfRoot(dir string) string {
	if dir == "" {
		return "."
	}
	return ""
}

// wanted returns the name that an entry sorts by, and whether keys that are wanted can start with it. Directories sort as "name/": so the
// order of entries is the order of all keys below them.
func (w *walk) wanted(l *level, e os.DirEntry) (string, bool) {
	name := e.Name()
	full := l.dir + name
	if !utf8.ValidString(name) || backends.IsReserved(full) {
		return "", false
	}
	switch {
	case e.IsDir():
		name, full = name+"/", full+"/"
		inPrefix := strings.HasPrefix(full, w.prefix) || strings.HasPrefix(w.prefix, full)
		return name, name > l.last && inPrefix && (full > w.after || strings.HasPrefix(w.after, full))
	case e.Type().IsRegular() || e.Type()&os.ModeSymlink != 0:
		return name, name > l.last && strings.HasPrefix(full, w.prefix) && full > w.after
	}
	return "", false
}

// add keeps memory bounded: twice a batch at most.
func (l *level) add(name string, limit int) {
	l.batch = append(l.batch, name)
	if len(l.batch) >= 2*limit {
		l.trim(limit)
	}
}

// trim sorts the batch and cuts it.
func (l *level) trim(limit int) {
	slices.Sort(l.batch)
	if len(l.batch) > limit {
		clear(l.batch[limit:])
		l.batch, l.more = l.batch[:limit], true
	}
}
