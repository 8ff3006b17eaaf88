package serve

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/remotelog"
)

// FuzzRequests: whatever comes as the body of a call is taken or refused as the client's mistake.
func FuzzRequests(f *testing.F) {
	md := someMetadata()
	seg, err := json.Marshal(segmentjson.Of(&md))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"segment":` + string(seg) + `,"start":0,"end":1,"waitMs":400,"journal":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxJSON {
			return
		}
		s := &Server{now: fixedNow}
		for _, v := range []any{new(fetchRequest), new(indexRequest), new(deleteRequest), new(copyRequest)} {
			r := request(t, t.Context(), "POST", "/", data)
			err := s.readJSON(discard{}, r, v)
			if err != nil {
				if k := kindOf(err); k != KindInvalidArgument {
					t.Fatalf("%T: %v is %s", v, err, k)
				}
				continue
			}
			q, ok := v.(*copyRequest)
			if !ok || q.Segment.check() != nil {
				continue
			}
			specs, err := q.specs()
			if err != nil {
				continue
			}
			dirs := logDirs{derive: true}
			for _, spec := range specs {
				if spec == nil {
					continue
				}
				if h, err := dirs.open(spec, q.Segment.md.TopicIDPartition); err == nil {
					_ = h.close()
				}
			}
		}
	})
}

// FuzzOrder: files of the journal are of others, too.
func FuzzOrder(f *testing.F) {
	md := someMetadata()
	seg, err := json.Marshal(segmentjson.Of(&md))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"version":1,"segment":` + string(seg) + `}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := parseOrder(data); err != nil && !errors.Is(err, remotelog.ErrInvalidArgument) {
			t.Errorf("%v, want ErrInvalidArgument", err)
		}
	})
}
