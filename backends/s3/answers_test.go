package s3

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/dialect"
	"github.com/tierkit/tierkit/conformance/fault"
	"github.com/tierkit/tierkit/internal/testbed"
)

// planned opens a driver on MinIO whose requests meet a plan.
func planned(t *testing.T, o func(*Options), rules ...fault.Rule) (*Driver, *fault.Plan) {
	t.Helper()
	srv := testbed.MinIO(t)
	plan := fault.NewPlan(dialect.S3{})
	opts := at(srv, srv.Bucket(t))
	opts.MaxAttempts, opts.RetryDelay = 2, 1
	if o != nil {
		o(&opts)
	}
	d := mustOpen(t, opts, backends.Env{WrapTransport: plan.Wrap})
	if _, err := d.Put(t.Context(), "k", strings.NewReader("old"), backends.PutOptions{Size: 3}); err != nil {
		t.Fatal(err)
	}
	plan.Add(rules...)
	t.Cleanup(func() {
		if err := plan.Check(); err != nil || t.Failed() {
			t.Errorf("%v\n%s", err, plan)
		}
	})
	return d, plan
}

// TestAnswers_OfSomebodyElseAreNoSuccess: a PutObject that a hotel's page had answered was success, and nothing was stored.
func TestAnswers_OfSomebodyElseAreNoSuccess(t *testing.T) {
	page := fault.Garbage{Code: 200, Type: "text/html", Body: "<html>Welcome to the hotel</html>"}
	nothing := fault.Garbage{Code: 200, Type: "application/xml"}
	ask := map[string]func(d *Driver) error{
		fault.Put: func(d *Driver) error {
			_, err := d.Put(t.Context(), "k", strings.NewReader("newer"), backends.PutOptions{Size: 5})
			return err
		},
		fault.MPUPart: func(d *Driver) error {
			_, err := d.Put(t.Context(), "k", bytes.NewReader(random(minPart+1)), backends.PutOptions{Size: minPart + 1})
			return err
		},
		fault.Get: func(d *Driver) error {
			_, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
			return err
		},
		fault.Stat:   func(d *Driver) error { _, err := d.Stat(t.Context(), "k"); return err },
		fault.List:   func(d *Driver) error { _, err := d.List(t.Context(), backends.ListOptions{}); return err },
		fault.Bulk:   func(d *Driver) error { return d.DeleteMany(t.Context(), []string{"k", "l"}) },
		fault.Delete: func(d *Driver) error { return d.Delete(t.Context(), "k") },
	}
	ask[fault.MPUCommit], ask[fault.MPUList] = ask[fault.MPUPart], func(d *Driver) error { _, err := d.ListUploads(t.Context(), "k"); return err }
	for step, f := range ask {
		for _, do := range []fault.Action{page, nothing} {
			if step == fault.Delete && do == fault.Action(nothing) {
				continue // may be a store that has another idea of the status
			}
			t.Run(step+" "+do.String(), func(t *testing.T) {
				d, plan := planned(t, nil, fault.Rule{Step: step, Times: fault.Forever, Do: do})
				err := f(d)
				if backends.CodeOf(err) != backends.Corrupt {
					t.Errorf("got %v, want Corrupt", err)
				}
				plan.Stop()
				obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
				if err != nil {
					t.Fatal(err)
				}
				defer obj.Body.Close()
				if b, err := io.ReadAll(obj.Body); string(b) != "old" || err != nil {
					t.Errorf("the object: %q, %v", b, err)
				}
			})
		}
	}
}

// TestRetries_OfWhatTheSDKDoesNotTryAgain, each once.
func TestRetries_OfWhatTheSDKDoesNotTryAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		step string
		do   fault.Action
	}{
		"a listing that breaks":   {fault.List, fault.Truncate{After: 100}},
		"429":                     {fault.List, fault.Status{Kind: fault.TooManyRequests}},
		"bytes that have changed": {fault.Put, fault.Corrupt{Of: fault.Request, Offset: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			d, plan := planned(t, nil, fault.Rule{Step: tt.step, Do: tt.do})
			_, err := d.Put(t.Context(), "k", strings.NewReader("newer"), backends.PutOptions{Size: 5})
			_, lerr := d.List(t.Context(), backends.ListOptions{})
			if err := errors.Join(err, lerr); err != nil {
				t.Error(err)
			}
			if n := len(plan.Log()); n != 4 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// TestChecksums_OfTheSDKOnlyWhenAskedFor: its loader answers "when supported" for everybody, which many servers do not take.
func TestChecksums_OfTheSDKOnlyWhenAskedFor(t *testing.T) {
	for _, ask := range []string{"", "when_supported"} {
		t.Setenv("AWS_REQUEST_CHECKSUM_CALCULATION", ask)
		t.Setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", ask)
		var seen []string
		note := fault.Hook{Name: "note", Do: func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			for name := range r.Header {
				if n := strings.ToLower(name); strings.Contains(n, "checksum") || n == "x-amz-trailer" || n == "content-md5" {
					seen = append(seen, r.Method+" "+n)
				}
			}
			return next.RoundTrip(r)
		}}
		d, _ := planned(t, func(o *Options) { o.Checksum = "none" }, fault.Rule{Times: fault.Forever, Do: note})
		if _, err := d.Put(t.Context(), "k", strings.NewReader("newer"), backends.PutOptions{Size: 5}); err != nil {
			t.Fatal(err)
		}
		obj, err := d.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		_ = obj.Body.Close()
		slices.Sort(seen)
		if want := ask != ""; want != (len(seen) > 0) {
			t.Errorf("asked for %q: %v", ask, seen)
		}
	}
}
