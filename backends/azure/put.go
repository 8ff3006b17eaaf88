package azure

import (
	"context"
	"crypto/md5" //nolint:gosec // a checksum against accidents
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc64"
	"io"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/parts"
)

// contentType of every object.
const contentType = "application/octet-stream"

// checksumMode says with what a block is protected on its way.
type checksumMode string

const (
	checksumAuto  checksumMode = "auto"
	checksumCRC64 checksumMode = "crc64"
	checksumMD5   checksumMode = "md5"
	checksumNone  checksumMode = "none"
)

// chooseChecksum knows that emulators lack CRC64.
func chooseChecksum(setting, at string) checksumMode {
	if mode := checksumMode(setting); mode != "" && mode != checksumAuto {
		return mode
	}
	u, err := url.Parse(at)
	if err == nil && strings.Contains(u.Hostname(), ".blob.") {
		return checksumCRC64 // blob.core.windows.net, blob.core.chinacloudapi.cn, blob.storage.azure.net, ...
	}
	return checksumMD5
}

// crcTable is Azure's CRC-64 (the reflected polynomial of "CRC-64/NVME"): azblob internal/shared/crc64.go.
func crcTable() *crc64.Table { return crc64.MakeTable(0x9A6C9329AC4BC9B5) }

func (d *Driver) validation(b []byte, table *crc64.Table) blob.TransferValidationType {
	switch d.checksum {
	case checksumCRC64:
		return blob.TransferValidationTypeCRC64(crc64.Checksum(b, table))
	case checksumMD5:
		sum := md5.Sum(b) //nolint:gosec // a checksum against accidents
		return blob.TransferValidationTypeMD5(sum[:])
	case checksumAuto, checksumNone:
	}
	return nil
}

// Put implements backends.Driver: one Put Blob, or blocks and the commit of their list.
func (d *Driver) Put(ctx context.Context, key string, body io.Reader, opts backends.PutOptions) (backends.Info, error) {
	if err := d.enter(ctx, key); err != nil {
		return backends.Info{}, err
	}
	if opts.IfAbsent { // refuse before the body is read
		switch _, err := d.properties(ctx, key); {
		case err == nil:
			return backends.Info{}, backends.Exists
		case !errors.Is(err, backends.NotFound) && !errors.Is(err, backends.Denied):
			return backends.Info{}, err
		}
	}
	o := d.partOptions(opts.Size)
	o.CRC32C, o.Memory = opts.CRC32C, opts.Memory
	return parts.Put(ctx, d.newUpload(key, opts), body, o)
}

// upload is one Put.
type upload struct {
	d     *Driver
	blob  *blockblob.Client
	key   string
	opts  backends.PutOptions
	meta  map[string]*string
	token string // "": metadata has no room for it
	ids   [idRandom]byte
	crc   *crc64.Table
	doubt bool // a commit was sent, its answer is not known
}

var _ parts.Target = (*upload)(nil)

func (d *Driver) newUpload(key string, opts backends.PutOptions) *upload {
	u := &upload{d: d, blob: d.client.NewBlockBlobClient(key), key: key, opts: opts, token: newToken(opts.Meta), crc: crcTable()}
	meta := maps.Clone(opts.Meta)
	if u.token != "" {
		if meta == nil {
			meta = make(map[string]string, 1)
		}
		meta[metaToken] = u.token
	}
	u.meta = encodeMeta(meta)
	_, _ = rand.Read(u.ids[:]) // never fails
	return u
}

// idRandom is the number of random bytes in a block's id. With the number of the block an id has 36 bytes, as many as those of the Java SDK, which
// writes UUIDs: the service refuses a block whose id has another length than the uncommitted ones that are there, a week long.
const idRandom = 32

// blockID is unique to this upload: uncommitted blocks belong to the name of the blob, and two uploads to it must not mix.
func (u *upload) blockID(n int) string {
	id := binary.BigEndian.AppendUint32(u.ids[:len(u.ids):len(u.ids)], uint32(n))
	return base64.StdEncoding.EncodeToString(id)
}

