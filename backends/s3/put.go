package s3

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/parts"
	"github.com/tierkit/tierkit/internal/transport"
)

// metaToken is the metadata entry by which an upload knows its object again. It is never shown.
const metaToken = "tierkit-upload" //nolint:gosec // no secret

// Put implements backends.Driver.
func (d *Driver) Put(ctx context.Context, key string, body io.Reader, opts backends.PutOptions) (backends.Info, error) {
	if err := ctx.Err(); err != nil {
		return backends.Info{}, err
	}
	if d.closed() {
		return backends.Info{}, errClosed()
	}
	if opts.IfAbsent && d.provider.noIfAbsent { // a look before would be no promise
		return backends.Info{}, backends.Errorf(backends.Unsupported, "%s has no put that only creates, see %s", d.provider.name, keyProvider)
	}
	if opts.IfAbsent { // refuse before the body is read
		switch _, err := d.Stat(ctx, key); {
		case err == nil:
			return backends.Info{}, backends.Exists
		case !errors.Is(err, backends.NotFound) && !errors.Is(err, backends.Denied):
			return backends.Info{}, err
		}
	}
	u := &upload{d: d, key: key, opts: &opts, meta: maps.Clone(opts.Meta), sum: d.sum(), began: d.env.Now()}
	u.addToken()
	o := d.partOptions(opts.Size)
	o.CRC32C, o.Memory = opts.CRC32C, opts.Memory
	info, err := parts.Put(ctx, u, body, o)
	if cerr := u.sweep(ctx); cerr != nil {
		d.log.WarnContext(ctx, "an unfinished upload may be left: a request to begin it had no answer", "error", cerr)
	}
	return info, err
}

// upload is one Put.
type upload struct {
	d     *Driver
	key   string
	opts  *backends.PutOptions
	meta  map[string]string
	sum   checksumMode
	token string // "": metadata has no room for it
	began time.Time

	id string

	mu     sync.Mutex
	etags  map[int32]types.CompletedPart
	strays bool // a CreateMultipartUpload had no answer: an upload that nobody knows may be there
}

var _ parts.Target = (*upload)(nil)

// addToken marks the object as this upload's.
func (u *upload) addToken() {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	token, size := hex.EncodeToString(b[:]), len(metaToken)+2*len(b)
	for k, v := range u.meta {
		size += len(k) + len(v)
	}
	if size > backends.MaxMetaBytes {
		return
	}
	if u.meta == nil {
		u.meta = make(map[string]string, 1)
	}
	u.token = token
	u.meta[metaToken] = token
}

func (u *upload) ifAbsent() *string {
	if u.opts.IfAbsent {
		return aws.String("*")
	}
	return nil
}

func (u *upload) step(s, ifAbsent step) step {
	if u.opts.IfAbsent {
		return ifAbsent
	}
	return s
}

func (u *upload) info(size int64, etag *string) backends.Info {
	return backends.Info{Key: u.key, Size: size, Version: aws.ToString(etag), Meta: u.opts.Meta}
}

// Single implements parts.Target: one PutObject.
func (u *upload) Single(ctx context.Context, p parts.Part) (backends.Info, error) {
	d := u.d
	body := parts.NewReader(p.Bytes)
	defer body.Close()
	crc, md5sum := u.sum.sums(p)
	out, err := call(ctx, d, u.step(stepPut, stepPutIfAbsent), func(ctx context.Context) (*s3.PutObjectOutput, error) {
		rewind(body)
		out, err := d.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &d.o.Bucket, Key: &u.key, Body: body, ContentLength: aws.Int64(int64(len(p.Bytes))), ContentMD5: md5sum, ChecksumCRC32C: crc,
			ContentType: aws.String(contentType), Metadata: u.meta, IfNoneMatch: u.ifAbsent(), StorageClass: types.StorageClass(aws.ToString(d.storageClass)),
			Tagging: d.tagging, RequestPayer: d.payer(), ServerSideEncryption: types.ServerSideEncryption(aws.ToString(d.sseAlgorithm)), SSEKMSKeyId: d.kmsKey,
			SSECustomerAlgorithm: d.customerAlgorithm, SSECustomerKey: d.customerKey, SSECustomerKeyMD5: d.customerMD5,
		})
		if err != nil {
			return nil, err
		}
		return out, etagged(out.ETag)
	})
	if err != nil {
		return backends.Info{}, err
	}
	if crc != nil && out.ChecksumCRC32C == nil {
		d.sight.disappointed()
	}
	return u.info(int64(len(p.Bytes)), out.ETag), nil
}

// rewind serves the second try of a call whose credentials had expired; the SDK's own retries rewind by themselves.
func rewind(r *parts.Reader) { _, _ = r.Seek(0, io.SeekStart) } // it is open and 0 is a position

// contentType is what the SDK would guess from the key otherwise.
const contentType = "application/octet-stream"

func (d *Driver) payer() types.RequestPayer {
	if d.o.RequesterPays {
		return types.RequestPayerRequester
	}
	return ""
}

