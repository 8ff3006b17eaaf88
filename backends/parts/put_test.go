package parts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/parts"
	"github.com/tierkit/tierkit/membudget"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const part = 4 << 10 // the smallest capacity of a buffer

// target is a store of one object, with a hook before and after each request.
type target struct {
	before func(ctx context.Context, step string, n int) error // not nil: the request does not reach the store
	after  func(ctx context.Context, step string, n int) error // not nil: the answer is lost

	mu      sync.Mutex
	calls   []string
	open    bool
	pending map[int][]byte
	object  []byte // nil: none
	mine    bool   // object was sent by this upload
	running int
	most    int
	leaked  bool // a part came in after the abort
}

var _ parts.Target = (*target)(nil)

func (f *target) request(ctx context.Context, step string, n int, do func() error) error {
	if f.before != nil {
		if err := f.before(ctx, step, n); err != nil {
			f.note(step)
			return err
		}
	}
	f.note(step)
	f.mu.Lock()
	err := do()
	f.mu.Unlock()
	if err == nil && f.after != nil {
		err = f.after(ctx, step, n)
	}
	return err
}

func (f *target) note(step string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, step)
}

func (f *target) Begin(ctx context.Context) error {
	return f.request(ctx, "begin", 0, func() error {
		f.open, f.pending = true, map[int][]byte{}
		return nil
	})
}

func (f *target) Single(ctx context.Context, p parts.Part) (backends.Info, error) {
	err := f.request(ctx, "single", 0, func() error { return f.commit(bytes.Clone(p.Bytes), p.CRC32C) })
	return backends.Info{Size: int64(len(p.Bytes)), Version: "v"}, err
}

func (f *target) commit(data []byte, sum uint32) error {
	if got := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); got != sum {
		return fmt.Errorf("checksum %x, announced %x", got, sum)
	}
	f.object, f.mine = data, true
	return nil
}

func (f *target) Part(ctx context.Context, p parts.Part) error {
	f.mu.Lock()
	f.running++
	f.most = max(f.most, f.running)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
	}()
	return f.request(ctx, "part", p.Number, func() error {
		if !f.open {
			f.leaked = true
			return errors.New("no such upload")
		}
		if got := crc32.Checksum(p.Bytes, crc32.MakeTable(crc32.Castagnoli)); got != p.CRC32C {
			return fmt.Errorf("part %d: checksum %x, announced %x", p.Number, got, p.CRC32C)
		}
		f.pending[p.Number] = bytes.Clone(p.Bytes)
		return nil
	})
}

func (f *target) Commit(ctx context.Context, w parts.Whole) (backends.Info, error) {
	err := f.request(ctx, "commit", 0, func() error {
		if !f.open {
			return errors.New("no such upload")
		}
		var data []byte
		for n := 1; n <= w.Parts; n++ {
			data = append(data, f.pending[n]...)
		}
		if int64(len(data)) != w.Size || len(f.pending) != w.Parts {
			return fmt.Errorf("%d bytes in %d parts, announced %d in %d", len(data), len(f.pending), w.Size, w.Parts)
		}
		f.open, f.pending = false, nil
		return f.commit(data, w.CRC32C)
	})
	return backends.Info{Size: w.Size, Version: "v"}, err
}

func (f *target) Abort(ctx context.Context) error {
	return f.request(ctx, "abort", 0, func() error {
		f.open, f.pending = false, nil
		return nil
	})
}

func (f *target) Find(ctx context.Context) (info backends.Info, mine bool, err error) {
	err = f.request(ctx, "find", 0, func() error {
		if f.object == nil {
			return backends.NotFound
		}
		info, mine = backends.Info{Size: int64(len(f.object)), Version: "found"}, f.mine
		return nil
	})
	return info, mine, err
}

func (f *target) count(step string) (n int) {
	for _, c := range f.calls {
		if c == step {
			n++
		}
	}
	return n
}

func data(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + i>>8)
	}
	return out
}

func options(size int64) parts.Options {
	return parts.Options{Size: size, PartBytes: part, Concurrency: 3, Limits: parts.Limits{MaxParts: 100, MaxObjectBytes: 1 << 30}}
}

// memory returns a reservation of n bytes of a budget that has room for extra more, and a check that everything came back.
func memory(t *testing.T, n, extra int64) (*membudget.Reservation, func()) {
	t.Helper()
	b, err := membudget.New(2*(n+extra)+2, membudget.Needs{Copy: n + extra, Fetch: n + extra})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Reserve(t.Context(), membudget.Copy, n)
	if err != nil {
		t.Fatal(err)
	}
	return r, func() {
		t.Helper()
		if r.Size() != n || r.Unused() != n {
			t.Errorf("of %d bytes reserved the put left %d, %d of them unused", n, r.Size(), r.Unused())
		}
		r.Release()
	}
}

