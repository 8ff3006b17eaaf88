package backends_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/tierkit/tierkit/backends"
)

// mock is a driver made of functions; what is nil answers with nothing.
type mock struct {
	props  backends.Properties
	put    func(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error)
	get    func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error)
	stat   func(ctx context.Context, key string) (backends.Info, error)
	delete func(ctx context.Context, key string) error
	list   func(ctx context.Context, o backends.ListOptions) (backends.Page, error)
	close  func() error
}

func (m *mock) Properties() backends.Properties {
	p := m.props
	if p.Name == "" {
		p.Name = "mock"
	}
	return p
}

func (m *mock) Put(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
	if m.put == nil {
		return backends.Info{Key: key}, nil
	}
	return m.put(ctx, key, body, o)
}

func (m *mock) Get(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
	if m.get == nil {
		return nil, backends.NotFound
	}
	return m.get(ctx, key, o)
}

func (m *mock) Stat(ctx context.Context, key string) (backends.Info, error) {
	if m.stat == nil {
		return backends.Info{Key: key}, nil
	}
	return m.stat(ctx, key)
}

func (m *mock) Delete(ctx context.Context, key string) error {
	if m.delete == nil {
		return nil
	}
	return m.delete(ctx, key)
}

func (m *mock) List(ctx context.Context, o backends.ListOptions) (backends.Page, error) {
	if m.list == nil {
		return backends.Page{}, nil
	}
	return m.list(ctx, o)
}

func (m *mock) Close() error {
	if m.close == nil {
		return nil
	}
	return m.close()
}

// richMock also has the optional capabilities.
type richMock struct {
	mock
	deleteMany func(ctx context.Context, keys []string) error
	uploads    func(ctx context.Context, prefix string) ([]backends.Upload, error)
	abort      func(ctx context.Context, u backends.Upload) error
	probe      func(ctx context.Context) error
	memory     func(size int64) (least, want int64)
}

func (m *richMock) DeleteMany(ctx context.Context, keys []string) error {
	return m.deleteMany(ctx, keys)
}
func (m *richMock) ListUploads(ctx context.Context, prefix string) ([]backends.Upload, error) {
	return m.uploads(ctx, prefix)
}
func (m *richMock) AbortUpload(ctx context.Context, u backends.Upload) error { return m.abort(ctx, u) }
func (m *richMock) Probe(ctx context.Context) error                          { return m.probe(ctx) }
func (m *richMock) PutMemory(size int64) (least, want int64)                 { return m.memory(size) }

// observed gathers events.
type observed struct {
	mu     sync.Mutex
	events []backends.OpEvent
}

func (o *observed) OnOp(_ context.Context, e backends.OpEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *observed) last(t *testing.T) backends.OpEvent {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.events) == 0 {
		t.Fatal("nothing was observed")
	}
	return o.events[len(o.events)-1]
}

func newStore(t *testing.T, d backends.Driver, o backends.Options) *backends.Store {
	t.Helper()
	s, err := backends.NewStore(d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// countErrors counts the *backends.Error in the whole tree of err.
func countErrors(err error) int {
	if err == nil {
		return 0
	}
	n := 0
	if _, ok := err.(*backends.Error); ok { //nolint:errorlint // counts each node
		n = 1
	}
	switch e := err.(type) { //nolint:errorlint // walks the tree
	case interface{ Unwrap() error }:
		n += countErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			n += countErrors(inner)
		}
	}
	return n
}

// stream is a driver's body: what read gives, and whether it was closed.
type stream struct {
	io.Reader
	closed func()
}

func (s *stream) Close() error {
	if s.closed != nil {
		s.closed()
	}
	return nil
}

// objectOf makes the answer of a Get for r over data.
func objectOf(data string, r backends.Range, body io.Reader, version string) (*backends.Object, error) {
	off, length, err := r.Resolve(int64(len(data)))
	if err != nil {
		return nil, err
	}
	if body == nil {
		body = strings.NewReader(data[off : off+length])
	}
	return &backends.Object{Body: &stream{Reader: body}, Info: backends.Info{Size: int64(len(data)), Version: version}, Offset: off, Length: length}, nil
}

var errProvider = errors.New("provider's own error")
