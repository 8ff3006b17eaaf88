package s3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscreds "github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/minio/minio-go/v7"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/internal/testbed"
)

// policy is the document that docs/s3.md shows.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Effect   string
	Action   []string
	Resource string
}

func documentedPolicy(t *testing.T, bucket string) policy {
	t.Helper()
	page, err := os.ReadFile("../../docs/s3.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "```json\n")
	text, _, ok2 := strings.Cut(text, "```")
	if !ok || !ok2 {
		t.Fatal("docs/s3.md shows no policy")
	}
	var p policy
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, ":::segments", ":::"+bucket)), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// without returns the policy less one action.
func (p policy) without(action string) policy {
	out := policy{Version: p.Version}
	for _, s := range p.Statement {
		s.Action = slices.DeleteFunc(slices.Clone(s.Action), func(a string) bool { return a == action })
		if len(s.Action) > 0 {
			out.Statement = append(out.Statement, s)
		}
	}
	return out
}

func (p policy) actions() (all []string) {
	for _, s := range p.Statement {
		all = append(all, s.Action...)
	}
	return all
}

// assume opens a driver that may do what the policy allows and nothing else.
func assume(t *testing.T, srv *testbed.S3, bucket string, p policy) *Driver {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	tr := new(http.Transport)
	defer tr.CloseIdleConnections()
	client := sts.New(sts.Options{
		HTTPClient: &http.Client{Transport: tr}, BaseEndpoint: &srv.Endpoint, Region: "us-east-1", Credentials: awscreds.NewStaticCredentialsProvider(srv.AccessKey, srv.SecretKey, ""),
	})
	out, err := client.AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn: aws.String("arn:aws:iam::123456789012:role/tierkit"), RoleSessionName: aws.String("test"), Policy: aws.String(string(text)),
	})
	if err != nil {
		t.Fatal(err)
	}
	o := at(srv, bucket)
	o.MaxAttempts = 1
	o.Credentials = Credentials{
		AccessKey: backends.NewSecret(*out.Credentials.AccessKeyId), SecretKey: backends.NewSecret(*out.Credentials.SecretAccessKey),
		SessionToken: backends.NewSecret(*out.Credentials.SessionToken),
	}
	return mustOpen(t, o, backends.Env{})
}

// deeds are what the engine does with a store. Each finds an object "there" in the bucket.
func deeds() map[string]func(ctx context.Context, d *Driver) error {
	big := random(2*minPart + 1)
	return map[string]func(ctx context.Context, d *Driver) error{
		"put": func(ctx context.Context, d *Driver) error {
			_, err := d.Put(ctx, "small", strings.NewReader("x"), backends.PutOptions{Size: 1, IfAbsent: false})
			return err
		},
		"put in parts": func(ctx context.Context, d *Driver) error {
			_, err := d.Put(ctx, "big", bytes.NewReader(big), backends.PutOptions{Size: int64(len(big))})
			return err
		},
		"put that fails": func(ctx context.Context, d *Driver) error {
			_, err := d.Put(ctx, "failed", bytes.NewReader(big), backends.PutOptions{Size: int64(len(big) + 1)})
			if errors.Is(err, backends.SizeMismatch) && !strings.Contains(err.Error(), "could not be removed") {
				return nil
			}
			return err
		},
		"get": func(ctx context.Context, d *Driver) error {
			o, err := d.Get(ctx, "there", backends.GetOptions{Range: backends.Range{Offset: 1, Length: 2}})
			if err == nil {
				_, err = io.ReadAll(o.Body)
				_ = o.Body.Close()
			}
			return err
		},
		"stat": func(ctx context.Context, d *Driver) error { _, err := d.Stat(ctx, "there"); return err },
		"stat of nothing": func(ctx context.Context, d *Driver) error {
			_, err := d.Stat(ctx, "nothing")
			if errors.Is(err, backends.NotFound) {
				return nil
			}
			return err
		},
		"list":   func(ctx context.Context, d *Driver) error { _, err := d.List(ctx, backends.ListOptions{}); return err },
		"delete": func(ctx context.Context, d *Driver) error { return d.Delete(ctx, "gone") },
		"delete many": func(ctx context.Context, d *Driver) error {
			err := d.DeleteMany(ctx, []string{"gone", "gone2"})
			if bulk, ok := errors.AsType[*backends.BulkDeleteError](err); ok {
				return bulk.Failed["gone2"]
			}
			return err
		},
		"uploads": func(ctx context.Context, d *Driver) error { _, err := d.ListUploads(ctx, "big"); return err },
		"probe":   func(ctx context.Context, d *Driver) error { return d.Probe(ctx) },
	}
}

// TestPolicy_ExactlyThatSuffices: with the documented policy everything works, and what the driver does not need is refused.
func TestPolicy_ExactlyThatSuffices(t *testing.T) {
	srv := testbed.MinIO(t)
	bucket := srv.Bucket(t)
	putThere(t, srv, bucket)
	d := assume(t, srv, bucket, documentedPolicy(t, bucket))
	for name, do := range deeds() {
		if err := do(t.Context(), d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, key := range []string{"big", "failed"} {
		if ids := srv.Uploads(t, bucket, key); len(ids) > 0 {
			t.Errorf("unfinished uploads of %s: %v", key, ids)
		}
	}
	other := srv.Bucket(t)
	o := d.o
	o.Bucket = other
	if _, err := mustOpen(t, o, backends.Env{}).List(t.Context(), backends.ListOptions{}); !errors.Is(err, backends.Denied) {
		t.Errorf("another bucket: %v, want Denied: the session has more than the policy", err)
	}
}

func putThere(t *testing.T, srv *testbed.S3, bucket string) {
	t.Helper()
	if _, err := srv.Client(t).PutObject(t.Context(), bucket, "there", strings.NewReader("0123"), 4, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestPolicy_EachMissingPermissionIsNamed: without one action what needs it fails with that action's name, and nothing else does.
func TestPolicy_EachMissingPermissionIsNamed(t *testing.T) {
	srv := testbed.MinIO(t)
	bucket := srv.Bucket(t)
	putThere(t, srv, bucket)
	fails := map[string][]string{
		"s3:PutObject":                  {"put", "put in parts", "put that fails", "probe"},
		"s3:GetObject":                  {"get", "stat", "stat of nothing", "probe"},
		"s3:DeleteObject":               {"delete", "delete many", "probe"},
		"s3:AbortMultipartUpload":       {"put that fails", "probe"},
		"s3:ListMultipartUploadParts":   {},
		"s3:ListBucket":                 {"list", "probe"}, // Amazon says 403 for a stat of nothing, too; MinIO does not
		"s3:ListBucketMultipartUploads": {"uploads", "probe"},
	}
	full := documentedPolicy(t, bucket)
	if len(full.actions()) != len(fails) {
		t.Errorf("the documented policy allows %v, the test knows %d actions", full.actions(), len(fails))
	}
	for _, action := range full.actions() {
		t.Run(action, func(t *testing.T) {
			d := assume(t, srv, bucket, full.without(action))
			for name, do := range deeds() {
				err := do(t.Context(), d)
				if want := slices.Contains(fails[action], name); want != (err != nil) {
					t.Errorf("%s: got %v, want an error: %v", name, err, want)
				}
				if err != nil && !strings.Contains(err.Error(), action) {
					t.Errorf("%s: the error does not name %s: %v", name, action, err)
				}
			}
		})
	}
}