func TestPut_StoresEveryByte(t *testing.T) {
	for _, n := range []int{0, 1, part - 1, part, part + 1, 2 * part, 2*part + 1, 7 * part, 20*part + 5} {
		for _, known := range []bool{true, false} {
			for _, extra := range []int64{0, part, 10 * part} {
				t.Run(fmt.Sprintf("%d bytes/known=%v/extra=%d", n, known, extra), func(t *testing.T) {
					want := data(n)
					o := options(backends.SizeUnknown)
					if known {
						o.Size = int64(n)
					}
					sum := crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli))
					o.CRC32C = &sum
					least, most := parts.Memory(o)
					if most < least {
						t.Fatalf("memory: least %d, want %d", least, most)
					}
					mem, check := memory(t, least, extra)
					o.Memory = mem
					f := new(target)
					info, err := parts.Put(t.Context(), f, iotest.HalfReader(bytes.NewReader(want)), o)
					if err != nil {
						t.Fatal(err)
					}
					check()
					if !bytes.Equal(f.object, want) || info.Size != int64(n) {
						t.Errorf("stored %d bytes, info %+v", len(f.object), info)
					}
					single := n <= part
					if single != (f.count("single") == 1) || single != (f.count("begin") == 0) || single && len(f.calls) != 1 {
						t.Errorf("requests: %v", f.calls)
					}
					if f.most > 3 || extra == 0 && f.most > 1 {
						t.Errorf("%d parts at a time", f.most)
					}
				})
			}
		}
	}
}

// TestPut_SmallBodyNeedsNoPart: a manifest costs one request and a buffer of its size.
func TestPut_SmallBodyNeedsNoPart(t *testing.T) {
	o := parts.Options{Size: 1000, PartBytes: 8 << 20, Concurrency: 4}
	least, want := parts.Memory(o)
	if least != 4096 || want != 4096 {
		t.Errorf("memory for 1000 bytes: %d, %d, want 4096", least, want)
	}
	o.Size = backends.SizeUnknown
	if least, want = parts.Memory(o); least != 8<<20 || want != 5*8<<20 {
		t.Errorf("memory for an unknown size: %d, %d, want one part and five", least, want)
	}
	o.Size = 17 << 20
	if least, want = parts.Memory(o); least != 8<<20 || want != 3*8<<20 {
		t.Errorf("memory for three parts: %d, %d", least, want)
	}
}

// TestPut_SendsPartsAtTheSameTime: parts wait for each other, so only as many at a time as there should be let it end.
func TestPut_SendsPartsAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(30 * part)
		o.Concurrency = 4
		least, want := parts.Memory(o)
		if want != 5*part {
			t.Fatalf("want %d", want)
		}
		mem, check := memory(t, least, want-least)
		defer check()
		o.Memory = mem
		f := &target{before: func(context.Context, string, int) error { time.Sleep(time.Second); return nil }}
		began := time.Now()
		if _, err := parts.Put(t.Context(), f, bytes.NewReader(data(30*part)), o); err != nil {
			t.Fatal(err)
		}
		if f.most < 4 || f.most > 5 || time.Since(began) > 12*time.Second {
			t.Errorf("%d parts at a time, %s", f.most, time.Since(began))
		}
	})
}

var (
	errSource = errors.New("the source broke")
	errStore  = &backends.Error{Code: backends.Unavailable, Err: errors.New("the store broke")}
	errLost   = &backends.Error{Code: backends.Unavailable, Ambiguous: true, Err: errors.New("the answer was lost")}
)

