package gcsserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/gcs"
	"github.com/tierkit/tierkit/conformance/dialect"
	"github.com/tierkit/tierkit/conformance/fault"
	"github.com/tierkit/tierkit/conformance/fault/gcsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const chunk = 256 << 10

// open returns a driver over a new server, with a plan in between.
func open(t *testing.T, rules ...fault.Rule) (*gcs.Driver, *gcsserver.Server, *fault.Plan) {
	t.Helper()
	s := gcsserver.New("box")
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	plan := fault.NewPlan(dialect.GCS{}, rules...)
	d, err := gcs.Open(t.Context(), gcs.Options{Bucket: "box", Endpoint: srv.URL, Anonymous: true, ChunkBytes: chunk, RetryDelay: 1}, backends.Env{WrapTransport: plan.Wrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.Close()
		plan.Close()
		if err := plan.Check(); err != nil {
			t.Errorf("%v\n%s", err, plan)
		}
	})
	return d, s, plan
}

func pattern(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + i>>8)
	}
	return out
}

func read(t *testing.T, d *gcs.Driver, r backends.Range) []byte {
	t.Helper()
	obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: r})
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Body.Close()
	b, err := io.ReadAll(obj.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestServer_SessionsAreTheServices: what fake-gcs-server does otherwise.
func TestServer_SessionsAreTheServices(t *testing.T) {
	data := pattern(3*chunk + 5)
	for name, rule := range map[string]fault.Rule{
		"no fault":                       {Step: fault.ResumableChunk, Do: fault.CloseIdle{}},
		"a piece comes twice":            {Step: fault.ResumableChunk, Nth: 2, Do: fault.Duplicate{}},
		"the answer to a piece is lost":  {Step: fault.ResumableChunk, Nth: 2, Do: fault.DropResponse{}},
		"a piece is cut":                 {Step: fault.ResumableChunk, Nth: 2, Do: fault.Reset{Of: fault.Request, After: 1000}},
		"the answer to the last is lost": {Step: fault.ResumableCommit, Do: fault.DropResponse{}},
		"the last comes twice":           {Step: fault.ResumableCommit, Do: fault.Duplicate{}},
	} {
		d, s, plan := open(t, rule)
		info, err := d.Put(t.Context(), "k", bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))})
		if err != nil || info.Size != int64(len(data)) || !bytes.Equal(read(t, d, backends.All()), data) {
			t.Errorf("%s: %+v, %v\n%s", name, info, err, plan)
		}
		if left := s.Sessions("box"); len(left) > 0 {
			t.Errorf("%s: sessions are left: %q", name, left)
		}
	}
}

func TestServer_RefusesWhatTheServiceRefuses(t *testing.T) {
	data := pattern(2*chunk + 5)
	for _, step := range []string{fault.Put, fault.ResumableCommit} {
		body := data
		if step == fault.Put {
			body = data[:1000]
		}
		d, _, plan := open(t, fault.Rule{Step: step, Do: fault.Corrupt{Of: fault.Request, Offset: 900}})
		if _, err := d.Put(t.Context(), "k", bytes.NewReader(body), backends.PutOptions{Size: int64(len(body))}); err == nil {
			t.Errorf("%s: bytes that changed on their way are stored\n%s", step, plan)
		}
		if _, err := d.Stat(t.Context(), "k"); !errors.Is(err, backends.NotFound) {
			t.Errorf("%s: stat: %v", step, err)
		}
	}
	d, s, _ := open(t)
	opts := backends.PutOptions{Size: int64(len(data)), IfAbsent: true}
	if _, err := d.Put(t.Context(), "k", bytes.NewReader(data), opts); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Put(t.Context(), "k", bytes.NewReader(data), opts); !errors.Is(err, backends.Exists) {
		t.Errorf("a second creation: %v", err)
	}
	if got := read(t, d, backends.Range{Offset: 10, Length: 7}); !bytes.Equal(got, data[10:17]) {
		t.Errorf("a range: %x", got)
	}
	_, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.Range{Offset: int64(len(data)), Length: 1}})
	if !errors.Is(err, backends.InvalidRange) {
		t.Errorf("behind the end: %v", err)
	}
	s.Expire()
}

func TestServer_ListsInPages(t *testing.T) {
	d, _, _ := open(t)
	for i := range 5 {
		if _, err := d.Put(t.Context(), fmt.Sprintf("a/%d", i), bytes.NewReader(nil), backends.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for token := ""; ; {
		page, err := d.List(t.Context(), backends.ListOptions{Prefix: "a/", Token: token, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range page.Infos {
			got = append(got, i.Key)
		}
		if token = page.Next; token == "" {
			break
		}
	}
	if want := "[a/0 a/1 a/2 a/3 a/4]"; fmt.Sprint(got) != want {
		t.Errorf("got %v", got)
	}
	if err := d.Delete(t.Context(), "a/3"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Stat(t.Context(), "a/3"); !errors.Is(err, backends.NotFound) {
		t.Errorf("stat of what was deleted: %v", err)
	}
}
