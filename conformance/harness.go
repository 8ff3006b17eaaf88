package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// Harness connects the suite to one driver.
type Harness struct {
	// Open returns a driver over the place of o.Namespace: drivers opened with the same Namespace see the same objects, through
	// separate clients. Nil: it is opened by Factory with Settings, and the place is Shared.
	Open func(ctx context.Context, o OpenOptions) (backends.Driver, error)

	// Shared tells that Open returns the same place (a customer's bucket) whatever the Namespace. The suite then keeps below a prefix,
	// Namespace and a slash.
	Shared bool

	// Prefix is put before the names of namespaces in a shared place: the part of a bucket in which the suite may write.
	Prefix string

	// Factory and Settings are for the cases about configuration, and for Open when it is nil. Settings must open a driver.
	Factory  *backends.Factory
	Settings map[string]string

	// Knobs are how settings say what some cases change.
	Knobs Knobs

	// Dialect names the steps of HTTP requests (put, mpu.begin, mpu.part, ...) and forges errors. Nil: not HTTP.
	Dialect Dialect

	// NoFaults says why the server at hand cannot be tested with lost, cut and repeated requests: an emulator that lies about them. "": it can.
	NoFaults string

	// Raw, if set, looks under the driver (pending uploads, temp files).
	Raw RawInspector

	Deviations []Deviation
	Scale      Scale
	Limits     Limits

	// Seed makes a run reproducible. 0: one is drawn, and printed.
	Seed uint64

	// Only selects the runs whose name (ID/driver or ID/store) matches. Nil: all. Under go test -run does the same.
	Only *regexp.Regexp

	// TempDir is where the driver's temp files would be, "" for not looked at. Nobody else may use it.
	TempDir string
}

// OpenOptions vary what is opened.
type OpenOptions struct {
	Namespace string
	Env       backends.Env      // no field is nil; WrapTransport carries the log of requests and the faults
	Override  map[string]string // settings to change
}

// Knobs are the overrides that cases ask for by what they mean. What is nil is not varied: the cases that need it are skipped.
type Knobs struct {
	// SmallParts makes parts as small as the driver allows, and is part of every Open: bodies of a few MiB then have several parts.
	// PartBytes is their size.
	SmallParts map[string]string
	PartBytes  int64

	Endpoint         func(url string) map[string]string // another server, also one that is not there
	WrongCredentials map[string]string                  // well-formed and refused
	NoCredentials    map[string]string                  // none, where the driver would look for them; "" takes a setting away
	ReadOnly         map[string]string                  // credentials that may read and list, not write
	MissingBucket    map[string]string                  // a bucket, container or directory that does not exist

	// CredentialsFile writes good or wrong credentials into the file at path, and says how to use it.
	CredentialsFile func(path string, good bool) (map[string]string, error)
	// TokenServer makes the driver fetch its tokens, or temporary keys, from the endpoint at that URL.
	TokenServer func(url string) (map[string]string, error)
	// TokenAnswer is what such an endpoint says when it grants a token that holds so long. Nil: as an OAuth 2 token endpoint does.
	TokenAnswer func(w http.ResponseWriter, holds time.Duration)

	// Checksums are the modes of the driver's setting for checksums, by name.
	Checksums map[string]ChecksumMode

	CheckedReads map[string]string // objects are stored with a checksum, and one that is read whole is compared with it

	CAFile     func(path string) map[string]string
	Timeouts   func(d time.Duration) map[string]string // connect, answer and stall timeouts
	MaxConns   func(n int) map[string]string
	Attempts   func(n int) map[string]string
	RetryDelay func(longest time.Duration) map[string]string // between two attempts
}

// ChecksumMode is one mode of checksums.
type ChecksumMode struct {
	Override map[string]string
	Header   string // that a request with data has, "" for none
}

// plainServer is the host and port of the server that the settings name, if it is one without TLS: some cases stand in between.
func (h *Harness) plainServer() string {
	if h.Knobs.Endpoint == nil {
		return ""
	}
	for name := range h.Knobs.Endpoint("http://x") {
		if u, err := url.Parse(h.Settings[name]); err == nil && u.Scheme == "http" {
			return u.Host
		}
	}
	return ""
}

// Dialect maps a request to a step name and forges the provider's errors.
type Dialect = fault.Dialect

// ErrorKind names an error that every provider has in some form.
type ErrorKind = fault.ErrorKind

// RawInspector sees what the driver would hide.
type RawInspector interface {
	// Leftovers lists what is in a namespace: objects, pending uploads, temp files, but for what the store drops by itself
	// (Properties.PendingExpires). It is called when every object was deleted. Keys are the full keys whose uploads failed or may
	// have: some servers list the uploads of a key that is named, and of no other.
	Leftovers(ctx context.Context, namespace string, keys []string) ([]string, error)
}

// Deviation is a known, strict exception: the case must fail. If it passes, the run fails. ParseKnown reads lists of them, KnownOf has those of some servers.
type Deviation struct {
	Case   string // an ID, or ID/driver or ID/store for one of the two
	Reason string
	Issue  string // where it is reported, if it is
}

// Scale is how thorough a run is.
type Scale int

// The scales.
const (
	Quick Scale = iota // < 60 s, every commit
	Full               // minutes, before a release; one case at a time
)

// Limits bound a case. Zero values are defaults.
type Limits struct {
	HeapBytes   uint64        // heap above the start and the declared budget; 16 MiB
	HugeBytes   int64         // the largest body that is stored; 1.5 GiB
	OpTimeout   time.Duration // how late something that happens at once may come: 10 s, for busy machines
	CaseTimeout time.Duration // when a case counts as hung: 2 min, in Full 10 min
}

func (l Limits) withDefaults(s Scale) Limits {
	if l.HeapBytes == 0 {
		l.HeapBytes = 16 << 20
	}
	if l.HugeBytes == 0 {
		l.HugeBytes = 1536 << 20
	}
	if l.OpTimeout == 0 {
		l.OpTimeout = 10 * time.Second
	}
	if l.CaseTimeout == 0 {
		l.CaseTimeout = 2 * time.Minute
		if s == Full {
			l.CaseTimeout = 10 * time.Minute
		}
	}
	return l
}

// complete checks a Harness and fills in what follows from the rest.
func (h Harness) complete() (Harness, error) {
	h.Limits = h.Limits.withDefaults(h.Scale)
	if h.Open == nil {
		if h.Factory == nil {
			return h, errors.New("the harness has neither Open nor Factory")
		}
		h.Open, h.Shared = FromFactory(*h.Factory, h.Settings), true
	}
	cases := caseNames()
	for _, d := range h.Deviations {
		if !cases[d.Case] || d.Reason == "" {
			return h, fmt.Errorf("the deviation %q names no case, or has no reason", d.Case)
		}
	}
	return h, nil
}

// FromFactory returns a Harness.Open that opens drivers as a Registry would, from the settings and the overrides. The place is shared.
func FromFactory(f backends.Factory, settings map[string]string) func(context.Context, OpenOptions) (backends.Driver, error) {
	return func(ctx context.Context, o OpenOptions) (backends.Driver, error) {
		var r backends.Registry
		if err := r.Register(f); err != nil {
			return nil, err
		}
		props := maps.Clone(settings)
		if props == nil {
			props = make(map[string]string)
		}
		props["storage.backend"] = f.Name
		maps.Copy(props, o.Override)
		maps.DeleteFunc(props, func(_, value string) bool { return value == "" }) // an override takes a setting away like this
		s, err := r.Open(ctx, props, backends.Options{Env: o.Env})
		if err != nil {
			return nil, err
		}
		return s.Driver(), nil
	}
}