func TestPut_BadBodies(t *testing.T) {
	for _, n := range []int{part / 2, part, 3 * part, 3*part + 7} {
		wrong := uint32(1)
		body := data(n)
		tests := []struct {
			name string
			body io.Reader
			edit func(o *parts.Options)
			want error
		}{
			{"short by one", bytes.NewReader(body[:n-1]), nil, backends.SizeMismatch},
			{"empty", strings.NewReader(""), nil, backends.SizeMismatch},
			{"half", bytes.NewReader(body[:n/2]), nil, backends.SizeMismatch},
			{"long by one", bytes.NewReader(append(bytes.Clone(body), 1)), nil, backends.SizeMismatch},
			{"long by much", bytes.NewReader(data(2*n + part)), nil, backends.SizeMismatch},
			{"error at 0", iotest.ErrReader(errSource), nil, errSource},
			{"error in the middle", io.MultiReader(bytes.NewReader(body[:n/2]), iotest.ErrReader(errSource)), nil, errSource},
			{"error at the end", io.MultiReader(bytes.NewReader(body), iotest.ErrReader(errSource)), nil, errSource},
			{"says nothing", silent{}, nil, io.ErrNoProgress},
			{"other checksum", bytes.NewReader(body), func(o *parts.Options) { o.CRC32C = &wrong }, backends.Corrupt},
			{"error in the middle, unknown size", io.MultiReader(bytes.NewReader(body[:n/2]), iotest.ErrReader(errSource)), func(o *parts.Options) { o.Size = -1 }, errSource},
			{"other checksum, unknown size", bytes.NewReader(body), func(o *parts.Options) { o.Size, o.CRC32C = -1, &wrong }, backends.Corrupt},
			{"above the largest object", bytes.NewReader(body), func(o *parts.Options) { o.Size, o.Limits.MaxObjectBytes = -1, int64(n-1) }, backends.InvalidArgument},
			{"announced above it", bytes.NewReader(body), func(o *parts.Options) { o.Limits.MaxObjectBytes = int64(n - 1) }, backends.InvalidArgument},
		}
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%d bytes/%s", n, tt.name), func(t *testing.T) {
				o := options(int64(n))
				least, _ := parts.Memory(o)
				if tt.edit != nil {
					if tt.edit(&o); o.Size < 0 {
						least = part
					}
				}
				mem, check := memory(t, least, 5*part)
				o.Memory = mem
				f := new(target)
				_, err := parts.Put(t.Context(), f, tt.body, o)
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				check()
				f.nothingLeft(t)
			})
		}
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func (f *target) nothingLeft(t *testing.T) {
	t.Helper()
	if f.object != nil || f.open || f.pending != nil || f.leaked || f.running > 0 {
		t.Errorf("left: object %v, upload %v with %d parts, part after the abort %v, %d running; requests %v", f.object != nil, f.open, len(f.pending), f.leaked, f.running, f.calls)
	}
	if f.count("commit")+f.count("single") > 0 && f.count("find") == 0 && f.object != nil {
		t.Errorf("requests: %v", f.calls)
	}
}

// TestPut_FaultAtEveryStep refuses, and loses the answer of, each request in turn.
func TestPut_FaultAtEveryStep(t *testing.T) {
	const n = 5*part + 3
	for _, extra := range []int64{0, 10 * part} {
		for step := 0; ; step++ {
			f := new(target)
			count := 0
			var mu sync.Mutex
			f.before = func(context.Context, string, int) error {
				mu.Lock()
				defer mu.Unlock()
				if count++; count == step+1 {
					return errStore
				}
				return nil
			}
			o := options(n)
			mem, check := memory(t, part, extra)
			o.Memory = mem
			_, err := parts.Put(t.Context(), f, bytes.NewReader(data(n)), o)
			check()
			if err == nil {
				if step < 8 {
					t.Errorf("step %d did not fail: %v", step, f.calls)
				}
				break
			}
			if !errors.Is(err, errStore) {
				t.Errorf("step %d: got %v", step, err)
			}
			f.nothingLeft(t)
			if f.count("abort") != 1 {
				t.Errorf("step %d: requests %v", step, f.calls)
			}
		}
	}
}

func TestPut_AbortIsTriedTwiceAndJoined(t *testing.T) {
	errAbort := errors.New("no abort")
	for _, fails := range []int{1, 2} {
		aborts := 0
		f := &target{before: func(ctx context.Context, step string, n int) error {
			switch {
			case step == "part" && n == 2:
				return errStore
			case step == "abort":
				if err := ctx.Err(); err != nil {
					t.Errorf("abort on a dead context: %v", err)
				}
				if aborts++; aborts <= fails {
					return errAbort
				}
			}
			return nil
		}}
		_, err := parts.Put(t.Context(), f, bytes.NewReader(data(4*part)), options(4*part))
		if !errors.Is(err, errStore) || backends.CodeOf(err) != backends.Unavailable {
			t.Errorf("got %v, want the original error", err)
		}
		if errors.Is(err, errAbort) != (fails == 2) || aborts != 2 {
			t.Errorf("%d aborts, %v", aborts, err)
		}
	}
}

