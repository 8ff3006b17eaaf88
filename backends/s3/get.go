package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/transport"
)

// Get implements backends.Driver: one GetObject.
func (d *Driver) Get(ctx context.Context, key string, opts backends.GetOptions) (*backends.Object, error) {
	in := &s3.GetObjectInput{
		Bucket: &d.o.Bucket, Key: &key, Range: rangeHeader(opts.Range), RequestPayer: d.payer(),
		SSECustomerAlgorithm: d.customerAlgorithm, SSECustomerKey: d.customerKey, SSECustomerKeyMD5: d.customerMD5,
	}
	if opts.IfVersion != "" {
		in.IfMatch = &opts.IfVersion
	}
	compared := d.compares(in.Range == nil)
	if compared {
		in.ChecksumMode = types.ChecksumModeEnabled
	}
	inner, cancel := context.WithCancelCause(ctx)
	out, err := callIn(ctx, inner, cancel, d, stepGet, func(ctx context.Context) (*s3.GetObjectOutput, error) {
		out, err := d.client.GetObject(ctx, in)
		if err != nil {
			return nil, err
		}
		if err := etagged(out.ETag); err != nil {
			_ = out.Body.Close() // nothing was read
			return nil, err
		}
		return out, nil
	})
	if err != nil {
		cancel(nil)
		return nil, err
	}
	b := &body{d: d, compared: compared, caller: ctx, ctx: inner, cancel: cancel, r: out.Body}
	b.stop = context.AfterFunc(d.ctx, func() { _ = b.Close() })
	obj, err := objectOf(key, out, opts.Range)
	if err != nil {
		_ = b.Close() // nothing was read
		return nil, err
	}
	b.left = obj.Length
	obj.Body = b
	return obj, nil
}

// rangeHeader has no header for everything: of an empty object even bytes=0- is outside.
func rangeHeader(r backends.Range) *string {
	switch {
	case r.Offset == 0 && r.Length < 0:
		return nil
	case r.Length < 0 || r.Length-1 > math.MaxInt64-r.Offset:
		return aws.String("bytes=" + strconv.FormatInt(r.Offset, 10) + "-")
	}
	return aws.String(fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1))
}

// objectOf describes what an answer holds.
func objectOf(key string, out *s3.GetObjectOutput, asked backends.Range) (*backends.Object, error) {
	length := aws.ToInt64(out.ContentLength)
	obj := &backends.Object{Length: length, Info: backends.Info{
		Key: key, Size: length, ModTime: aws.ToTime(out.LastModified).Truncate(time.Second), Version: aws.ToString(out.ETag), Meta: without(out.Metadata, metaToken),
	}}
	if rangeHeader(asked) == nil {
		return obj, nil
	}
	first, last, size, ok := parseContentRange(aws.ToString(out.ContentRange))
	switch {
	case !ok:
		return nil, backends.Errorf(backends.Unsupported, "the store overlooked the range of a GET: Content-Range is %q", aws.ToString(out.ContentRange))
	case last-first+1 != length:
		return nil, backends.Errorf(backends.Corrupt, "Content-Range %q and a length of %d", aws.ToString(out.ContentRange), length)
	}
	off, want, err := asked.Resolve(size)
	if err != nil {
		return nil, err
	}
	if off != first || want != length {
		return nil, backends.Errorf(backends.Corrupt, "asked for %d bytes at %d, the answer is %q", want, off, aws.ToString(out.ContentRange))
	}
	obj.Offset, obj.Info.Size = first, size
	return obj, nil
}

// parseContentRange reads "bytes 0-9/100".
func parseContentRange(s string) (first, last, size int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, total, ok2 := strings.Cut(s, "/")
	from, to, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, 0, false
	}
	var errs [3]error
	first, errs[0] = parseDigits(from)
	last, errs[1] = parseDigits(to)
	size, errs[2] = parseDigits(total)
	if errors.Join(errs[:]...) != nil || first > last || last >= size {
		return 0, 0, 0, false
	}
	return first, last, size, true
}

// parseDigits takes no sign, unlike strconv.
func parseDigits(s string) (int64, error) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, errors.New("not a number")
	}
	return strconv.ParseInt(s, 10, 64)
}

