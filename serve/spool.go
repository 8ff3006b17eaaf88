package serve

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/remotelog"
)

// serveFile is PUT /v1/copies/{segmentId}/files/{name}.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, id remotelog.UUID, name string) error {
	op, err := s.copies.find(id)
	if err != nil {
		return err
	}
	kind, err := parseFileKind(name)
	if err != nil {
		return err
	}
	spec := op.specs[kind]
	switch {
	case r.ContentLength < 0:
		return &kinded{KindInvalidArgument, http.StatusLengthRequired, "the request has no Content-Length"}
	case spec == nil:
		return errorf(KindInvalidArgument, "the segment was announced without a %s", kind)
	case r.ContentLength != *spec.Size:
		return errorf(KindInvalidArgument, "the %s has %d bytes, %d were announced", kind, r.ContentLength, *spec.Size)
	}
	op.mu.Lock()
	wanted := op.wants(kind)
	op.mu.Unlock()
	body := &sent{s: s, conn: http.NewResponseController(w), op: op, r: r.Body}
	if !wanted {
		body.dropped = true
		if _, err := io.Copy(io.Discard, body); err != nil {
			return broken(err)
		}
		return s.noContent(w, body)
	}
	f, err := s.spool(body, *spec.Size)
	if disk := diskError(err); disk != nil || err == nil {
		s.stateWrite(r.Context(), s.state.spool, disk, 0)
	}
	if err != nil {
		return err
	}
	if !op.accept(kind, f) {
		_ = f.close() // another sending of it was faster, or the copy has ended
	}
	return s.noContent(w, body)
}

func (s *Server) noContent(w http.ResponseWriter, body *sent) error {
	_ = body.conn.SetReadDeadline(time.Time{}) // of a connection; tests have none
	s.mayTake(w)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// leastPiece is what a client has answerTime for: one that sends a byte now and then would keep a copy, and its files, for ever.
const leastPiece = 64 << 10

// sent is the body of a file on its way. Each piece counts as asking about the copy, and the end of the copy ends it, unless it is for
// nothing anyway.
type sent struct {
	s       *Server
	conn    *http.ResponseController
	op      *copyOp
	r       io.Reader
	dropped bool

	since time.Time // the present window of time began
	came  int64     // bytes in it
}

func (b *sent) Read(p []byte) (int, error) {
	select {
	case <-b.op.over:
		if !b.dropped {
			return 0, errors.New("the copy has ended")
		}
	default:
	}
	b.op.asked()
	if b.came >= leastPiece || b.since.IsZero() {
		b.since, b.came = b.s.now(), 0
		_ = b.conn.SetReadDeadline(b.since.Add(answerTime)) // of a connection; tests have none
	}
	if b.s.now().Sub(b.since) > answerTime {
		return 0, fmt.Errorf("fewer than %d bytes came in %v", leastPiece, answerTime)
	}
	n, err := b.r.Read(p)
	b.came += int64(n)
	return n, err
}

// spool writes a body to a file that has no name any more once it is open: whatever becomes of this process, nothing is left.
func (s *Server) spool(body io.Reader, size int64) (_ *held, err error) {
	if err := durable.MakeDir(s.state.spool); err != nil { // somebody may have removed it
		return nil, err
	}
	f, err := os.CreateTemp(s.state.spool, "*")
	if err != nil {
		return nil, err
	}
	h := &held{f: f, size: size, spooled: &s.counts}
	s.counts.spoolNow.Add(size)
	defer func() {
		if err != nil {
			_ = h.close() // its bytes are of no use
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	n, err := io.Copy(onlyWriter{f}, body)
	if err != nil && diskError(err) == nil {
		err = broken(err)
	}
	if err != nil {
		return nil, err
	}
	if n != size {
		return nil, broken(fmt.Errorf("%d bytes of %d came", n, size))
	}
	s.counts.spooled.Add(n)
	return h, nil
}

// diskError tells what is wrong with the disk, which is worth an answer, from what is wrong with the connection: nil.
func diskError(err error) error {
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return err
	}
	return nil
}

// onlyWriter hides ReadFrom of a file, which would read from the connection with splice and past the body's own Read.
type onlyWriter struct{ io.Writer }
