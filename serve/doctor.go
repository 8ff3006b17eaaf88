package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// Result is what a check found.
type Result string

// The results.
const (
	OK   Result = "ok"
	Warn Result = "warn"
	Fail Result = "fail"
)

// Finding is one check of Examine.
type Finding struct {
	Check  string // what was looked at: "store: put an object"
	Result Result
	Text   string // what was found; "" where the check says all
	Do     string // what to do about it
}

// Subject is what Examine looks at. Segments is an open manager; everything else is as the settings say.
type Subject struct {
	Segments *rsm.Manager
	Config   Config
	LogDirs  []string
	BrokerID int32
	Custom   int    // bytes of custom metadata that the broker takes
	DiskDir  string // the disk cache's own directory; "": there is none
	Command  string // with which the plug-in starts the daemon; "": somebody else does
	Now      func() time.Time
	Report   func(Finding)
}

// doctorTime bounds each step of the examination of a store.
const doctorTime = 30 * time.Second

// maxSkew is how far the clocks of machine and store may be apart; S3 refuses requests from 15 minutes on.
const maxSkew = time.Minute

// Examine checks one thing after the other and reports each; a later one that makes no sense without an earlier one is left out. What it
// writes into the store it removes; on this machine it makes nothing, since that would belong to whoever runs it.
func Examine(ctx context.Context, x Subject) {
	x.keys(ctx)
	x.memory()
	x.command()
	x.stateDir()
	x.diskCache()
	x.token()
	x.tls()
	x.logDirs()
	x.addresses(ctx)
	x.custom()
	if x.store(ctx) {
		x.cycle(ctx)
	}
}

// check reports a check that ends with an error or without one.
func (x *Subject) check(what string, err error, do string) bool {
	if err != nil {
		x.Report(Finding{Check: what, Result: Fail, Text: oneLine(err.Error()), Do: do})
		return false
	}
	x.Report(Finding{Check: what, Result: OK})
	return true
}

func (x *Subject) keys(ctx context.Context) {
	if !x.Segments.Config().Encryption {
		x.Report(Finding{Check: "key pairs: nothing is encrypted", Result: OK})
		return
	}
	x.check("key pairs: wrap and unwrap a data key", x.Segments.CheckKeys(ctx),
		"public and private key files must be of one pair; see encryption.key.pairs in docs/configuration.md")
}

func (x *Subject) custom() {
	c := x.Segments.Config()
	most, err := LongestTopic(x.Custom, c.CustomBytes)
	const what = "custom metadata: length"
	if err == nil && most < MaxTopicName {
		x.Report(Finding{Check: what, Result: Warn,
			Text: fmt.Sprintf("names of more than %d characters need more than the broker's %d bytes: it would delete the copies of such a topic and stop copying it", most, x.Custom),
			Do:   "raise remote.log.metadata.custom.metadata.max.bytes of the brokers, or take fields out of custom.metadata.fields.include"})
		return
	}
	x.check(what, err, "")
}

// advice says what to do about an error of the store. The error itself names the setting or permission, as far as the driver can tell.
func advice(err error) string {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, header := errors.AsType[tls.RecordHeaderError](err)
	if certificate || header || errors.Is(err, http.ErrSchemeMismatch) {
		return "check http:// against https:// in the endpoint, and the store's certificate: its name, its dates, and whether this machine trusts who signed it"
	}
	for _, a := range []struct {
		code backends.Code
		do   string
	}{
		{backends.Denied, "give the daemon's credentials this permission; the page of the store in docs has the least policy"},
		{backends.Unauthenticated, "check the credentials in the settings below storage., or in the daemon's environment; without config.providers ${...} is taken as it is"},
		{backends.ClockSkew, "set the clock of this machine; it should be kept by NTP"},
		{backends.InvalidArgument, "check the name of the bucket, container or root, and the region, in the settings below storage."},
		{backends.Unavailable, "check the endpoint, the network and the proxy"},
		{backends.Timeout, "check the endpoint, the network and the proxy"},
		{backends.Exhausted, "make room: the store has no space or quota left"},
		{backends.Throttled, "the store is overloaded, or a limit of requests is reached: try again, raise the limit"},
		{backends.Unsupported, "this store cannot do what tierkit needs: run tierkit conformance on it"},
	} {
		if errors.Is(err, a.code) {
			return a.do
		}
	}
	return "run tierkit conformance on this store for more"
}

// store does what the engine does, one kind of request after the other. It reports whether all of them work.
func (x *Subject) store(ctx context.Context) bool {
	s := x.Segments.Store()
	if !x.step(ctx, "store: the driver's own probe", s.Probe) {
		return false
	}
	key := x.Segments.Config().KeyPrefix + "tierkit-doctor-" + remotelog.NewUUID().String()
	data := make([]byte, 4096)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data) // never fails
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), doctorTime)
		defer cancel()
		_ = s.Delete(clean, key) // once more, should a step between have failed
	}()
	ok := x.step(ctx, "store: put an object", func(ctx context.Context) error {
		_, err := s.Put(ctx, key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))})
		return err
	}) && x.step(ctx, "store: get it", func(ctx context.Context) error {
		return sameBytes(ctx, s, key, backends.All(), data)
	}) && x.step(ctx, "store: get a range of it", func(ctx context.Context) error {
		return sameBytes(ctx, s, key, backends.Range{Offset: 1000, Length: 2000}, data[1000:3000])
	}) && x.clock(ctx, s, key) && x.step(ctx, "store: list it", func(ctx context.Context) error {
		n := 0
		for _, err := range s.List(ctx, key) {
			if err != nil {
				return err
			}
			n++
		}
		if n != 1 {
			return fmt.Errorf("the listing has %d objects, want the one that was put", n)
		}
		return nil
	}) && x.step(ctx, "store: delete it", func(ctx context.Context) error {
		if err := s.Delete(ctx, key); err != nil {
			return err
		}
		if _, err := s.Stat(ctx, key); !errors.Is(err, backends.NotFound) {
			return fmt.Errorf("after the delete: %w, want %w", errors.Join(err, nil), backends.NotFound)
		}
		return nil
	})
	return ok && x.step(ctx, "store: break an upload off, leaving nothing", func(ctx context.Context) error { return breakOff(ctx, s, key) })
}

