package rsm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/remotelog"
)

// failing lets one call of a copy to its store fail.
type failing struct {
	r    *rig
	at   string // the call that fails, the first one of this name
	kind string
	stop context.CancelFunc
	did  atomic.Bool
}

var errBoom = backends.Errorf(backends.Unavailable, "boom")

// step reports whether this call is the one.
func (f *failing) step(what string) bool { return what == f.at && f.did.CompareAndSwap(false, true) }

func (f *failing) install() {
	d := f.r.driver
	d.stat = func(ctx context.Context, key string) (backends.Info, error) {
		if !f.step("stat " + key[strings.LastIndex(key, ".")+1:]) {
			return d.Driver.Stat(ctx, key)
		}
		switch f.kind {
		case "cancel":
			f.stop()
			return backends.Info{}, ctx.Err()
		case "wrong size":
			i, err := d.Driver.Stat(ctx, key)
			i.Size++
			return i, err
		case "lost":
			return backends.Info{}, backends.Errorf(backends.NotFound, "lost")
		}
		return backends.Info{}, errBoom
	}
	d.put = func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
		if !f.step("put " + key[strings.LastIndex(key, ".")+1:]) {
			return d.Driver.Put(ctx, key, body, o)
		}
		switch f.kind {
		case "cancel":
			_, _ = io.CopyN(io.Discard, body, 100)
			f.stop()
			_, err := io.Copy(io.Discard, body)
			return backends.Info{}, errors.Join(err, ctx.Err())
		case "before":
			return backends.Info{}, errBoom
		case "at byte":
			_, _ = io.CopyN(io.Discard, body, 700)
			return backends.Info{}, errBoom
		case "no space":
			_, _ = io.CopyN(io.Discard, body, 1)
			return backends.Info{}, &backends.Error{Code: backends.Exhausted, Err: errors.New("no space left on device")}
		case "stores fewer": // and says so
			all, err := io.ReadAll(body)
			if err != nil {
				return backends.Info{}, err
			}
			o.Size, o.CRC32C = int64(len(all)-1), nil
			return d.Driver.Put(ctx, key, bytes.NewReader(all[1:]), o)
		case "lies": // stores fewer and says otherwise
			all, err := io.ReadAll(body)
			if err != nil {
				return backends.Info{}, err
			}
			o.Size, o.CRC32C = int64(len(all)-1), nil
			i, err := d.Driver.Put(ctx, key, bytes.NewReader(all[1:]), o)
			i.Size++
			return i, err
		case "stores half": // and calls it a success
			half, err := io.ReadAll(io.LimitReader(body, 10))
			if err != nil {
				return backends.Info{}, err
			}
			o.Size, o.CRC32C = int64(len(half)), nil
			return d.Driver.Put(ctx, key, bytes.NewReader(half), o)
		}
		i, err := d.Driver.Put(ctx, key, body, o) // after it was stored
		if err == nil {
			err = &backends.Error{Code: backends.Timeout, Ambiguous: true, Err: errBoom}
		}
		return i, err
	}
}

func TestCopy_AFailureAtAnyCallLeavesNothingBehind(t *testing.T) {
	conf := Config{ChunkBytes: 1000, Compression: true, Encryption: true}
	for kind, want := range map[string]error{
		"before": backends.Unavailable, "after": backends.Timeout, "at byte": backends.Unavailable, "cancel": context.Canceled, "no space": backends.Exhausted,
		"stores fewer": remotelog.ErrCorrupt, "stores half": remotelog.ErrCorrupt, "lies": remotelog.ErrCorrupt,
		"wrong size": remotelog.ErrCorrupt, "lost": nil,
	} {
		for _, at := range []string{"stat rsm-manifest", "put log", "stat log", "put indexes", "stat indexes", "put rsm-manifest"} {
			if kind == "lost" && at == "stat rsm-manifest" || kind == "lies" && at == "put rsm-manifest" || kind == "wrong size" && at == "stat rsm-manifest" {
				continue // is no failure: the manifest is expected to be absent; of the manifest nothing but the answer is known
			}
			r := newRig(t, conf)
			md, data, _ := segmentOf(11, 5000)
			ctx, cancel := context.WithCancel(t.Context())
			f := &failing{r: r, at: at, kind: kind, stop: cancel}
			f.install()
			_, err := r.Copy(ctx, md, data)
			r.driver.put, r.driver.stat = nil, nil
			cancel()
			if !f.did.Load() {
				t.Errorf("%s: there was no %s", kind, at)
			}
			wrong := want
			if strings.HasPrefix(at, "put ") != (kind != "wrong size" && kind != "lost") && kind != "cancel" {
				wrong = nil // the other kind of call simply fails
			}
			if err == nil || (wrong != nil && !errors.Is(err, wrong)) || errors.Is(err, remotelog.ErrNotFound) {
				t.Errorf("%s at %s: %v, want %v", kind, at, err, wrong)
			}
			if keys := r.keys(t); len(keys) != 0 {
				t.Errorf("%s at %s: left behind %v", kind, at, keys)
			}
			if strings.Contains(errorText(err), "could not be removed") {
				t.Errorf("%s at %s: %v", kind, at, err)
			}
		}
	}
}

