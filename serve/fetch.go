package serve

import (
	"context"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tierkit/tierkit/remotelog"
)

// copyBuffer is the size of the pieces in which streams go out. There are as many buffers as calls that send, at most maxCalls and
// in a broker's life some ten, which is why they are not charged to the memory budget.
const copyBuffer = 256 << 10

var buffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// serveFetch is PUT /v1/fetch.
func (s *Server) serveFetch(w http.ResponseWriter, r *http.Request) error {
	q := fetchRequest{}
	if err := s.readJSON(w, r, &q); err != nil {
		return err
	}
	if err := q.Segment.check(); err != nil {
		return err
	}
	md, end := q.Segment.md, int64(math.MaxInt64)
	if q.End != nil {
		end = *q.End
	}
	if q.Start < 0 || end < q.Start || q.Start > md.SizeBytes {
		return errorf(KindInvalidArgument, "bytes %d to %d of a log of %d", q.Start, end, md.SizeBytes)
	}
	end = min(end, md.SizeBytes-1)
	w.Header().Set("Tierkit-Segment-Size", strconv.FormatInt(md.SizeBytes, 10))
	return s.stream(w, r, &sending{
		place: func(pos int64) place {
			return place{segment: md.SegmentID, index: -1, stretch: (q.Start + pos) / s.o.ChunkBytes}
		},
		open: func(ctx context.Context) (io.ReadCloser, int64, error) {
			if q.Start == md.SizeBytes {
				end = q.Start // rsm has the empty stream at the end of a log, for any end that is not before it
			}
			body, err := s.segments.Fetch(ctx, md, q.Start, end)
			return body, min(end, md.SizeBytes-1) - q.Start + 1, err
		},
	})
}

// serveIndex is PUT /v1/index/{type}.
func (s *Server) serveIndex(w http.ResponseWriter, r *http.Request, name string) error {
	t, err := remotelog.ParseIndexType(name)
	if err != nil {
		return errorf(KindUnknownPath, "no such path here: %v", err)
	}
	var q indexRequest
	if err := s.readJSON(w, r, &q); err != nil {
		return err
	}
	if err := q.Segment.check(); err != nil {
		return err
	}
	md := q.Segment.md
	return s.stream(w, r, &sending{
		place: func(int64) place { return place{segment: md.SegmentID, index: t, stretch: -1} },
		open: func(ctx context.Context) (io.ReadCloser, int64, error) {
			body, err := s.segments.FetchIndex(ctx, md, t)
			if err != nil {
				return nil, 0, err
			}
			sized, ok := body.(interface{ Size() int64 })
			if !ok {
				_ = body.Close() // read only
				return nil, 0, errorf(KindFailed, "the size of the index is not known")
			}
			return body, sized.Size(), nil
		},
	})
}

// sending is a stream on its way to a client.
type sending struct {
	place func(pos int64) place // what the byte at pos belongs to
	open  func(ctx context.Context) (io.ReadCloser, int64, error)

	s      *Server
	holds  holder
	ctx    context.Context //nolint:containedctx // of the call
	cancel context.CancelCauseFunc
	limit  *time.Timer // of the next piece
	at     place
	wait   *waiter           // nil: the bytes at hand are there
	ended  func(error) error // of the try at the place; nil: none runs
}

// holder is who slows down the asking for what failed just now.
type holder uint8

const (
	daemonHolds holder = iota
	clientHolds        // it says so; it knows how many of its calls are held in all
)

func holderOf(r *http.Request) holder {
	if r.Header.Get("Tierkit-Holds") == "client" {
		return clientHolds
	}
	return daemonHolds
}

// stream sends what is opened. The status waits for the first bytes, so that an error of the store is an error of the call. An error after
// that breaks the connection: the client has fewer bytes than were announced.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, x *sending) error {
	x.s, x.holds = s, holderOf(r)
	x.ctx, x.cancel, x.limit = s.callContext(r)
	defer x.cancel(nil)
	defer func() { _ = x.leave(context.Canceled) }() // after a panic nobody waits behind it
	buf, _ := buffers.Get().(*[copyBuffer]byte)      // it has no other
	defer buffers.Put(buf)
	body, size, n, err := x.begin(buf[:])
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // read only
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	s.mayTake(w)
	w.WriteHeader(http.StatusOK)
	for pos := int64(0); ; {
		if n > 0 {
			s.mayTake(w)
			if _, err := w.Write(buf[:n]); err != nil {
				return broken(because(x.ctx, context.Canceled)) // the client has left, as it may
			}
		}
		if pos += int64(n); pos >= size {
			return nil
		}
		if n, err = x.next(body, buf[:min(copyBuffer, size-pos)], pos); err != nil {
			return broken(err)
		}
	}
}

// begin opens the stream and reads its first bytes.
func (x *sending) begin(buf []byte) (body io.ReadCloser, size int64, n int, err error) {
	if err := x.enter(0); err != nil {
		return nil, 0, 0, err
	}
	body, size, err = x.open(x.ctx)
	if err != nil {
		return nil, 0, 0, x.leave(err)
	}
	if size > 0 {
		if n, err = read(body, buf[:min(copyBuffer, size)]); err != nil {
			_ = body.Close() // read only
			return nil, 0, 0, x.leave(err)
		}
	}
	return body, size, n, x.leave(nil)
}

// next reads more. Only where it comes to another place others may wait for the same bytes.
func (x *sending) next(body io.Reader, buf []byte, pos int64) (n int, err error) {
	x.limit.Reset(longCall)
	if at := x.place(pos); at != x.at {
		if err := x.enter(pos); err != nil {
			return 0, err
		}
	}
	n, err = read(body, buf)
	return n, x.leave(err)
}

// enter comes to a place.
func (x *sending) enter(pos int64) (err error) {
	x.at = x.place(pos)
	if x.ended, err = x.s.failures.try(x.at); err != nil {
		if x.holds == daemonHolds {
			x.s.failures.holdBack(x.ctx)
		}
		return err
	}
	x.wait = x.s.waits.enter(x.at, x.cancel)
	return nil
}

// leave says what became of the wait for the bytes of a place, and returns the error as it is to be told.
func (x *sending) leave(err error) error {
	if err != nil {
		err = because(x.ctx, err)
	}
	x.wait.leave()
	x.wait = nil
	if x.ended != nil {
		err = x.ended(err)
		x.ended = nil
	}
	return err
}

// read reads at least one byte. The end of a stream before its size is an error: there are never fewer bytes than were announced.
func read(r io.Reader, p []byte) (n int, err error) {
	for range 100 { // io.Reader allows no bytes and no error; bufio gives up after as many
		if n, err = r.Read(p); n > 0 {
			return n, nil // an error comes again
		}
		if err == io.EOF {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}