func (u *upload) conditions() *blob.AccessConditions {
	if !u.opts.IfAbsent {
		return nil
	}
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}
}

func (u *upload) tier() *blob.AccessTier {
	if u.d.o.Tier == "" {
		return nil
	}
	return to.Ptr(blob.AccessTier(u.d.o.Tier))
}

func (u *upload) step(s, ifAbsent step) step {
	if u.opts.IfAbsent {
		return ifAbsent
	}
	return s
}

func (u *upload) info(size int64, etag *azcore.ETag, modified *time.Time) backends.Info {
	return backends.Info{Key: u.key, Size: size, ModTime: timeOf(modified), Version: versionOf(etag), Meta: u.opts.Meta}
}

// Single implements parts.Target: one Put Blob.
func (u *upload) Single(ctx context.Context, p parts.Part) (backends.Info, error) {
	body := parts.NewReader(p.Bytes)
	defer body.Close()
	out, _, err := call(ctx, u.d, u.step(stepPut, stepPutIfAbsent), func(ctx context.Context) (blockblob.UploadResponse, error) {
		return u.blob.Upload(ctx, body, &blockblob.UploadOptions{
			Metadata: u.meta, Tier: u.tier(), TransactionalValidation: u.d.validation(p.Bytes, u.crc), AccessConditions: u.conditions(),
			HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr(contentType)},
		})
	})
	if err != nil {
		return backends.Info{}, err
	}
	return u.info(int64(len(p.Bytes)), out.ETag, out.LastModified), nil
}

// Begin implements parts.Target. There is nothing to begin: the first block makes the uncommitted blob.
func (u *upload) Begin(context.Context) error { return nil }

// Part implements parts.Target: one Put Block.
func (u *upload) Part(ctx context.Context, p parts.Part) error {
	body := parts.NewReader(p.Bytes)
	defer body.Close()
	_, _, err := call(ctx, u.d, stepBlock, func(ctx context.Context) (blockblob.StageBlockResponse, error) {
		return u.blob.StageBlock(ctx, u.blockID(p.Number), body, &blockblob.StageBlockOptions{TransactionalValidation: u.d.validation(p.Bytes, u.crc)})
	})
	return err
}

// Commit implements parts.Target: one Put Block List. It may be repeated: committed blocks keep their ids.
func (u *upload) Commit(ctx context.Context, w parts.Whole) (backends.Info, error) {
	ids := make([]string, w.Parts)
	for i := range ids {
		ids[i] = u.blockID(i + 1)
	}
	out, _, err := call(ctx, u.d, u.step(stepCommit, stepCommitIfAbsent), func(ctx context.Context) (blockblob.CommitBlockListResponse, error) {
		return u.blob.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{
			Metadata: u.meta, Tier: u.tier(), AccessConditions: u.conditions(), HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr(contentType)},
		})
	})
	if err != nil {
		u.doubt = mayHappenLater(err)
		return backends.Info{}, err
	}
	return u.info(w.Size, out.ETag, out.LastModified), nil
}

// Abort implements parts.Target. Blocks that were not committed cannot be removed, the service drops them after a week; nobody sees them
// until then. Neither can a commit be withdrawn whose answer did not come: then it cannot be told whether the object will be there.
func (u *upload) Abort(context.Context) error {
	if u.doubt {
		return backends.Errorf(backends.Unsupported, "a commit that was sent cannot be withdrawn")
	}
	return nil
}

// Find implements parts.Target.
func (u *upload) Find(ctx context.Context) (backends.Info, bool, error) {
	p, err := u.d.properties(ctx, u.key)
	if err != nil {
		return backends.Info{}, false, err
	}
	p.info.Meta = u.opts.Meta
	return p.info, u.token != "" && p.token == u.token, nil
}