func (x *Subject) step(ctx context.Context, what string, f func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	err := f(ctx)
	if err == nil {
		return x.check(what, nil, "")
	}
	return x.check(what, err, advice(err))
}

func sameBytes(ctx context.Context, s *backends.Store, key string, r backends.Range, want []byte) error {
	obj, err := s.Get(ctx, key, backends.GetOptions{Range: r})
	if err != nil {
		return err
	}
	defer func() { _ = obj.Body.Close() }() // read only
	got, err := io.ReadAll(obj.Body)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%d bytes came back that are not the %d stored", len(got), len(want))
	}
	return err
}

// clock compares the time stamp that the store gave the object just now.
func (x *Subject) clock(ctx context.Context, s *backends.Store, key string) bool {
	var at time.Time
	if !x.step(ctx, "store: look at it", func(ctx context.Context) error {
		info, err := s.Stat(ctx, key)
		at = info.ModTime
		return err
	}) {
		return false
	}
	const what = "clock: against the store's"
	skew := x.Now().Sub(at)
	if !at.IsZero() && skew.Abs() > maxSkew {
		x.Report(Finding{Check: what, Result: Warn, Text: fmt.Sprintf("the clocks of this machine and of the store are %v apart", skew.Abs().Round(time.Second)),
			Do: "set the clock of this machine; it should be kept by NTP"})
		return true
	}
	return x.check(what, nil, "")
}

var errBreak = errors.New("broken off to see what stays")

// breakOff begins an upload that is large enough to go in parts, breaks it off, and looks for what is left.
func breakOff(ctx context.Context, s *backends.Store, key string) error {
	least, _ := s.PutMemory(backends.SizeUnknown)
	body := io.MultiReader(io.LimitReader(zeros{}, least+1<<20), &broke{})
	if _, err := s.Put(ctx, key, body, backends.PutOptions{Size: backends.SizeUnknown}); !errors.Is(err, errBreak) {
		return fmt.Errorf("the upload ended otherwise: %w", errors.Join(err, nil))
	} else if joined, ok := errors.AsType[*backends.Error](err); ok && joined.Code != backends.Unknown {
		return err // the clean-up failed
	}
	if _, err := s.Stat(ctx, key); !errors.Is(err, backends.NotFound) {
		return fmt.Errorf("an object is there: %w", errors.Join(err, nil))
	}
	ups, err := s.Uploads(ctx, key)
	if errors.Is(err, backends.Unsupported) || s.Properties().PendingExpires > 0 { // the store drops what is left by itself
		return nil
	}
	if err == nil && len(ups) > 0 {
		err = fmt.Errorf("%d unfinished uploads are left", len(ups))
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type broke struct{}

func (*broke) Read([]byte) (int, error) { return 0, errBreak }

// cycle copies a segment, reads it back and deletes it, as a broker would have it done.
func (x *Subject) cycle(ctx context.Context) {
	log := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(log) // never fails
	md := remotelog.SegmentMetadata{
		EndOffset: 99, LeaderEpochs: []remotelog.LeaderEpoch{{}}, MaxTimestampMs: -1, BrokerID: x.BrokerID,
		EventTimestampMs: x.Now().UnixMilli(), SizeBytes: int64(len(log)),
	}
	md.Topic, md.TopicID, md.ID = "tierkit-doctor", remotelog.NewUUID(), remotelog.NewUUID()
	m := x.Segments
	x.step(ctx, "segment: copy, read back, delete", func(ctx context.Context) error {
		custom, err := m.Copy(ctx, md, remotelog.SegmentData{
			Log: remotelog.Bytes(log), OffsetIndex: remotelog.Bytes{}, TimeIndex: remotelog.Bytes{}, ProducerSnapshot: remotelog.Bytes{},
			LeaderEpochs: []byte("0\n1\n0 0\n"),
		})
		if err != nil {
			return err
		}
		md.CustomMetadata, md.State = custom, remotelog.CopySegmentFinished
		got, err := fetchAll(ctx, m, md)
		if err == nil && !bytes.Equal(got, log) {
			err = fmt.Errorf("%d bytes came back that are not the %d copied", len(got), len(log))
		}
		return errors.Join(err, m.Delete(ctx, md))
	})
}

func fetchAll(ctx context.Context, m *rsm.Manager, md remotelog.SegmentMetadata) ([]byte, error) {
	r, err := m.Fetch(ctx, md, 0, md.SizeBytes-1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // read only
	return io.ReadAll(r)
}
