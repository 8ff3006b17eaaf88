package s3

import (
	"net/url"
	"strings"
)

// provider says what a kind of server does differently from Amazon S3. Every field is a fact about it, used where it matters.
type provider struct {
	name  string
	hosts []string // suffixes of the endpoint's host

	server     string       // what the header Server of its answers begins with; "": not known
	checksum   checksumMode // what checksum=auto means
	fullObject bool         // CreateMultipartUpload takes ChecksumType FULL_OBJECT
	objectSize bool         // CompleteMultipartUpload takes x-amz-mp-object-size
	equalParts bool         // all parts but the last must have one size
	pathStyle  bool         // path style where the user does not say
	noIfAbsent bool         // If-None-Match of a PUT is ignored
	noBulk     bool         // DeleteObjects does not exist
	noTagging  bool         // x-amz-tagging is refused
	region     string       // where the user names none
}

// providers is searched from the top. The first entry without hosts is what an unknown endpoint is taken for.
func providers() []provider {
	return []provider{
		{
			name: "aws", hosts: []string{".amazonaws.com", ".amazonaws.com.cn"},
			checksum: checksumCRC32C, fullObject: true, objectSize: true,
		},
		// developers.cloudflare.com/r2/objects/multipart-objects: parts of one size; no tags, region auto.
		{name: "r2", hosts: []string{".r2.cloudflarestorage.com"}, checksum: checksumMD5, equalParts: true, noTagging: true, region: "auto"},
		// cloud.google.com/storage/docs/xml-api: no multi-object delete with S3's signatures, preconditions by generation only.
		{name: "gcs", hosts: []string{"storage.googleapis.com"}, checksum: checksumMD5, noBulk: true, noIfAbsent: true, noTagging: true, region: "auto"},
		{name: "b2", hosts: []string{".backblazeb2.com"}, checksum: checksumMD5, noIfAbsent: true, noTagging: true},
		{name: "other", checksum: checksumMD5, pathStyle: true},
		// MinIO 2026-02-12: keeps CRC32C and gives it back with an object that is read whole (test/drivers).
		{name: "minio", server: "MinIO", checksum: checksumCRC32C, pathStyle: true},
		// Versity S3 Gateway 1.8.0: the same.
		{name: "versitygw", server: "VERSITYGW", checksum: checksumCRC32C, pathStyle: true},
		// SeaweedFS 4.48: it gives a CRC32C back of a single put, and was not seen to compare one. Of two uploads in parts of one new key both may complete (test/drivers, ifabsent/race).
		{name: "seaweedfs", checksum: checksumMD5, pathStyle: true, noIfAbsent: true},
		{name: "ceph", checksum: checksumMD5, pathStyle: true},
	}
}

// providerNames are the values of storage.s3.provider.
func providerNames() []string {
	names := []string{"auto"}
	for _, p := range providers() {
		names = append(names, p.name)
	}
	return names
}

// chooseProvider finds the entry of a name, or of the endpoint's host where the name is auto. Without an endpoint it is aws.
func chooseProvider(name, endpoint string) provider {
	all := providers()
	host := ""
	if u, err := url.Parse(endpoint); err == nil {
		host = "." + strings.ToLower(u.Hostname())
	}
	for _, p := range all {
		if p.name == name {
			return p
		}
	}
	if endpoint == "" {
		return all[0]
	}
	for _, p := range all {
		for _, suffix := range p.hosts {
			if strings.HasSuffix(host, suffix) {
				return p
			}
		}
		if len(p.hosts) == 0 {
			return p
		}
	}
	return all[0]
}

// recognised returns the kind of a server that no name and no host has told, by the header Server of one of its answers.
func recognised(server string) (provider, bool) {
	for _, p := range providers() {
		if p.server != "" && strings.HasPrefix(server, p.server) {
			return p, true
		}
	}
	return provider{}, false
}

// checksumMode says with what an upload is protected on its way.
type checksumMode string

const (
	checksumAuto   checksumMode = "auto"
	checksumCRC32C checksumMode = "crc32c"
	checksumMD5    checksumMode = "md5"
	checksumNone   checksumMode = "none"
)
