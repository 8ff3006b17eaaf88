package rsm

import (
	"context"
	"errors"
	"io"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/cache/disk"
	"github.com/tierkit/tierkit/chunking"
	"github.com/tierkit/tierkit/manifest"
)

// storedRun is the body of a load: the stored chunks of its run in order, each from the disk tier if it is there, else from the store, which is
// asked for neighbours with one request. What comes from the store is put together on the way, and goes to the disk tier once it was decoded: what
// it decodes to is then known to be right.
type storedRun struct {
	ctx    context.Context //nolint:containedctx // that of the load, whose Read this is
	l      *load
	o      chunking.DecodeOptions
	disk   *disk.Cache  // nil: there is none
	opened func(string) // told the version of each object that was opened; nil: nobody wants to know

	version string        // of the .log object, from the first request on
	onDisk  []bool        // by number - First: it was there when the load began, and read from there
	saves   []*disk.Write // by number - First: what is put together
	at      int           // the chunk that is read
	off     int64         // of its bytes that were read
	body    io.ReadCloser // of the store; nil: none
	upto    int           // the last chunk that body has
}

// newStoredRun plans a load. If its first chunk is not on disk, the store is asked at once. Close it on every path.
func newStoredRun(ctx context.Context, l *load, o chunking.DecodeOptions, opened func(string)) (*storedRun, error) {
	n := o.Last - o.First + 1
	r := &storedRun{
		ctx: ctx, l: l, o: o, disk: l.c.m.disk, opened: opened, version: l.version,
		onDisk: make([]bool, n), saves: make([]*disk.Write, n), at: o.First,
	}
	for i := range n {
		r.onDisk[i] = r.whole(o.First+i) && r.disk.Has(r.key(o.First+i))
	}
	if r.onDisk[0] {
		return r, nil
	}
	return r, r.open()
}

// whole says whether chunk n can be kept on disk: there is a disk tier, and all of the stored chunk is read. The decoder leaves out what lies behind
// the content of a last chunk that is stored as it is.
func (r *storedRun) whole(n int) bool {
	c := r.o.Index.Chunk(n)
	return r.disk != nil && c.StoredSize > 0 && (r.o.Codecs != nil || r.o.Key != nil || c.StoredSize == c.Size)
}

func (r *storedRun) key(n int) disk.Key { return chunkKey{r.l.seg.id, n}.diskKey() }

// Read implements io.Reader. The decoder asks for a whole chunk at a time.
func (r *storedRun) Read(p []byte) (int, error) {
	if r.at > r.o.Last {
		return 0, io.EOF
	}
	size := r.o.Index.Chunk(r.at).StoredSize
	if r.off == 0 {
		if r.fromDisk(p, size) {
			r.at++
			return int(size), nil
		}
		if err := r.fromStore(int(size)); err != nil {
			return 0, err
		}
	}
	n, err := r.body.Read(p[:min(int64(len(p)), size-r.off)])
	if w := r.saves[r.at-r.o.First]; w != nil {
		_, _ = w.Write(p[:n]) // there is room for a whole chunk
	}
	if r.off += int64(n); r.off == size {
		r.at, r.off = r.at+1, 0
	}
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// fromDisk reads the chunk that begins here from disk, if it should be there and is.
func (r *storedRun) fromDisk(p []byte, size int64) bool {
	there := &r.onDisk[r.at-r.o.First]
	*there = *there && int64(len(p)) >= size && r.disk.Read(r.key(r.at), p[:size])
	return *there
}

// fromStore makes the body ready for the chunk that begins here.
func (r *storedRun) fromStore(size int) error {
	if r.body == nil || r.at > r.upto {
		if err := r.open(); err != nil {
			return err
		}
	}
	if r.whole(r.at) {
		r.saves[r.at-r.o.First] = r.disk.Begin(r.key(r.at), size)
	}
	return nil
}

// open asks the store for the chunks from here to the next that is on disk.
func (r *storedRun) open() error {
	r.closeBody()
	r.upto = r.at
	for r.upto < r.o.Last && !r.onDisk[r.upto+1-r.o.First] {
		r.upto++
	}
	first, last := r.o.Index.Chunk(r.at), r.o.Index.Chunk(r.upto)
	obj, err := r.l.c.m.get(r.ctx, r.l.at, manifest.LogSuffix, backends.GetOptions{
		IfVersion: r.version,
		Range:     backends.Range{Offset: first.StoredStart, Length: last.StoredStart + last.StoredSize - first.StoredStart},
	})
	if err != nil {
		return err
	}
	r.body, r.version = obj.Body, obj.Info.Version
	if r.opened != nil {
		r.opened(r.version)
	}
	return nil
}

// decoded is told what became of chunk n.
func (r *storedRun) decoded(n int, err error) {
	w := r.saves[n-r.o.First]
	switch {
	case w == nil:
	case err == nil:
		w.Commit()
	default:
		w.Discard()
	}
}

// failed gives the error of chunk n its meaning: what is wrong with a chunk from disk is not wrong with the one in the store, which
// is asked for next.
func (r *storedRun) failed(n int, err error) error {
	if err == nil || n > r.o.Last || !r.onDisk[n-r.o.First] || !damaged(err) {
		return err
	}
	r.l.c.m.log.Warn("a chunk in the disk cache is not what its segment has; it is dropped", "segment", string(r.l.seg.stem), "chunk", n, "error", err)
	r.disk.Delete(r.key(n))
	return errAgain
}

// Close implements io.Closer.
func (r *storedRun) Close() error {
	r.closeBody()
	for _, w := range r.saves {
		if w != nil {
			w.Discard()
		}
	}
	return nil
}

func (r *storedRun) closeBody() {
	if r.body != nil {
		_ = r.body.Close() // read only, and perhaps not to its end
		r.body = nil
	}
}