// Begin implements parts.Target.
func (u *upload) Begin(ctx context.Context) error {
	d := u.d
	in := &s3.CreateMultipartUploadInput{
		Bucket: &d.o.Bucket, Key: &u.key, ContentType: aws.String(contentType), Metadata: u.meta, Tagging: d.tagging, RequestPayer: d.payer(),
		StorageClass:         types.StorageClass(aws.ToString(d.storageClass)),
		ServerSideEncryption: types.ServerSideEncryption(aws.ToString(d.sseAlgorithm)), SSEKMSKeyId: d.kmsKey,
		SSECustomerAlgorithm: d.customerAlgorithm, SSECustomerKey: d.customerKey, SSECustomerKeyMD5: d.customerMD5,
	}
	if u.sum == checksumCRC32C {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32c
		if d.provider.fullObject {
			in.ChecksumType = types.ChecksumTypeFullObject
		}
	}
	tries := 0
	out, err := call(ctx, d, stepBegin, func(ctx context.Context) (*s3.CreateMultipartUploadOutput, error) {
		out, err := d.client.CreateMultipartUpload(ctx, in)
		tries += transport.Requests(ctx)
		return out, err
	})
	u.strays = tries > 1 || err != nil && tries > 0
	if err != nil {
		if e, ok := errors.AsType[*backends.Error](err); ok && e.Status/100 == 4 && tries == 1 {
			u.strays = false // refused
		}
		return err
	}
	u.id = aws.ToString(out.UploadId)
	if u.id == "" {
		u.strays = true
		return backends.Errorf(backends.Corrupt, "the store began an upload without an id")
	}
	u.etags = make(map[int32]types.CompletedPart)
	return nil
}

// Part implements parts.Target.
func (u *upload) Part(ctx context.Context, p parts.Part) error {
	d := u.d
	body := parts.NewReader(p.Bytes)
	defer body.Close()
	crc, md5sum := u.sum.sums(p)
	number := int32(p.Number)
	out, err := call(ctx, d, stepPart, func(ctx context.Context) (*s3.UploadPartOutput, error) {
		rewind(body)
		out, err := d.client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &d.o.Bucket, Key: &u.key, UploadId: &u.id, PartNumber: &number, Body: body, ContentLength: aws.Int64(int64(len(p.Bytes))),
			ContentMD5: md5sum, ChecksumCRC32C: crc, RequestPayer: d.payer(),
			SSECustomerAlgorithm: d.customerAlgorithm, SSECustomerKey: d.customerKey, SSECustomerKeyMD5: d.customerMD5,
		})
		if err != nil {
			return nil, err
		}
		return out, etagged(out.ETag)
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.etags[number] = types.CompletedPart{PartNumber: &number, ETag: out.ETag, ChecksumCRC32C: crc}
	return nil
}

// Commit implements parts.Target.
func (u *upload) Commit(ctx context.Context, w parts.Whole) (backends.Info, error) {
	d := u.d
	in := &s3.CompleteMultipartUploadInput{
		Bucket: &d.o.Bucket, Key: &u.key, UploadId: &u.id, IfNoneMatch: u.ifAbsent(), RequestPayer: d.payer(),
		MultipartUpload:      &types.CompletedMultipartUpload{Parts: u.sorted()},
		SSECustomerAlgorithm: d.customerAlgorithm, SSECustomerKey: d.customerKey, SSECustomerKeyMD5: d.customerMD5,
	}
	if u.sum == checksumCRC32C && d.provider.fullObject {
		in.ChecksumCRC32C, in.ChecksumType = encodeCRC(w.CRC32C), types.ChecksumTypeFullObject
	}
	if d.provider.objectSize {
		in.MpuObjectSize = &w.Size
	}
	out, err := call(ctx, d, u.step(stepCommit, stepCommitNew), func(ctx context.Context) (*s3.CompleteMultipartUploadOutput, error) {
		out, err := d.client.CompleteMultipartUpload(ctx, in)
		if err != nil {
			return nil, err
		}
		return out, etagged(out.ETag)
	})
	if err != nil {
		return backends.Info{}, err
	}
	return u.info(w.Size, out.ETag), nil
}

func (u *upload) sorted() []types.CompletedPart {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := slices.Collect(maps.Values(u.etags))
	slices.SortFunc(list, func(a, b types.CompletedPart) int { return int(*a.PartNumber - *b.PartNumber) })
	return list
}

// Abort implements parts.Target. S3 may keep a part that was on its way while the upload was aborted, so the parts are listed, and the upload
// aborted once more if it is still there.
func (u *upload) Abort(ctx context.Context) error {
	if u.id == "" {
		return nil // sweep looks for what Begin may have left
	}
	ctx = context.WithValue(ctx, cleaningKey{}, true)
	defer func() {
		if u.d.closed() {
			u.d.http.CloseIdleConnections()
		}
	}()
	up := backends.Upload{Key: u.key, ID: u.id}
	if err := u.d.abort(ctx, up); err != nil {
		return err
	}
	left, err := u.d.uploadThere(ctx, up)
	if err != nil || !left {
		return nil // the abort was accepted; that nobody may look is no failure of it
	}
	return u.d.abort(ctx, up)
}

// Find implements parts.Target.
func (u *upload) Find(ctx context.Context) (backends.Info, bool, error) {
	out, err := u.d.head(ctx, u.key)
	if err != nil {
		return backends.Info{}, false, err
	}
	mine := u.token != "" && tokenOf(out.Metadata) == u.token
	return u.info(aws.ToInt64(out.ContentLength), out.ETag), mine, nil
}

func tokenOf(meta map[string]string) string { return meta[metaToken] }

// sweep removes uploads of our key that began while a request to begin ours was unanswered, but not ours. Two writers of one key at that moment could meet
// here: then the other one's upload fails with Unavailable, and nothing is torn.
func (u *upload) sweep(ctx context.Context) error {
	if !u.strays {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout/2)
	defer cancel()
	ups, err := u.d.ListUploads(ctx, u.key)
	var errs []error
	for _, up := range ups {
		if up.Key == u.key && up.ID != u.id && !up.Started.Before(u.began.Add(-clockTolerance)) {
			errs = append(errs, u.d.abort(ctx, up))
		}
	}
	return errors.Join(append(errs, err)...)
}

// clockTolerance is how far the server's clock may be behind ours before an upload that a lost answer left is not found.
const clockTolerance = time.Minute
