package dialect

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/conformance/fault"
)

func TestSteps(t *testing.T) {
	for _, tt := range []struct {
		d         fault.Dialect
		what, url string
		rng       string
		want      string
	}{
		{S3{}, "PUT", "http://h/box/a/b", "", fault.Put},
		{S3{}, "GET", "http://h/box/a", "", fault.Get},
		{S3{}, "HEAD", "http://h/box/a", "", fault.Stat},
		{S3{}, "DELETE", "http://h/box/a", "", fault.Delete},
		{S3{}, "HEAD", "http://h/box", "", fault.Bucket},
		{S3{}, "GET", "http://h/box?list-type=2&prefix=a", "", fault.List},
		{S3{}, "GET", "http://h/box/?list-type=2", "", fault.List},
		{S3{}, "POST", "http://h/box?delete=", "", fault.Bulk},
		{S3{}, "POST", "http://h/box/a?uploads=", "", fault.MPUBegin},
		{S3{}, "GET", "http://h/box?uploads=&prefix=a", "", fault.MPUList},
		{S3{}, "PUT", "http://h/box/a?partNumber=1&uploadId=u", "", fault.MPUPart},
		{S3{}, "POST", "http://h/box/a?uploadId=u", "", fault.MPUCommit},
		{S3{}, "DELETE", "http://h/box/a?uploadId=u", "", fault.MPUAbort},
		{S3{}, "GET", "http://h/box/a?uploadId=u&max-parts=1", "", fault.MPUParts},
		{S3{}, "POST", "https://sts.eu-west-1.amazonaws.com/", "", fault.Token},
		{S3{}, "PUT", "http://169.254.169.254/latest/api/token", "", fault.Token},
		{S3{}, "PATCH", "http://h/box/a", "", ""},
		{S3{}, "PATCH", "http://h/box/a?uploadId=u", "", ""},
		{S3{VirtualHost: true}, "HEAD", "http://box.h/a", "", fault.Stat},
		{S3{VirtualHost: true}, "HEAD", "http://box.h/", "", fault.Bucket},

		{GCS{}, "POST", "http://h/upload/storage/v1/b/box/o?uploadType=multipart&name=a", "", fault.Put},
		{GCS{}, "POST", "http://h/upload/storage/v1/b/box/o?uploadType=resumable&name=a", "", fault.ResumableBegin},
		{GCS{}, "POST", "http://h/upload/storage/v1/b/box/o?uploadType=resumable&upload_id=u", "bytes 0-9/*", fault.ResumableChunk},
		{GCS{}, "POST", "http://h/upload/storage/v1/b/box/o?uploadType=resumable&upload_id=u", "bytes 10-19/20", fault.ResumableCommit},
		{GCS{}, "POST", "http://h/upload/storage/v1/b/box/o?uploadType=resumable&upload_id=u", "bytes */20", fault.ResumableCommit},
		{GCS{}, "PUT", "http://h/upload/storage/v1/b/box/o?uploadType=resumable&upload_id=u", "bytes */*", fault.ResumableQuery},
		{GCS{}, "DELETE", "http://h/upload/storage/v1/b/box/o?uploadType=resumable&upload_id=u", "", fault.ResumableCancel},
		{GCS{}, "GET", "http://h/storage/v1/b/box/o/a?alt=media", "", fault.Get},
		{GCS{}, "GET", "http://h/storage/v1/b/box/o/a?alt=json", "", fault.Stat},
		{GCS{}, "DELETE", "http://h/storage/v1/b/box/o/a", "", fault.Delete},
		{GCS{}, "GET", "http://h/storage/v1/b/box/o?prefix=a", "", fault.List},
		{GCS{}, "GET", "http://h/storage/v1/b/box", "", fault.Bucket},
		{GCS{}, "POST", "https://oauth2.googleapis.com/token", "", fault.Token},
		{GCS{}, "PATCH", "http://h/storage/v1/b/box/o/a", "", ""},

		{Azure{}, "POST", "https://login.microsoftonline.com/t/oauth2/v2.0/token", "", fault.Token},
		{Azure{}, "GET", "https://login.microsoftonline.com/t/v2.0/.well-known/openid-configuration", "", fault.Discovery},
		{Azure{}, "GET", "https://login.microsoftonline.com/common/discovery/instance?api-version=1.1", "", fault.Discovery},
		{Azure{}, "PUT", "http://h/acc/box/a", "", fault.Put},
		{Azure{}, "PUT", "http://h/acc/box/a?comp=block&blockid=1", "", fault.BlockStage},
		{Azure{}, "PUT", "http://h/acc/box/a?comp=blocklist", "", fault.BlockCommit},
		{Azure{}, "GET", "http://h/acc/box/a?comp=blocklist&blocklisttype=uncommitted", "", fault.BlockList},
		{Azure{}, "GET", "http://h/acc/box/a", "", fault.Get},
		{Azure{}, "HEAD", "http://h/acc/box/a", "", fault.Stat},
		{Azure{}, "DELETE", "http://h/acc/box/a", "", fault.Delete},
		{Azure{}, "GET", "http://h/acc/box?restype=container&comp=list", "", fault.List},
		{Azure{}, "GET", "http://h/acc/box?restype=container", "", fault.Bucket},
		{Azure{}, "POST", "https://login.microsoftonline.com/t/oauth2/v2.0/token", "", fault.Token},
		{Azure{}, "GET", "http://127.0.0.1:1/?api-version=2019-08-01&resource=https%3A%2F%2Fstorage.azure.com", "", fault.Token},
		{Azure{}, "PUT", "http://h/acc/box/a?comp=metadata", "", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.what, tt.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.rng != "" {
			r.Header.Set("Content-Range", tt.rng)
		}
		if got := tt.d.Step(r); got != tt.want {
			t.Errorf("%T: %s %s %s is %q, want %q", tt.d, tt.what, tt.url, tt.rng, got, tt.want)
		}
	}
}

// TestErrors: each dialect has every kind but those that its provider does not know, and each says its word.
func TestErrors(t *testing.T) {
	unknown := map[fault.Dialect][]fault.ErrorKind{
		S3{}: {fault.RateLimit}, GCS{}: {fault.ClockSkew, fault.Archived}, Azure{}: {fault.RateLimit, fault.ClockSkew},
	}
	for d, none := range unknown {
		for _, kind := range fault.Kinds() {
			resp := d.Error(fault.Put, kind)
			if slices.Contains(none, kind) {
				if resp != nil {
					t.Errorf("%T has a %s", d, kind)
				}
				continue
			}
			if resp == nil {
				t.Errorf("%T has no %s", d, kind)
				continue
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode < 400 || int64(len(body)) != resp.ContentLength {
				t.Errorf("%T, %s: %d, %d bytes of %d, %v", d, kind, resp.StatusCode, len(body), resp.ContentLength, err)
			}
			if len(body) > 0 && !strings.Contains(string(body), "Something happened.") {
				t.Errorf("%T, %s: %s", d, kind, body)
			}
		}
	}
}
