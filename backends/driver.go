package backends

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tierkit/tierkit/membudget"
)

// Driver is implemented once per object store. A Driver MUST be safe for concurrent use. Every method MUST honour ctx at every
// blocking point and start no work when ctx is already done (ctx/dead-on-entry, ctx/cancel-at-each-step), and MUST leave no
// goroutine behind when it returns (res/no-goroutine-leak). The end of ctx is returned so that errors.Is matches it, never
// under a Code. Clean-up after it runs on context.WithoutCancel with a deadline of its own, 30 s unless configured, and the
// method does not return before that ended (ctx/cleanup-detached).
type Driver interface {
	// Put stores the bytes of body under key and returns once they are durable and visible, to other clients too
	// (put/read-after-write).
	//
	// It MUST be all or nothing: on error the previous object (if any) is untouched (atomic/failed-put-keeps-old) and nothing
	// pending (parts, blocks, sessions, temp files) is left (mpu/abort-leaves-nothing). The one exception is an error whose
	// Error.Ambiguous is set: then the complete new object may exist. A partial one never does (atomic/invisible-until-return).
	//
	// Put MUST read body sequentially from one goroutine, MUST NOT close it, and MUST NOT touch it after returning
	// (put/reads-sequentially, put/does-not-close-body, put/does-not-touch-body-after-return). It MUST NOT guess anything from
	// the body's type. If opts.Size >= 0 and body delivers a different number of bytes, Put fails with SizeMismatch
	// (source/short, source/long). An error from body is returned unchanged in the chain (source/error-at-0). A panic of body
	// reaches the caller after the clean-up (source/panic).
	//
	// With IfAbsent an existing key yields Exists, and of several creators at the same time exactly one succeeds
	// (ifabsent/race). With CRC32C a body of another checksum yields Corrupt (sum/declared-mismatch).
	Put(ctx context.Context, key string, body io.Reader, opts PutOptions) (Info, error)

	// Get opens a stream over opts.Range. Errors that the store reports before the first byte (not found, invalid range, denied)
	// MUST be returned here, never from the first Read (get/missing).
	//
	// A range that ends behind the object is clipped (get/range-past-end-clipped); one that starts at its end or behind it is
	// InvalidRange (get/offset-at-size), but for the whole of an empty object, which is an empty stream (get/empty-object).
	//
	// Object.Body MUST deliver exactly Object.Length bytes and then io.EOF, or fail: a short stream is io.ErrUnexpectedEOF, never
	// a clean EOF (fault/truncate, fault/clean-eof). Close is idempotent, unblocks a Read, returns promptly and never drains
	// more than 64 KiB or 50 ms; reads after it fail with Closed (get/close-unblocks-read, get/read-after-close). ctx rules
	// the stream until it is closed. A stream never mixes two versions of an object (overwrite/readers-never-mix).
	Get(ctx context.Context, key string, opts GetOptions) (*Object, error)

	// Stat returns what is known about key without reading it. Missing key: NotFound (stat/missing).
	Stat(ctx context.Context, key string) (Info, error)

	// Delete removes key. A missing key is success (delete/idempotent). After it returns, Get and Stat MUST report NotFound and
	// List MUST omit the key (delete/removes). No other key is touched (delete/only-that-key).
	Delete(ctx context.Context, key string) error

	// List returns one page of the keys that start with opts.Prefix, a text and not a path (list/prefix), in ascending byte order
	// within and across pages (list/sorted-bytewise). It MUST NOT return pending uploads or the driver's own temporary names
	// (list/hides-pending). A key put or deleted while pages are read may or may not appear; every other key MUST appear
	// exactly once (list/insert-before-token). A token that is not its own is InvalidArgument (list/bad-token).
	List(ctx context.Context, opts ListOptions) (Page, error)

	// Properties reports constant facts about this driver. The suite checks each both ways (props/truth).
	Properties() Properties

	// Close releases what the driver owns. It is idempotent (close/idempotent). Calls in flight fail with Closed or finish; later
	// calls fail with Closed (close/after).
	Close() error
}

// Range selects bytes of an object. The zero Range selects nothing; say All for everything.
type Range struct {
	Offset int64 // >= 0
	Length int64 // > 0: at most that many bytes; < 0: to the end; 0 never reaches a Driver
}

// All is the whole object.
func All() Range { return Range{Length: -1} }

// SizeUnknown is the PutOptions.Size of a body whose length is not known, and the Info.Size of an object whose size is not.
const SizeUnknown int64 = -1

