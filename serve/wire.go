package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/remotelog"
)

const (
	// maxJSON bounds a request in JSON. A leader epoch checkpoint of ten thousand epochs has 200 kB.
	maxJSON = 4 << 20
	// firstJSON is what room is made for at once: most requests have less.
	firstJSON = 16 << 10
	// bodyTime is how long such a request may take to arrive.
	bodyTime = 10 * time.Second
	// answerTime is how long a client may take to take an answer in, or the next piece of a stream.
	answerTime = 60 * time.Second
	// maxWait is the most that a call that asks for the end of something waits, so that it is answered within 500 ms.
	maxWait = 450 * time.Millisecond
)

// readJSON reads the body of a request into v.
func (s *Server) readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	if r.ContentLength < 0 {
		return &kinded{KindInvalidArgument, http.StatusLengthRequired, "the request has no Content-Length"}
	}
	if r.ContentLength > maxJSON {
		return &kinded{KindInvalidArgument, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d bytes", maxJSON)}
	}
	var data bytes.Buffer // grows with what comes: what is only announced takes no memory
	data.Grow(int(min(r.ContentLength, firstJSON)) + bytes.MinRead)
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(s.now().Add(bodyTime)) // of a connection; tests have none
	if n, err := data.ReadFrom(r.Body); err != nil || n < r.ContentLength {
		err = cmp.Or(err, io.ErrUnexpectedEOF)
		return &kinded{KindTimeout, http.StatusRequestTimeout, fmt.Sprintf("the request did not arrive: %v", err)}
	}
	_ = conn.SetReadDeadline(time.Time{})
	if err := json.Unmarshal(data.Bytes(), v); err != nil {
		if own, ok := errors.AsType[*kinded](err); ok {
			return own
		}
		if errors.Is(err, remotelog.ErrInvalidArgument) {
			return err
		}
		return errorf(KindInvalidArgument, "the request is not the JSON of this call: %v", err)
	}
	return nil
}

// segment is the metadata of a segment inside a request.
type segment struct {
	given bool
	md    remotelog.SegmentMetadata
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *segment) UnmarshalJSON(data []byte) (err error) {
	s.md, err = segmentjson.Parse(data)
	s.given = err == nil
	return err
}

func (s *segment) check() error {
	if !s.given {
		return errorf(KindInvalidArgument, "the request has no segment")
	}
	return nil
}

// fetchRequest is the body of PUT /v1/fetch.
type fetchRequest struct {
	Segment segment `json:"segment"`
	Start   int64   `json:"start"`
	End     *int64  `json:"end"` // inclusive; nil: the last byte
}

// indexRequest is the body of PUT /v1/index/{type}.
type indexRequest struct {
	Segment segment `json:"segment"`
}

// deleteRequest is the body of POST /v1/delete.
type deleteRequest struct {
	Segment segment `json:"segment"`
	Journal bool    `json:"journal"`
	WaitMs  int64   `json:"waitMs"`
}

// copyRequest is the body of POST /v1/copies.
type copyRequest struct {
	Segment      segment              `json:"segment"`
	LeaderEpochs []byte               `json:"leaderEpochs"`
	Files        map[string]*fileSpec `json:"files"`
}

// fileSpec names a file of a segment as the client sees it.
type fileSpec struct {
	Path   string   `json:"path"`
	Device bits     `json:"device"`
	Inode  bits     `json:"inode"`
	Size   *int64   `json:"size"`
	kind   fileKind // filled in
}

// bits are a number of 64 bits, written with or without a sign: Java has no unsigned ones.
type bits uint64

// UnmarshalJSON implements json.Unmarshaler.
func (b *bits) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" { // a client that cannot find it out
		return nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		*b = bits(u)
		return nil
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errorf(KindInvalidArgument, "%.40q is no whole number of 64 bits", text)
	}
	*b = bits(i)
	return nil
}

// wait reads a number of milliseconds that a client is ready to wait.
func wait(ms int64) time.Duration {
	return max(0, min(time.Duration(min(ms, 1000))*time.Millisecond, maxWait))
}

// answer sends v as JSON.
func (s *Server) answer(w http.ResponseWriter, status int, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	s.mayTake(w)
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that left has no use for it
	return nil
}

// mayTake gives the client its time for the next piece of an answer.
func (s *Server) mayTake(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(s.now().Add(answerTime)) // of a connection; tests have none
}

// refuse sends an error.
func (s *Server) refuse(w http.ResponseWriter, p problem) {
	_ = s.answer(w, p.status, struct { // of strings: it can be marshalled
		Error problem `json:"error"`
	}{p})
}