// A caller that leaves when the store has just taken the last byte is no damage.
func TestCopy_CancelledBehindTheLastByteIsNotCorrupt(t *testing.T) {
	for _, suffix := range []string{".log", ".indexes", ".rsm-manifest"} {
		r := newRig(t, Config{ChunkBytes: 1000, Compression: true})
		md, data, _ := segmentOf(22, 5000)
		ctx, cancel := context.WithCancel(t.Context())
		r.driver.put = func(pctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
			i, err := r.driver.Driver.Put(pctx, key, body, o)
			if strings.HasSuffix(key, suffix) {
				cancel()
			}
			return i, err
		}
		_, err := r.Copy(ctx, md, data)
		cancel()
		if errors.Is(err, remotelog.ErrCorrupt) || err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled behind the %s: %v", suffix, err)
		}
		if err == nil && suffix != ".rsm-manifest" {
			t.Errorf("cancelled behind the %s: no error", suffix)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCopy_SaysWhatItCouldNotRemove(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, _ := segmentOf(12, 2000)
	r.driver.put = func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
		if strings.HasSuffix(key, ".rsm-manifest") {
			return backends.Info{}, errBoom
		}
		return r.driver.Driver.Put(ctx, key, body, o)
	}
	r.driver.delete = func(context.Context, string) error { return backends.Errorf(backends.Denied, "not allowed") }
	_, err := r.Copy(t.Context(), md, data)
	if !errors.Is(err, backends.Unavailable) || !errors.Is(err, backends.Denied) || strings.Contains(err.Error(), "\n") || !errors.Is(err, ErrLeftBehind) {
		t.Errorf("%v; want both errors", err)
	}
	if !remotelog.Retriable(err) {
		t.Errorf("%v is not retriable although the first error is", err)
	}
}

func TestCopy_RefusesBeforeItTouchesTheStore(t *testing.T) {
	md, data, _ := segmentOf(13, 1000)
	panics := remotelog.Source(panicSource{})
	for name, c := range map[string]struct {
		change func(*remotelog.SegmentMetadata, *remotelog.SegmentData)
		text   string
	}{
		"state":         {func(m *remotelog.SegmentMetadata, _ *remotelog.SegmentData) { m.State = remotelog.CopySegmentFinished }, "COPY_SEGMENT_FINISHED"},
		"bad metadata":  {func(m *remotelog.SegmentMetadata, _ *remotelog.SegmentData) { m.EndOffset = 0 }, "end offset"},
		"log too short": {func(m *remotelog.SegmentMetadata, _ *remotelog.SegmentData) { m.SizeBytes++ }, "1000 bytes, the metadata of the segment say 1001"},
		"log too long":  {func(m *remotelog.SegmentMetadata, _ *remotelog.SegmentData) { m.SizeBytes-- }, "1000 bytes"},
		"no log":        {func(_ *remotelog.SegmentMetadata, d *remotelog.SegmentData) { d.Log = nil }, "no .log"},
		"no such file": {func(_ *remotelog.SegmentMetadata, d *remotelog.SegmentData) {
			d.TimeIndex = remotelog.File("/none/such")
		}, "/none/such"},
		"no time index": {func(_ *remotelog.SegmentMetadata, d *remotelog.SegmentData) { d.TimeIndex = nil }, "no timestamp index"},
		"no snapshot":   {func(_ *remotelog.SegmentMetadata, d *remotelog.SegmentData) { d.ProducerSnapshot = nil }, "no producer-snapshot"},
		"directory": {func(_ *remotelog.SegmentMetadata, d *remotelog.SegmentData) {
			d.OffsetIndex = remotelog.File(os.TempDir())
		}, "regular file"},
		"open panics": {func(_ *remotelog.SegmentMetadata, d *remotelog.SegmentData) { d.OffsetIndex = panics }, "panicked"},
		"too many chunks": {func(m *remotelog.SegmentMetadata, d *remotelog.SegmentData) {
			m.SizeBytes = 1 << 30
			d.Log = sized(1 << 30)
		}, keyChunkSize},
	} {
		r := newRig(t, Config{ChunkBytes: 10, Compression: name == "too many chunks"})
		if name == "too many chunks" {
			r.config.ChunkBytes = 1
		}
		touched := false
		r.driver.put = func(context.Context, string, io.Reader, backends.PutOptions) (backends.Info, error) {
			touched = true
			return backends.Info{}, errBoom
		}
		r.driver.stat = func(context.Context, string) (backends.Info, error) { touched = true; return backends.Info{}, errBoom }
		r.driver.delete = func(context.Context, string) error { touched = true; return errBoom }
		m, d := md, data
		c.change(&m, &d)
		_, err := r.Copy(t.Context(), m, d)
		if !errors.Is(err, remotelog.ErrInvalidArgument) && name != "open panics" || err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want ErrInvalidArgument with %q", name, err, c.text)
		}
		if touched {
			t.Errorf("%s: the store was touched", name)
		}
	}
}

