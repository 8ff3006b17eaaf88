package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierkit/tierkit/backends"
)

// Bench is what a case works with: clients over a namespace of its own, a seeded random source, the log of requests.
type Bench struct {
	r     *runner
	t     *caseT
	level Level
	ns    string
	seed  uint64
	wire  *wire

	mu      sync.Mutex
	rnd     *rand.Rand
	clients []*Client
	named   map[string]bool // keys that were stored; false: deleted since
	suspect map[string]bool // those whose last Put did not succeed
	wraps   []func(http.RoundTripper) http.RoundTripper
}

func (r *runner) bench(ctx context.Context, j job, t *caseT) *Bench {
	h := fnv.New64a()
	_, _ = h.Write([]byte(j.name())) // never fails
	seed := r.h.Seed ^ h.Sum64()
	return &Bench{
		r: r, t: t, level: j.l, ns: fmt.Sprintf("%s-%d", r.id, r.count.Add(1)), seed: seed, rnd: rand.New(rand.NewPCG(r.h.Seed, seed)),
		wire:  &wire{dialect: r.h.Dialect, now: r.now, began: r.now()},
		named: make(map[string]bool), suspect: make(map[string]bool),
	}
}

// Properties are the driver's.
func (b *Bench) Properties() backends.Properties { return b.r.props }

// Harness is the one that the suite runs with.
func (b *Bench) Harness() *Harness { return &b.r.h }

// Store tells whether the clients are Stores.
func (b *Bench) Store() bool { return b.level == Store }

// Full tells whether the run is a thorough one.
func (b *Bench) Full() bool { return b.r.h.Scale == Full }

// Pick returns quick or full, by the scale.
func Pick[V any](b *Bench, quick, full V) V {
	if b.Full() {
		return full
	}
	return quick
}

// IntN returns a random number below n.
func (b *Bench) IntN(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rnd.IntN(n)
}

// Bytes returns n random bytes, others each time.
func (b *Bench) Bytes(n int) []byte {
	b.mu.Lock()
	seed := b.rnd.Uint64()
	b.mu.Unlock()
	return Random(seed, n)
}

// randomBlock is after how many bytes those of Random come again: a prime, so that what lies a power of two apart differs. To draw all of a large body
// takes longer than to store it.
const randomBlock = 1<<20 - 3

// Random returns n bytes that follow from the seed.
func Random(seed uint64, n int) []byte {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	out := make([]byte, n)
	done := min(n, randomBlock)
	_, _ = rand.NewChaCha8(key).Read(out[:done]) // never fails
	for done < n {
		done += copy(out[done:], out[:done])
	}
	return out
}

// Prompt is how late something that happens at once may come.
func (b *Bench) Prompt() time.Duration { return b.r.h.Limits.OpTimeout }

// Now is the clock.
func (b *Bench) Now() time.Time { return b.r.now() }

// Wait ends when done is closed. After Prompt the case fails, and when its context ends: nobody waits for what an interrupted run has begun.
func (b *Bench) Wait(done <-chan struct{}, what string) {
	b.t.Helper()
	timer := time.NewTimer(b.Prompt())
	defer timer.Stop()
	select {
	case <-done:
	case <-b.t.ctx.Done():
		b.t.Fatalf("want %s, got the end of the run before it", what)
	case <-timer.C:
		b.t.Fatalf("want %s within %s, it did not happen", what, b.Prompt())
	}
}

// Until polls until ok. After Prompt the case fails.
func (b *Bench) Until(what string, ok func() bool) {
	b.t.Helper()
	if len(settles(b.t.ctx, b.Prompt(), func() []string {
		if ok() {
			return nil
		}
		return []string{what}
	})) > 0 {
		b.t.Fatalf("want %s within %s, it did not happen", what, b.Prompt())
	}
}

// Prefix is what the namespace puts before every key, "" if it is a place of its own.
func (b *Bench) Prefix() string {
	if b.r.h.Shared || b.level == Store {
		return b.ns + "/"
	}
	return ""
}

