package rsm

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/membudget"
	"github.com/tierkit/tierkit/remotelog"
)

// meeting lets the puts of .log and .indexes of a copy end only when both have begun. What comes later is the manifest.
type meeting struct {
	r        *rig
	log, idx chan struct{}
	open     atomic.Int32 // puts on their way
	most     atomic.Int32
}

func (m *meeting) install() {
	m.log, m.idx = make(chan struct{}), make(chan struct{})
	m.r.driver.put = func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
		m.most.Store(max(m.most.Load(), m.open.Add(1)))
		defer m.open.Add(-1)
		mine, other := m.log, m.idx
		switch {
		case strings.HasSuffix(key, ".indexes"):
			mine, other = m.idx, m.log
		case strings.HasSuffix(key, ".rsm-manifest"):
			return m.r.driver.Driver.Put(ctx, key, body, o)
		}
		close(mine)
		select {
		case <-other:
		case <-ctx.Done():
			return backends.Info{}, ctx.Err()
		}
		return m.r.driver.Driver.Put(ctx, key, body, o)
	}
}

func TestCopy_IndexesAreStoredBesideTheLogAndTheManifestLast(t *testing.T) {
	for name, c := range transforms(1000) {
		r := newRig(t, c)
		m := &meeting{r: r}
		m.install()
		order := make(chan string, 8)
		put := r.driver.put
		r.driver.put = func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
			if strings.HasSuffix(key, ".rsm-manifest") && m.open.Load() != 0 {
				t.Errorf("%s: the manifest is stored while the data are on their way", name)
			}
			i, err := put(ctx, key, body, o)
			order <- key[strings.LastIndexByte(key, '.')+1:]
			return i, err
		}
		md, data, log := segmentOf(41, 5000)
		fin := r.mustCopy(t, md, data) // hangs unless both are on their way at the same time
		close(order)
		last := ""
		for last = range order {
			continue
		}
		if last != "rsm-manifest" {
			t.Errorf("%s: %s is stored last", name, last)
		}
		if got, err := read(t.Context(), r.Manager, fin, 0, remotelog.ToEnd); err != nil || string(got) != string(log) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// When there is memory for what was reserved only, the objects are stored one after the other.
func TestCopy_IndexesWaitWhereMemoryIsShort(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, Compression: true})
	md, data, _ := segmentOf(42, 5000)
	var open, most atomic.Int32
	r.driver.put = func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		return r.driver.Driver.Put(ctx, key, body, o)
	}
	r.driver.stat = func(ctx context.Context, key string) (backends.Info, error) { // the copy has reserved; the rest becomes others'
		for others := r.budget.TryReserve(membudget.Copy, 512); others != nil; others = r.budget.TryReserve(membudget.Copy, 512) {
			t.Cleanup(others.Release)
		}
		return r.driver.Driver.Stat(ctx, key)
	}
	_, err := r.Copy(t.Context(), md, data)
	if err != nil || most.Load() != 1 {
		t.Errorf("%d puts at a time, %v; want one", most.Load(), err)
	}
}

// The first failure ends the other object's put, and what is there is removed only when nothing is on its way any more.
func TestCopy_AFailureOfOneEndsTheOtherFirst(t *testing.T) {
	for _, fails := range []string{".log", ".indexes"} {
		r := newRig(t, Config{ChunkBytes: 1000, Compression: true})
		var open atomic.Int32
		r.driver.put = func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
			open.Add(1)
			defer open.Add(-1)
			if strings.HasSuffix(key, fails) {
				return backends.Info{}, errBoom
			}
			<-ctx.Done()
			_, _ = r.driver.Driver.Put(context.WithoutCancel(ctx), key, strings.NewReader("late"), backends.PutOptions{Size: 4}) // as a store does that did not hear of it
			return backends.Info{}, ctx.Err()
		}
		r.driver.delete = func(ctx context.Context, key string) error {
			if open.Load() != 0 {
				t.Errorf("%s fails: %s is deleted while a put is on its way", fails, key)
			}
			return r.driver.Driver.Delete(ctx, key)
		}
		md, data, _ := segmentOf(43, 5000)
		if _, err := r.Copy(t.Context(), md, data); !errors.Is(err, backends.Unavailable) || errors.Is(err, context.Canceled) {
			t.Errorf("%s fails: %v, want its error", fails, err)
		}
		if keys := r.keys(t); len(keys) != 0 {
			t.Errorf("%s fails: left behind %v", fails, keys)
		}
	}
}

