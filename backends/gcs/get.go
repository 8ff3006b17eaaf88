package gcs

import (
	"context"
	"io"
	"strconv"

	"cloud.google.com/go/storage"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/httpstore"
)

// Get implements backends.Driver: one GET, never decompressed by the service. A body that breaks is the Store's to resume.
func (d *Driver) Get(ctx context.Context, key string, opts backends.GetOptions) (*backends.Object, error) {
	if err := d.enter(ctx, key); err != nil {
		return nil, err
	}
	if opts.Range.Offset >= maxObject { // a number that not every server reads
		info, err := d.Stat(ctx, key)
		if err != nil {
			return nil, err
		}
		_, _, err = opts.Range.Resolve(info.Size)
		return nil, err
	}
	obj := d.bucket.Object(key)
	if opts.IfVersion != "" {
		generation, err := strconv.ParseInt(opts.IfVersion, 10, 64)
		if err != nil || generation <= 0 {
			return nil, backends.Errorf(backends.Precondition, "%q is no generation of an object", opts.IfVersion)
		}
		obj = obj.If(storage.Conditions{GenerationMatch: generation})
	}
	c, err := d.gate.Begin(ctx)
	if err != nil {
		return nil, err
	}
	b := new(broken)
	r, err := obj.NewRangeReader(context.WithValue(c.Context(), brokenKey{}, b), opts.Range.Offset, lengthOf(opts.Range))
	if err != nil {
		err = d.classify(c, err, stepGet)
		c.End()
		return nil, d.present(ctx, err)
	}
	out, err := objectOf(key, r, opts.Range)
	if err == nil && opts.IfVersion != "" && out.Info.Version != opts.IfVersion { // a server that overlooks the condition
		err = backends.Errorf(backends.Precondition, "the object has generation %s, wanted is %s", out.Info.Version, opts.IfVersion)
	}
	if err != nil {
		c.End()
		_ = r.Close() // nothing was read
		return nil, err
	}
	out.Body = httpstore.NewBody(c, &stream{r: r, broken: b, left: out.Length}, out.Length, func(err error) error { return d.classify(c, err, stepGet) })
	return out, nil
}

// lengthOf is the SDK's form. A length that reaches over the largest object there can be would overflow there.
func lengthOf(r backends.Range) int64 {
	if r.Length < 0 {
		return -1
	}
	return min(r.Length, maxObject-r.Offset)
}

// objectOf holds the answer against what was asked for.
func objectOf(key string, r *storage.Reader, asked backends.Range) (*backends.Object, error) {
	size, length := r.Attrs.Size, r.Remain()
	if size < 0 || length < 0 {
		return nil, backends.Errorf(backends.Corrupt, "the store does not say how long the object is")
	}
	off, want, err := asked.Resolve(size)
	if err != nil {
		return nil, err
	}
	if off != r.Attrs.StartOffset || want != length {
		return nil, backends.Errorf(backends.Corrupt, "asked for %d bytes at %d of %d, the answer has %d at %d", want, off, size, length, r.Attrs.StartOffset)
	}
	return &backends.Object{
		Offset: off, Length: length,
		Info: backends.Info{
			Key: key, Size: size, ModTime: r.Attrs.LastModified.UTC(), Version: versionOf(r.Attrs.Generation), Meta: userMeta(r.Metadata()),
		},
	}, nil
}

// stream is the SDK's reader, with the error that it was not told of, and its checksum of whole reads looked at before the last byte goes out.
type stream struct {
	r      *storage.Reader
	broken *broken
	left   int64
}

var _ io.ReadCloser = (*stream)(nil)

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.left -= int64(n)
	if why := s.broken.get(); why != nil && s.left > 0 {
		return n, why
	}
	if s.left > 0 {
		if err == nil || err == io.EOF { //nolint:errorlint // io.Reader demands io.EOF itself
			return n, err
		}
		return n, io.ErrUnexpectedEOF // a short stream, of which the SDK says that its checksum is another one
	}
	if err == nil {
		_, err = s.r.Read(make([]byte, 1)) // only now does the SDK compare the checksums
	}
	if err != nil && err != io.EOF && s.broken.get() == nil { //nolint:errorlint // as above
		return 0, backends.Errorf(backends.Corrupt, "the object's bytes do not have its checksum: %w", err)
	}
	return n, nil
}

// Close implements io.Closer.
func (s *stream) Close() error { return s.r.Close() }
