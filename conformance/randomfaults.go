package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance/fault"
)

// randomFaults lets a few workers, each with a key of its own, do everything while a plan that a seed has drawn acts.
func randomFaults(t T, b *Bench) {
	var used []string
	for _, step := range without(allSteps(), fault.Token, fault.MPUList, fault.Bulk) {
		if b.r.steps.seen[step] && step != fault.MPUAbort {
			used = append(used, step)
		}
	}
	for range Pick(b, 2, 8) {
		seed := uint64(b.IntN(1 << 30))
		f := newFaulty(t, b, faultOptions{timeout: faultTimeout})
		f.plan.Add(fault.Random(seed, used)...)
		t.Logf("the plan of seed %d: %v", seed, f.plan.Rules())
		var wg sync.WaitGroup
		for i := range 3 {
			w := &worker{f: f, key: fmt.Sprintf("w%d", i), rounds: 8}
			wg.Go(w.work)
		}
		wg.Wait()
		f.plan.Stop()
		if t.Failed() {
			return
		}
	}
}

// worker knows what its key may hold.
type worker struct {
	f      *faulty
	key    string
	rounds int
	may    [][]byte // nil in it: nothing
}

func (w *worker) work() {
	ctx := w.f.t.Context()
	w.may = [][]byte{nil}
	for i := range w.rounds {
		data := w.f.b.Bytes(1000 + i)
		if i%3 == 2 {
			data = w.f.large()
		}
		_, err := w.f.c.Put(ctx, w.key, bytes.NewReader(data), backends.PutOptions{Size: int64(len(data))})
		w.wrote(data, err)
		w.read(ctx)
		if _, err := w.f.c.Stat(ctx, w.key); err != nil && !w.lacks(err) {
			w.failed("stat", err)
		}
		if err := w.f.c.Lists(ctx, w.key, func(backends.Info) {}); err != nil {
			w.failed("list", err)
		}
		if i%4 == 3 {
			w.wrote(nil, w.f.c.Delete(ctx, w.key))
		}
	}
}

// wrote narrows or widens what may be there.
func (w *worker) wrote(data []byte, err error) {
	if err == nil {
		w.may = [][]byte{data}
		return
	}
	e, ok := asError(err)
	if !ok {
		w.failed("write", err)
		return
	}
	if e.Ambiguous || data == nil {
		w.may = append(w.may, data)
	}
	w.failed("write", err)
}

// failed: only what the faults explain.
func (w *worker) failed(what string, err error) {
	if c := backends.CodeOf(err); !c.Temporary() && c != backends.Corrupt && !errors.Is(err, io.ErrUnexpectedEOF) {
		w.f.t.Errorf("%s of %q: got %s, want success or what the faults explain: a temporary code or corrupt", what, w.key, shown(err))
	}
}

func (w *worker) lacks(err error) bool {
	return errors.Is(err, backends.NotFound) && slices.ContainsFunc(w.may, func(b []byte) bool { return b == nil })
}

func (w *worker) read(ctx context.Context) {
	obj, err := w.f.c.Get(ctx, w.key, backends.GetOptions{Range: backends.All()})
	if err != nil {
		if !w.lacks(err) {
			w.failed("get", err)
		}
		return
	}
	defer obj.Body.Close()
	got, err := io.ReadAll(obj.Body)
	if err != nil {
		w.failed("read", err)
		return
	}
	if !slices.ContainsFunc(w.may, func(b []byte) bool { return b != nil && bytes.Equal(b, got) }) {
		w.f.t.Errorf("%q: got %d bytes that nobody stored there last, want those of a Put that may have been the last", w.key, len(got))
	}
}