// body is an open stream: exactly left bytes, or an error.
type body struct {
	d      *Driver
	caller context.Context //nolint:containedctx // rules the stream until Close
	ctx    context.Context //nolint:containedctx // the request's own
	cancel context.CancelCauseFunc
	r      io.ReadCloser
	left   int64
	stop   func() bool

	compared bool // with the store's checksum, at the end
	checked  bool // and it was right

	mu     sync.Mutex
	closed bool
}

var _ io.ReadCloser = (*body)(nil)

// end says whether the bytes, of which all are there, are the right ones; err came with the last of them. The SDK compares checksums only when it sees
// the end of the answer itself; there it has no other error.
func (b *body) end(err error) error {
	if !b.compared || b.checked {
		return nil
	}
	if err == nil {
		_, err = b.r.Read(make([]byte, 1))
	}
	switch {
	case err == nil || err == io.EOF:
		b.checked = true
		return nil
	case b.caller.Err() != nil:
		return b.caller.Err()
	case b.isClosed():
		return backends.Errorf(backends.Closed, "closed while it was read")
	}
	return backends.Errorf(backends.Corrupt, "the bytes that came are not those that were stored: %w", err)
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.isClosed() {
		return 0, backends.Errorf(backends.Closed, "read after close")
	}
	if err := b.caller.Err(); err != nil {
		return 0, err
	}
	if b.left == 0 {
		return 0, cmp.Or(b.end(nil), io.EOF)
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		// Who has all bytes asks for no more: the last of them come only if the checksum is right.
		if err := b.end(err); err != nil {
			return 0, err
		}
		return n, nil
	case err == nil:
		return n, nil
	case b.isClosed():
		return n, backends.Errorf(backends.Closed, "closed while it was read")
	case err == io.EOF:
		return n, fmt.Errorf("the store sent %d bytes too few: %w", b.left, io.ErrUnexpectedEOF)
	}
	return n, b.d.classify(b.caller, b.ctx, err, stepGet, new(transport.Count))
}

func (b *body) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Close implements io.Closer: it ends the request, which unblocks a Read. A connection whose answer was read to its end is used again; another one
// is closed, nothing is drained.
func (b *body) Close() error {
	b.mu.Lock()
	was := b.closed
	b.closed = true
	b.mu.Unlock()
	if was {
		return nil
	}
	b.stop()
	b.cancel(nil)
	_ = b.r.Close() // read side
	return nil
}

// Stat implements backends.Driver.
func (d *Driver) Stat(ctx context.Context, key string) (backends.Info, error) {
	out, err := d.head(ctx, key)
	if err != nil {
		return backends.Info{}, err
	}
	return backends.Info{
		Key: key, Size: aws.ToInt64(out.ContentLength), ModTime: aws.ToTime(out.LastModified).Truncate(time.Second), Version: aws.ToString(out.ETag),
		Meta: without(out.Metadata, metaToken),
	}, nil
}

// head is a HeadObject. Its 404 says nothing about what is missing, so the bucket is asked for: one that does not exist must not look like an object
// that does not.
func (d *Driver) head(ctx context.Context, key string) (*s3.HeadObjectOutput, error) {
	out, err := call(ctx, d, stepStat, func(ctx context.Context) (*s3.HeadObjectOutput, error) {
		out, err := d.client.HeadObject(ctx, &s3.HeadObjectInput{
			Bucket: &d.o.Bucket, Key: &key, RequestPayer: d.payer(),
			SSECustomerAlgorithm: d.customerAlgorithm, SSECustomerKey: d.customerKey, SSECustomerKeyMD5: d.customerMD5,
		})
		if err != nil {
			return nil, err
		}
		return out, etagged(out.ETag)
	})
	if err == nil || !errors.Is(err, backends.NotFound) {
		return out, err
	}
	if berr := d.bucket(ctx); berr != nil && (errors.Is(berr, backends.InvalidArgument) || ctx.Err() != nil) {
		return nil, berr
	}
	return nil, err
}

// bucket is a HeadBucket.
func (d *Driver) bucket(ctx context.Context) error {
	_, err := call(ctx, d, stepBucket, func(ctx context.Context) (*s3.HeadBucketOutput, error) {
		return d.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &d.o.Bucket})
	})
	return err
}
