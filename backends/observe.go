package backends

import (
	"context"
	"time"
)

// Op names an operation, in Error.Op, in logs and as a metric label. It is a closed enum.
type Op string

// The operations. OpRead is the stream that a Get opened, from the first byte to its Close.
const (
	OpOpen       Op = "open"
	OpPut        Op = "put"
	OpGet        Op = "get"
	OpRead       Op = "read"
	OpStat       Op = "stat"
	OpDelete     Op = "delete"
	OpDeleteMany Op = "delete_many"
	OpList       Op = "list"
	OpUploads    Op = "uploads"
	OpAbort      Op = "abort"
	OpProbe      Op = "probe"
	OpClose      Op = "close"
)

// Ops returns every operation: to make all metric series before the first event.
func Ops() []Op {
	return []Op{OpOpen, OpPut, OpGet, OpRead, OpStat, OpDelete, OpDeleteMany, OpList, OpUploads, OpAbort, OpProbe, OpClose}
}

// OpEvent tells what became of one operation.
type OpEvent struct {
	Driver   string
	Op       Op
	Key      string        // masked like Error.Key
	Range    Range         // of OpGet and OpRead
	Bytes    int64         // read from a Put's body, delivered to a reader, or keys of a listing or bulk delete
	Attempts int           // requests as far as the driver tells; of OpRead: 1 + Resumes; of OpPut: 2 after a restart
	Resumes  int           // of OpRead: how often the body broke and was opened again
	Waited   time.Duration // for memory, a slot and the rate of bytes
	Took     time.Duration // everything
	Err      error         // as the caller sees it; nil: done
	Code     Code          // of Err; Unknown when Err is nil or has no code
}

// Observer is told of every operation once it ended. OnOp is called off locks from many goroutines and must not block.
type Observer interface {
	OnOp(ctx context.Context, e OpEvent)
}