func TestPut_FirstErrorStopsTheOthers(t *testing.T) {
	var mu sync.Mutex
	ended := []int{}
	running := make(chan struct{}, 2)
	f := &target{before: func(ctx context.Context, step string, n int) error {
		if step != "part" {
			return nil
		}
		if n == 3 {
			<-running // two others are on their way
			<-running
			return errStore
		}
		select {
		case running <- struct{}{}:
		default:
		}
		<-ctx.Done() // only the failure of part 3 lets the others go
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, n)
		return ctx.Err()
	}}
	o := options(10 * part)
	mem, check := memory(t, part, 10*part)
	o.Memory = mem
	_, err := parts.Put(t.Context(), f, bytes.NewReader(data(10*part)), o)
	if !errors.Is(err, errStore) || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	check()
	f.nothingLeft(t)
	if len(ended) < 2 {
		t.Errorf("ended: %v", ended)
	}
}

func TestPut_CancelledAtEachStep(t *testing.T) {
	const n = 4*part + 1
	for _, at := range []string{"read", "begin", "part", "commit"} {
		t.Run(at, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			f := &target{before: func(ctx context.Context, step string, _ int) error {
				if step == at {
					cancel(errors.New("enough"))
					<-ctx.Done()
					return ctx.Err()
				}
				if err := ctx.Err(); err != nil && (step == "abort" || step == "find") {
					t.Errorf("%s on a dead context", step)
				}
				return ctx.Err()
			}}
			body := io.Reader(bytes.NewReader(data(n)))
			if at == "read" {
				body = io.MultiReader(bytes.NewReader(data(2*part)), readerFunc(func(p []byte) (int, error) { cancel(nil); return copy(p, "x"), nil }))
			}
			_, err := parts.Put(ctx, f, body, options(n))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want context.Canceled", err)
			}
			f.nothingLeft(t)
			if f.count("abort") == 0 {
				t.Errorf("requests: %v", f.calls)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := new(target)
	if _, err := parts.Put(ctx, f, iotest.ErrReader(errSource), options(n)); !errors.Is(err, context.Canceled) || len(f.calls) > 0 {
		t.Errorf("dead on entry: %v, %v", err, f.calls)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestPut_CleanupHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &target{before: func(ctx context.Context, step string, _ int) error {
			if step == "begin" {
				return nil
			}
			if step == "part" {
				return errStore
			}
			<-ctx.Done() // a store that does not answer
			return ctx.Err()
		}}
		o := options(3 * part)
		o.CleanupTimeout = 20 * time.Second
		began := time.Now()
		_, err := parts.Put(t.Context(), f, bytes.NewReader(data(3*part)), o)
		if took := time.Since(began); took != 20*time.Second || !errors.Is(err, errStore) {
			t.Errorf("took %s, %v", took, err)
		}
	})
}

func TestPut_PanicOfTheBody(t *testing.T) {
	for _, after := range []int{0, part / 2, part, 3*part + 1} {
		f := new(target)
		mem, check := memory(t, part, 3*part)
		o := options(8 * part)
		o.Memory = mem
		body := io.MultiReader(bytes.NewReader(data(after)), readerFunc(func([]byte) (int, error) { panic("boom") }))
		func() {
			defer func() {
				if r := recover(); r != "boom" {
					t.Errorf("recovered %v", r)
				}
			}()
			_, err := parts.Put(t.Context(), f, body, o)
			t.Errorf("returned %v", err)
		}()
		check()
		f.nothingLeft(t)
	}
}

func TestPut_PartsGrow(t *testing.T) {
	tests := []struct {
		name  string
		edit  func(o *parts.Options)
		n     int
		parts int // 0: InvalidArgument
		first int64
	}{
		{"known size, few parts allowed", func(o *parts.Options) { o.Size, o.Limits.MaxParts = 20*mib, 10 }, 20 * mib, 10, 2 * mib},
		{"known size, odd", func(o *parts.Options) { o.Size, o.Limits.MaxParts = 20*mib+1, 10 }, 20*mib + 1, 7, 3 * mib},
		{"known size above what the largest parts hold", func(o *parts.Options) { o.Size, o.Limits = 20*mib, parts.Limits{MaxParts: 10, MaxPartBytes: mib} }, 20 * mib, 0, mib},
		{"unknown size", func(*parts.Options) {}, 1100 * part, 1050, part},
		{"unknown size, no more parts", func(o *parts.Options) { o.Limits.MaxParts = 1049 }, 1100 * part, 0, part},
		{"unknown size, equal parts", func(o *parts.Options) { o.Limits.EqualParts = true }, 1100 * part, 1100, part},
		{"unknown size, exactly the last part", func(o *parts.Options) { o.Limits.MaxParts = 10 }, 10 * part, 10, part},
		{"unknown size, one byte more", func(o *parts.Options) { o.Limits.MaxParts = 10 }, 10*part + 1, 0, part},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := parts.Options{Size: backends.SizeUnknown, PartBytes: part, Limits: parts.Limits{MaxParts: 10_000}}
			tt.edit(&o)
			least, _ := parts.Memory(o)
			if least != tt.first {
				t.Errorf("least memory %d, want %d", least, tt.first)
			}
			mem, check := memory(t, least, 4*least)
			o.Memory = mem
			f := new(target)
			_, err := parts.Put(t.Context(), f, bytes.NewReader(data(tt.n)), o)
			check()
			if tt.parts == 0 {
				if !errors.Is(err, backends.InvalidArgument) {
					t.Errorf("got %v, want InvalidArgument", err)
				}
				f.nothingLeft(t)
				if f.count("part") > o.Limits.MaxParts {
					t.Errorf("%d parts sent", f.count("part"))
				}
				return
			}
			if err != nil || f.count("part") != tt.parts || !bytes.Equal(f.object, data(tt.n)) {
				t.Errorf("%d parts, %v", f.count("part"), err)
			}
		})
	}
	// Parts that there is no memory for stay as they were.
	mem, check := memory(t, part, 0)
	f := new(target)
	_, err := parts.Put(t.Context(), f, bytes.NewReader(data(1100*part)), parts.Options{Size: -1, PartBytes: part, Memory: mem})
	check()
	if err != nil || f.count("part") != 1100 {
		t.Errorf("%d parts, %v", f.count("part"), err)
	}
}

