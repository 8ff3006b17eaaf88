package parts

import (
	"context"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
)

// Part is one piece of the body.
type Part struct {
	Number int    // from 1; of Single: 1
	Bytes  []byte // not to be touched any more once the call returned
	CRC32C uint32
}

// Whole is the body as it was sent.
type Whole struct {
	Parts  int
	Size   int64
	CRC32C uint32
}

// Target is one upload to one key. Every method takes a context, ends with it, and touches no Part.Bytes after it returned: an HTTP
// transport may go on reading a request's body after it has answered, so a Target gives it a Reader and closes that. Errors of
// Single and Commit that leave open whether the store did it are *backends.Error with Ambiguous.
type Target interface {
	// Begin opens an upload in parts. It is called only when there is more than one part.
	Begin(ctx context.Context) error
	// Single stores a body that fits one part.
	Single(ctx context.Context, p Part) (backends.Info, error)
	// Part sends one part. It is called from several goroutines at a time, parts come in any order.
	Part(ctx context.Context, p Part) error
	// Commit makes the object of the parts 1 to w.Parts.
	Commit(ctx context.Context, w Whole) (backends.Info, error)
	// Abort removes what Begin and Part left in the store; it is called after a failed Begin too. An upload that is gone is success.
	Abort(ctx context.Context) error
	// Find tells whether the object that is there now is the one that this upload sent, and describes it if so.
	Find(ctx context.Context) (info backends.Info, mine bool, err error)
}

// Limits are what the store allows. A zero field is no limit.
type Limits struct {
	MaxPartBytes   int64
	MaxParts       int
	MaxObjectBytes int64
	EqualParts     bool // all parts but the last have to have one size
}

// Options of a Put.
type Options struct {
	Size   int64   // of the body, or backends.SizeUnknown
	CRC32C *uint32 // of the body, if the caller knows it
	Memory *membudget.Reservation

	PartBytes   int64 // wanted size of a part, > 0; it becomes larger where MaxParts demands it
	Concurrency int   // parts sent at a time, 0 is 1
	Limits      Limits

	CleanupTimeout time.Duration // bounds what happens after an error; 0: 30 s
}

const (
	cleanupTimeout = 30 * time.Second
	mib            = 1 << 20
	// growEvery is after how many parts of a body of unknown size the parts double: 5 MiB to begin with reach 5 TiB in 10,000 parts.
	growEvery = 1000
)

// firstPart is the size of the first buffer.
func (o *Options) firstPart() int64 {
	if o.Size < 0 {
		return o.PartBytes
	}
	return min(o.Size, o.partBytes(1))
}

// partBytes is how large part n should be.
func (o *Options) partBytes(n int) int64 {
	size := o.PartBytes
	switch {
	case o.Size >= 0 && o.Limits.MaxParts > 0:
		least := (o.Size + int64(o.Limits.MaxParts) - 1) / int64(o.Limits.MaxParts)
		if least > size {
			size = (least + mib - 1) / mib * mib
		}
	case o.Size < 0 && !o.Limits.EqualParts:
		size <<= min((n-1)/growEvery, 20)
	}
	if o.Limits.MaxPartBytes > 0 {
		size = min(size, o.Limits.MaxPartBytes)
	}
	return size
}

// slabs is how many buffers a Put can use: the parts on their way, and the one being filled.
func (o *Options) slabs() int { return max(1, o.Concurrency) + 1 }

// Memory returns what a Put with these options needs: at least the first buffer, and as many as it can use. It is what a driver
// answers to PutMemory.
func Memory(o Options) (least, want int64) {
	least = membudget.Capacity(int(o.firstPart()))
	n := int64(o.slabs())
	if o.Size >= 0 {
		part := max(1, o.partBytes(1))
		n = min(n, max(1, (o.Size+part-1)/part))
	}
	return least, least * n
}