// MaxKeyBytes is how long a case's key may be, 0 for no bound.
func (b *Bench) MaxKeyBytes() int {
	n := b.r.props.MaxKeyBytes
	if n == 0 {
		return 0
	}
	return n - len(b.Prefix())
}

// ClientOptions vary a client. The zero value is what most cases want.
type ClientOptions struct {
	Override  map[string]string
	Log       *slog.Logger
	UserAgent string
	Now       func() time.Time
	Limits    backends.Limits // at the level of the Store
	Observer  backends.Observer
	NoMask    bool
	NoPrefix  bool // at the level of the Store: for keys that are refused

	LargeParts bool // those of the settings, not Knobs.SmallParts: for bodies that would have very many
}

// open are the options for Harness.Open.
func (b *Bench) open(o ClientOptions) OpenOptions {
	env := backends.Env{Log: o.Log, UserAgent: o.UserAgent, Now: o.Now, WrapTransport: b.wrap}
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	if env.UserAgent == "" {
		env.UserAgent = "tierkit-conformance"
	}
	if env.Now == nil {
		env.Now = b.r.now
	}
	over := make(map[string]string)
	if !o.LargeParts {
		maps.Copy(over, b.r.h.Knobs.SmallParts)
	}
	maps.Copy(over, o.Override)
	return OpenOptions{Namespace: b.ns, Env: env, Override: over}
}

// wrap puts the log of requests above what the case injects: the log shows what the driver sees.
func (b *Bench) wrap(next http.RoundTripper) http.RoundTripper {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wraps {
		next = w(next)
	}
	return b.wire.wrap(next)
}

// Inject puts a transport below the clients that are opened from now on: the Wrap of a fault plan, or a hook of the case's own.
func (b *Bench) Inject(wrap func(next http.RoundTripper) http.RoundTripper) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wraps = append(b.wraps, wrap)
}

// Requests is the log of HTTP requests since the mark.
func (b *Bench) Requests(mark int) []Request { return b.wire.log(mark) }

// Mark is now, for Requests.
func (b *Bench) Mark() int { return b.wire.mark() }

// Client opens a client over the namespace. The bench closes it.
func (b *Bench) Client() *Client {
	b.t.Helper()
	return b.ClientWith(ClientOptions{})
}

// ClientWith is Client with options.
func (b *Bench) ClientWith(o ClientOptions) *Client {
	b.t.Helper()
	c, err := b.Open(b.t.ctx, o)
	if err != nil {
		b.t.Fatalf("open a client: got %v, want success", err)
	}
	return c
}