const mib = 1 << 20

func TestPut_TooLittleMemory(t *testing.T) {
	mem, check := memory(t, part-1, 0)
	o := options(backends.SizeUnknown)
	o.Memory = mem
	f := new(target)
	_, err := parts.Put(t.Context(), f, bytes.NewReader(data(3*part)), o)
	if !errors.Is(err, backends.InvalidArgument) || len(f.calls) > 0 {
		t.Errorf("got %v, %v", err, f.calls)
	}
	check()
}

// TestPut_OthersComeFirst: a copy that waits gets the bytes that a running one grew by, after one part of it.
func TestPut_OthersComeFirst(t *testing.T) {
	b, err := membudget.New(20*part, membudget.Needs{Copy: 3 * part, Fetch: part})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := b.Reserve(t.Context(), membudget.Copy, part)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Release()
	granted := make(chan struct{})
	var once sync.Once
	f := &target{}
	f.before = func(ctx context.Context, step string, n int) error {
		if step != "part" || n < 5 {
			return nil
		}
		once.Do(func() { // everything that copies may hold but for a part or two is taken by us
			go func() {
				defer close(granted)
				r, err := b.Reserve(ctx, membudget.Copy, b.Ceiling(membudget.Copy)-part)
				if err != nil {
					t.Error(err)
					return
				}
				r.Release()
			}()
		})
		return nil
	}
	body := io.MultiReader(bytes.NewReader(data(60*part)), readerFunc(func([]byte) (int, error) {
		<-granted // the other one got its bytes while this put still ran
		return 0, io.EOF
	}))
	if _, err := parts.Put(t.Context(), f, body, parts.Options{Size: -1, PartBytes: part, Concurrency: 8, Memory: mem}); err != nil {
		t.Fatal(err)
	}
}

// TestReader_CloseEndsReading: a transport that still holds the body of a request that has failed reads nothing of the next part.
func TestReader_CloseEndsReading(t *testing.T) {
	buf := data(part)
	r := parts.NewReader(buf)
	if err := iotest.TestReader(parts.NewReader(buf), data(part)); err != nil {
		t.Error(err)
	}
	var wg sync.WaitGroup
	started := make(chan struct{})
	wg.Go(func() {
		p := make([]byte, 16)
		for i := 0; ; i++ {
			n, err := r.Read(p)
			if i == 0 {
				close(started)
			}
			if err != nil {
				if errors.Is(err, io.EOF) {
					_, err = r.Seek(0, io.SeekStart)
				}
				if err != nil {
					return
				}
			}
			if bytes.IndexByte(p[:n], 0xff) >= 0 && bytes.Equal(p[:n], bytes.Repeat([]byte{0xff}, n)) {
				t.Error("read bytes of the next part")
				return
			}
		}
	})
	<-started
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for i := range buf { // the race detector sees a Read that goes on
		buf[i] = 0xff
	}
	wg.Wait()
	if _, err := r.Seek(0, io.SeekStart); err == nil {
		t.Error("seek after close")
	}
	if r.Len() != 0 {
		t.Errorf("%d bytes left after close", r.Len())
	}
}
