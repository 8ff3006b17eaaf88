package s3

import (
	"crypto/md5" //nolint:gosec // Content-MD5 is part of the protocol
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tierkit/tierkit/backends/parts"
)

// sight is what the answers of an unknown endpoint have told of the server: its kind, as long as it does what is known of that. Until the
// first answer, and behind a proxy that hides it, the server is taken for any.
type sight struct {
	host  string // of the endpoint; "": nothing is to be found out
	found atomic.Pointer[provider]
	never atomic.Bool // it is not what it says
}

// watch prepares for an endpoint that neither a name nor its host has told, if its checksums are left to us.
func (s *sight) watch(o *Options, p *provider) {
	if p.name != "other" || o.Provider == p.name || o.Checksum != "" && checksumMode(o.Checksum) != checksumAuto {
		return
	}
	if u, err := url.Parse(o.Endpoint); err == nil {
		s.host = u.Hostname()
	}
}

// saw looks at an answer.
func (s *sight) saw(r *http.Request, resp *http.Response) {
	if s.host == "" || s.found.Load() != nil || s.never.Load() {
		return
	}
	host := r.URL.Hostname()
	if host != s.host && !strings.HasSuffix(host, "."+s.host) { // of keys
		return
	}
	if p, ok := recognised(resp.Header.Get("Server")); ok {
		s.found.Store(&p)
	}
}

// disappointed says that the server has not given back the checksum that it got: it does not know it, whatever it is called.
func (s *sight) disappointed() {
	if s.found.Swap(nil) != nil {
		s.never.Store(true)
	}
}

// sum is how an upload that begins now is protected.
func (d *Driver) sum() checksumMode {
	if p := d.sight.found.Load(); p != nil {
		return p.checksum
	}
	return d.checksum
}

// compares says whether an object that is read is compared with the checksum that the store has of it: where the user asks for it, or leaves it to
// us, an object that is read whole from a server that keeps them. For a range no store has one.
func (d *Driver) compares(whole bool) bool {
	if d.o.CheckReads || d.o.UncheckedReads {
		return d.o.CheckReads
	}
	auto := d.o.Checksum == "" || checksumMode(d.o.Checksum) == checksumAuto
	return whole && auto && d.sum() == checksumCRC32C
}

// sums returns the headers that protect an upload's body.
func (m checksumMode) sums(p parts.Part) (crc, md5sum *string) {
	switch m {
	case checksumCRC32C:
		crc = encodeCRC(p.CRC32C)
	case checksumMD5:
		sum := md5.Sum(p.Bytes) //nolint:gosec // Content-MD5
		md5sum = aws.String(base64.StdEncoding.EncodeToString(sum[:]))
	case checksumAuto, checksumNone:
	}
	return crc, md5sum
}

func encodeCRC(sum uint32) *string {
	b := []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
	return aws.String(base64.StdEncoding.EncodeToString(b))
}
