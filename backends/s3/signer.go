package s3

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// signer is the SDK's, made anew when the secret key of an access key changes: the SDK keeps the keys that it derives from a secret by the access key
// alone (aws/signer/internal/v4/cache.go, looked at in v1.48.0), so that a corrected secret would not be used before the next day.
type signer struct {
	mu     sync.Mutex
	inner  *v4.Signer
	access string
	secret string
}

func newSigner() *signer { return &signer{inner: newV4()} }

func newV4() *v4.Signer {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }) // as S3 wants it
}

// SignHTTP implements s3.HTTPSignerV4.
func (s *signer) SignHTTP(ctx context.Context, c aws.Credentials, r *http.Request, hash, service, region string, at time.Time, fns ...func(*v4.SignerOptions)) error {
	return s.of(c).SignHTTP(ctx, c, r, hash, service, region, at, fns...)
}

func (s *signer) of(c aws.Credentials) *v4.Signer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.AccessKeyID == s.access && c.SecretAccessKey != s.secret {
		s.inner = newV4()
	}
	s.access, s.secret = c.AccessKeyID, c.SecretAccessKey
	return s.inner
}