// begun tells when it is read.
type begun struct {
	remotelog.Source
	read chan struct{}
}

func (b *begun) Open(ctx context.Context) (io.ReadCloser, int64, error) {
	rc, n, err := b.Source.Open(ctx)
	return &begunReader{ReadCloser: rc, b: b}, n, err
}

type begunReader struct {
	io.ReadCloser
	b *begun
}

func (r *begunReader) Read(p []byte) (int, error) {
	select {
	case <-r.b.read:
	default:
		close(r.b.read) // one goroutine reads at a time
	}
	return r.ReadCloser.Read(p)
}

func TestCopy_TheLogIsReadWhileTheStoreIsAsked(t *testing.T) {
	r := newRig(t, Config{ChunkBytes: 1000, Compression: true, Encryption: true})
	md, data, _ := segmentOf(44, 5000)
	log := &begun{Source: data.Log, read: make(chan struct{})}
	data.Log = log
	var asked atomic.Bool
	r.driver.stat = func(ctx context.Context, key string) (backends.Info, error) {
		if strings.HasSuffix(key, ".rsm-manifest") && asked.CompareAndSwap(false, true) {
			select {
			case <-log.read: // hangs if the log waits for this answer
			case <-ctx.Done():
				return backends.Info{}, ctx.Err()
			}
		}
		return r.driver.Driver.Stat(ctx, key)
	}
	r.mustCopy(t, md, data)

	// A refusal of that question ends what was begun.
	r.driver.stat = func(context.Context, string) (backends.Info, error) { return backends.Info{}, errBoom }
	if _, err := r.Copy(t.Context(), md, data); !errors.Is(err, backends.Unavailable) {
		t.Errorf("%v, want the error of the question", err)
	}
}

// Who notes that a copy runs has done so before anything in the store changes, and is waited for.
func TestCopyNoting_TheNoteComesBeforeAnyChange(t *testing.T) {
	for name, again := range map[string]bool{"a first copy": false, "the same id again": true} {
		r := newRig(t, Config{ChunkBytes: 1000, Compression: true})
		md, data, _ := segmentOf(45, 5000)
		if again {
			r.mustCopy(t, md, data)
		}
		var noted atomic.Bool
		asked := make(chan struct{})
		change := func(what string) {
			if !noted.Load() {
				t.Errorf("%s: %s before the copy was noted", name, what)
			}
		}
		r.driver.stat = func(ctx context.Context, key string) (backends.Info, error) {
			if strings.HasSuffix(key, ".rsm-manifest") {
				close(asked)
			}
			return r.driver.Driver.Stat(ctx, key)
		}
		r.driver.put = func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
			change("put " + key)
			return r.driver.Driver.Put(ctx, key, body, o)
		}
		r.driver.delete = func(ctx context.Context, key string) error {
			change("delete " + key)
			return r.driver.Driver.Delete(ctx, key)
		}
		_, err := r.CopyNoting(t.Context(), md, data, func() {
			<-asked // hangs if the question waits for the note
			noted.Store(true)
		})
		if err != nil || !noted.Load() {
			t.Errorf("%s: %v, noted: %v", name, err, noted.Load())
		}
	}
	r := newRig(t, Config{ChunkBytes: 1000})
	md, data, _ := segmentOf(46, 5000)
	failed := make(chan struct{})
	r.driver.stat = func(context.Context, string) (backends.Info, error) {
		close(failed)
		return backends.Info{}, errBoom
	}
	var noted atomic.Bool
	_, err := r.CopyNoting(t.Context(), md, data, func() {
		<-failed
		noted.Store(true)
	})
	if !errors.Is(err, backends.Unavailable) || !noted.Load() {
		t.Errorf("a store that does not answer: %v; the note was waited for: %v", err, noted.Load())
	}
}