// PutOptions control one Put. The zero value stores exactly zero bytes and overwrites; say SizeUnknown when the size is unknown.
// That is deliberate: forgetting the size fails loudly.
type PutOptions struct {
	Size     int64             // exact length, or SizeUnknown
	IfAbsent bool              // create only; an existing key yields Exists
	Meta     map[string]string // lower-case ASCII keys, printable ASCII values, at most MaxMetaBytes in all
	CRC32C   *uint32           // expected CRC-32C (Castagnoli) of the whole body, if the caller knows it

	// Memory is where part buffers come from: at least PutMemory's min for Size. It stays the caller's. Nil: the Store reserves
	// for the call when it has a budget; a Driver that still sees nil allocates its min by itself.
	Memory *membudget.Reservation
}

// MaxMetaBytes bounds PutOptions.Meta, keys and values together. S3 allows 2 KB of user-defined metadata, of which some servers take
// the prefix of each name (MinIO).
const MaxMetaBytes = 1536

// GetOptions control one Get.
type GetOptions struct {
	Range     Range
	IfVersion string // fail with Precondition unless the object still has this Version
}

// Info describes one object.
type Info struct {
	Key     string
	Size    int64
	ModTime time.Time
	Version string            // opaque; changes whenever the bytes change; "" if unsupported
	Meta    map[string]string // nil from List
}

// Object is an open read. The reader closes Body.
type Object struct {
	Body   io.ReadCloser
	Info   Info  // of the whole object
	Offset int64 // resolved first byte
	Length int64 // bytes Body will deliver
}

// ListOptions select a page.
type ListOptions struct {
	Prefix string
	Token  string // Page.Next of the previous page, same Prefix; "" for the first
	Limit  int    // 0: the driver's choice; otherwise an upper bound
}

// Page is one page of a listing. Next is "" on the last page. A page may be empty and still have a Next.
type Page struct {
	Infos []Info
	Next  string
}

// Properties are constant facts, not switches.
type Properties struct {
	Name            string
	MaxKeyBytes     int
	MaxSegmentBytes int // of a key, between slashes; 0: only MaxKeyBytes counts
	MaxObjectBytes  int64
	MinPartBytes    int64 // 0: no multipart
	MaxPartBytes    int64
	MaxParts        int
	MaxBulkDelete   int           // 0: no bulk delete
	IfAbsent        bool          // PutOptions.IfAbsent is atomic
	FlatKeys        bool          // "a" and "a/b" can both be objects
	Versions        bool          // Info.Version and GetOptions.IfVersion work
	UserMeta        bool          // false: PutOptions.Meta is ignored
	PendingExpires  time.Duration // 0: a failed Put leaves nothing pending; else the store drops it after this
	HTTP            bool          // all I/O goes through Env.WrapTransport
}

// Optional capabilities of a Driver. The Store wraps each, so that prefix, masking and limits hold for them too.
type (
	// BulkDeleter deletes many keys in few requests: at most Properties.MaxBulkDelete of them a call, each named once. It returns
	// nil, or *BulkDeleteError naming exactly the keys that are not known to be gone (bulk/partial-failure).
	BulkDeleter interface {
		DeleteMany(ctx context.Context, keys []string) error
	}

	// UploadLister shows unfinished uploads (S3 multipart uploads, Azure uncommitted blocks, temp files), those still running
	// included, so that leftovers can be found and removed. AbortUpload of one that is gone is success.
	UploadLister interface {
		ListUploads(ctx context.Context, prefix string) ([]Upload, error)
		AbortUpload(ctx context.Context, u Upload) error
	}

	// Prober checks credentials, endpoint and permissions cheaply; its error names what is missing (probe/diagnoses).
	Prober interface {
		Probe(ctx context.Context) error
	}

	// PutSizer tells how much memory a Put of that size (or SizeUnknown) needs for its parts: at least min (one part, or the size
	// rounded up if that is smaller), want to send parts in parallel. Both are sums of membudget.Capacity.
	PutSizer interface {
		PutMemory(size int64) (min, want int64)
	}
)

// Upload is one unfinished upload.
type Upload struct {
	Key     string // "" where the store does not record it: such an upload is listed whatever the prefix
	ID      string
	Started time.Time
	Bytes   int64
}

// BulkDeleteError reports the keys that DeleteMany could not remove.
type BulkDeleteError struct {
	Failed map[string]error
}

func (e *BulkDeleteError) Error() string { return fmt.Sprintf("%d keys not deleted", len(e.Failed)) }

// Rewinder may be implemented by a Put body that can be sent again from the start. Only the Store looks for it.
type Rewinder interface {
	Rewind() error
}