type panicSource struct{}

func (panicSource) Open(context.Context) (io.ReadCloser, int64, error) { panic("ouch") }

// sized is a Source of so many zero bytes.
type sized int64

func (n sized) Open(context.Context) (io.ReadCloser, int64, error) {
	return io.NopCloser(io.LimitReader(zeros{}, int64(n))), int64(n), nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// odd is a Source that announces another size than it delivers, or misbehaves while it is read.
type odd struct {
	announced int64
	r         io.Reader
}

func (o odd) Open(context.Context) (io.ReadCloser, int64, error) {
	return io.NopCloser(o.r), o.announced, nil
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("ouch") }

func TestCopy_SourcesThatChangeWhileTheyAreReadFailIt(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		r    func() io.Reader
		text string
	}{
		"short":  {func() io.Reader { return io.LimitReader(zeros{}, 999) }, "999"},
		"long":   {func() io.Reader { return io.LimitReader(zeros{}, 1001) }, "goes on"},
		"fails":  {func() io.Reader { return io.MultiReader(io.LimitReader(zeros{}, 500), errReader{boom}) }, "boom"},
		"panics": {func() io.Reader { return io.MultiReader(io.LimitReader(zeros{}, 500), panicReader{}) }, "panicked"},
	} {
		for _, what := range []string{"log", "index"} {
			r := newRig(t, Config{ChunkBytes: 300, Compression: true, Encryption: true})
			md, data, _ := segmentOf(14, 1000)
			src := odd{1000, c.r()}
			if what == "log" {
				data.Log = src
			} else {
				data.ProducerSnapshot = src
			}
			_, err := r.Copy(t.Context(), md, data)
			if err == nil || !strings.Contains(err.Error(), c.text) && (name != "short" || !strings.Contains(err.Error(), "1000")) {
				t.Errorf("%s %s: %v, want %q", what, name, err, c.text)
			}
			if keys := r.keys(t); len(keys) != 0 {
				t.Errorf("%s %s: left behind %v", what, name, keys)
			}
		}
	}
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func TestCopy_TheSameIDAgainReplacesIt(t *testing.T) {
	for name, c := range transforms(1000) {
		r := newRig(t, c)
		md, data, _ := segmentOf(15, 3000)
		r.mustCopy(t, md, data)
		if _, err := read(t.Context(), r.Manager, finished(md, nil), 0, remotelog.ToEnd); err != nil { // the manifest is in the cache now
			t.Fatal(err)
		}
		_, other, want := segmentOf(16, 3000)
		var absent atomic.Int32
		r.driver.put = func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
			if _, err := read(ctx, r.Manager, finished(md, nil), 0, remotelog.ToEnd); errors.Is(err, remotelog.ErrNotFound) {
				absent.Add(1)
			} else {
				t.Errorf("%s: while %s is stored, Fetch: %v, want ErrNotFound", name, key, err)
			}
			return r.driver.Driver.Put(ctx, key, body, o)
		}
		fin := r.mustCopy(t, md, other)
		r.driver.put = nil
		if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, want) || absent.Load() != 3 {
			t.Errorf("%s: after the second copy: %d bytes, %v; absent at %d of 3 puts", name, len(got), err, absent.Load())
		}
		if got, err := readIndex(t.Context(), r.Manager, fin, remotelog.OffsetIndex); err != nil || !bytes.Equal(got, other.OffsetIndex.(remotelog.Bytes)) {
			t.Errorf("%s: offset index %q, %v", name, got, err)
		}
	}
}