// Open is ClientWith for cases in which opening may fail.
func (b *Bench) Open(ctx context.Context, o ClientOptions) (*Client, error) {
	d, err := b.r.h.Open(ctx, b.open(o))
	if err != nil {
		return nil, err
	}
	c := &Client{b: b, t: b.t}
	if b.level == Store {
		so := backends.Options{Prefix: b.Prefix(), Mask: b.Prefix(), Limits: o.Limits, Observer: o.Observer, Env: b.open(o).Env}
		if o.NoMask {
			so.Mask = ""
		}
		if o.NoPrefix {
			so.Prefix, so.Mask = "", ""
		}
		if c.store, err = backends.NewStore(d, so); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		c.api = c.store
	} else {
		c.driver = &scoped{d, b.Prefix()}
		c.api = c.driver
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients = append(b.clients, c)
	return c, nil
}

// release closes what the case opened.
func (b *Bench) release() {
	b.mu.Lock()
	clients := b.clients
	b.clients = nil
	b.mu.Unlock()
	for _, c := range slices.Backward(clients) {
		b.t.guard(func() {
			if err := c.Close(); err != nil {
				b.t.Errorf("close of a client: got %v, want success", err)
			}
		})
	}
}

// begun notes a key before its Put.
func (b *Bench) begun(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.suspect[key] = true
}

// ended notes what became of a Put. An object of one that failed is a leftover, unless nobody can know.
func (b *Bench) ended(key string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := errors.AsType[*backends.Error](err)
	if err == nil || ok && e.Ambiguous {
		b.named[key] = true
	}
	b.suspect[key] = err != nil && backends.CodeOf(err) != backends.InvalidArgument // no such key can be
}

func (b *Bench) gone(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.named[key]; ok {
		b.named[key] = false
	}
}

// sweep looks at what the case left through a client that it did not have, and removes it.
func (b *Bench) sweep(ctx context.Context) {
	b.mu.Lock()
	b.wraps = nil
	b.mu.Unlock()
	d, err := b.r.h.Open(ctx, b.open(ClientOptions{}))
	if err != nil {
		b.t.Errorf("open a client to look at what is left: got %v, want success", err)
		return
	}
	own := &scoped{d, ""}
	if b.Prefix() != "" {
		own.prefix = b.Prefix()
	}
	defer func() {
		if err := d.Close(); err != nil {
			b.t.Errorf("close of the client that looked at what is left: got %v, want success", err)
		}
	}()
	suspects := b.pending(ctx, own)
	keys := b.keys(ctx, own)
	for _, key := range keys {
		if _, ok := b.named[key]; !ok {
			b.t.Errorf("got an object %q that no Put was said to have stored, want none", key)
		}
		b.named[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(b.named)) { // there are servers that do not list everything
		if !b.named[key] || backends.CheckKey(b.r.props, own.prefix+key) != nil {
			continue
		}
		if err := own.Delete(ctx, key); err != nil {
			b.t.Errorf("delete %q after the case: got %v, want success", key, err)
		}
	}
	if len(keys) > 0 {
		if keys = b.keys(ctx, own); len(keys) > 0 {
			b.t.Errorf("left after everything was deleted: got %q, want nothing", keys)
		}
	}
	b.beneath(ctx, suspects)
}

// pending finds uploads that the case did not finish, by the driver's own list and from outside.
func (b *Bench) pending(ctx context.Context, own *scoped) (suspects []string) {
	for _, key := range slices.Sorted(maps.Keys(b.suspect)) {
		if b.suspect[key] {
			suspects = append(suspects, own.prefix+key)
		}
	}
	if _, ok := own.Driver.(backends.UploadLister); ok && b.r.props.PendingExpires == 0 {
		prefixes := []string{own.prefix}
		prefixes = append(prefixes, suspects...)
		for _, prefix := range prefixes {
			ups, err := (&scoped{Driver: own.Driver}).listUploads(ctx, prefix)
			if err != nil {
				b.t.Errorf("list uploads after the case: got %v, want success", err)
			}
			for _, u := range ups {
				b.leftUpload(ctx, own, u)
			}
		}
	}
	return suspects
}

// beneath asks the inspector, when everything is deleted.
func (b *Bench) beneath(ctx context.Context, suspects []string) {
	if b.r.h.Raw == nil {
		return
	}
	left, err := b.r.leftovers(ctx, b.ns, suspects)
	if err != nil {
		b.t.Errorf("look under the driver after the case: got %v, want success", err)
	}
	for _, text := range left {
		b.t.Errorf("left under the driver: got %s, want nothing", text)
	}
}

// leftUpload reports an upload and removes it. In a place that is shared it does so only if the key says that it is the case's: there may be uploads
// of others, and their keys may not be known.
func (b *Bench) leftUpload(ctx context.Context, own *scoped, u backends.Upload) {
	if b.r.h.Shared && u.Key == "" {
		return
	}
	b.t.Errorf("a pending upload is left: got %+v, want none", u)
	lister, ok := own.Driver.(backends.UploadLister)
	if !ok || !strings.HasPrefix(u.Key, own.prefix) {
		return
	}
	if err := lister.AbortUpload(ctx, u); err != nil {
		b.t.Errorf("abort it after the case: got %v, want success", err)
	}
}

// keys lists the namespace.
func (b *Bench) keys(ctx context.Context, own *scoped) []string {
	var keys []string
	for token := ""; ; {
		page, err := own.List(ctx, backends.ListOptions{Token: token})
		if err != nil {
			b.t.Errorf("list what is left: got %v, want success", err)
			return keys
		}
		for _, i := range page.Infos {
			keys = append(keys, i.Key)
		}
		if page.Next == "" || page.Next == token {
			return keys
		}
		token = page.Next
	}
}