func TestCopy_AskingIsDeniedThenDeletesAnyway(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, log := segmentOf(17, 3000)
	r.mustCopy(t, md, data)
	denied, deletes := backends.Errorf(backends.Denied, "no HEAD for you"), 0
	r.driver.stat = func(context.Context, string) (backends.Info, error) { return backends.Info{}, denied }
	r.driver.delete = func(ctx context.Context, key string) error { deletes++; return r.driver.Driver.Delete(ctx, key) }
	fin := r.mustCopy(t, md, data)
	if deletes != 1 {
		t.Errorf("%d deletes, want one: of the manifest", deletes)
	}
	if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || !bytes.Equal(got, log) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	fresh := newRig(t, Config{ChunkBytes: 1000})
	fresh.driver.delete = func(context.Context, string) error { t.Error("a key that is not there was deleted"); return nil }
	fresh.mustCopy(t, md, data)
}

func TestCopyAndDelete_OneAtATimeForASegmentID(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 500})
	md, data, _ := segmentOf(18, 3000)
	other, otherData, _ := segmentOf(19, 3000)
	var inside, most atomic.Int32
	entered, proceed := make(chan string, 16), make(chan struct{})
	r.driver.put = func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
		if strings.Contains(key, md.ID.String()) && strings.HasSuffix(key, ".log") {
			most.Store(max(most.Load(), inside.Add(1)))
			entered <- key
			<-proceed
			defer inside.Add(-1)
		}
		return r.driver.Driver.Put(ctx, key, body, o)
	}
	done := make(chan error, 3)
	for range 2 {
		go func() { _, err := r.Copy(context.Background(), md, data); done <- err }()
	}
	<-entered
	go func() { done <- r.Delete(context.Background(), md) }()
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { waiting <- r.Delete(ctx, md) }()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a delete that waits, cancelled: %v", err)
	}
	r.mustCopy(t, other, otherData) // another id does not wait
	close(proceed)
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d copies of one id at a time", most.Load())
	}
	switch n := len(r.keys(t)); n { // the delete ran before, between or after the copies, never among one
	case 3, 6:
	default:
		t.Errorf("left: %v", r.keys(t))
	}
	if len(r.locks.m) != 0 {
		t.Errorf("%d locks are kept", len(r.locks.m))
	}
}

func TestDelete_ManifestGoesFirstAndHalfACopyToo(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, _ := segmentOf(20, 3000)
	fin := r.mustCopy(t, md, data)
	boom := backends.Errorf(backends.Unavailable, "not now")
	r.driver.Driver = noBulk{r.driver.Driver}
	var order []string
	r.driver.delete = func(ctx context.Context, key string) error {
		order = append(order, key[strings.LastIndex(key, ".")+1:])
		if strings.HasSuffix(key, ".rsm-manifest") {
			return boom
		}
		return r.driver.Driver.Delete(ctx, key)
	}
	if err := r.Delete(t.Context(), fin); !errors.Is(err, backends.Unavailable) || !remotelog.Retriable(err) {
		t.Errorf("%v, want it to be Unavailable", err)
	}
	if len(order) != 1 || len(r.keys(t)) != 3 {
		t.Errorf("deleted %v although the manifest is still there; left %d objects", order, len(r.keys(t)))
	}
	r.driver.delete = nil
	for _, drop := range r.keys(t) { // whatever is missing already
		if err := r.driver.Driver.Delete(t.Context(), drop); err != nil {
			t.Fatal(err)
		}
		if err := r.Delete(t.Context(), fin); err != nil || len(r.keys(t)) != 0 {
			t.Errorf("without %s: %v, left %v", drop, err, r.keys(t))
		}
		r.mustCopy(t, md, data)
	}
}

// noBulk hides the optional interfaces of a driver.
type noBulk struct{ backends.Driver }

// shortNames is a driver that holds no longer names, as a file system does.
type shortNames struct{ backends.Driver }

func (d shortNames) Properties() backends.Properties {
	p := d.Driver.Properties()
	p.MaxSegmentBytes = 255
	return p
}

func TestCopyAndDelete_OfKeysThatTheStoreCannotHold(t *testing.T) {
	r := newRig(t, Config{})
	m := manager(t, shortNames{r.driver}, Config{ChunkBytes: 100}, io.Discard)
	md, data, _ := segmentOf(21, 1000)
	md.Topic = strings.Repeat("t", 249) // the longest that Kafka has, with the topic's id 272 bytes
	_, err := m.Copy(t.Context(), md, data)
	if !errors.Is(err, remotelog.ErrInvalidArgument) || !strings.Contains(err.Error(), "272 bytes, this store holds at most 255") {
		t.Errorf("copy: %v", err)
	}
	// The metadata have it as STARTED by now. It must not stay there for good.
	md.State = remotelog.DeleteSegmentStarted
	if err := m.Delete(t.Context(), md); err != nil {
		t.Errorf("delete: %v", err)
	}
	if left := r.keys(t); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
