package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tierkit/tierkit/backends"
)

func modelCases() []Case {
	return []Case{
		{ID: "model/rapid", Rule: "Any sequence of operations gives what a map in memory would give.", Run: modelRandom},
		{ID: "two-clients/interchangeable", Rule: "It does not matter through which of several clients an operation goes.", Run: modelFive},
	}
}

// step is one operation of a model run.
type step struct {
	op     int
	key    string
	size   int
	off, n int64
	client int
}

func (s step) String() string {
	name := []string{"put", "get", "stat", "delete", "list", "put-if-absent"}[s.op]
	return fmt.Sprintf("%s %s size=%d range=%d+%d client=%d", name, s.key, s.size, s.off, s.n, s.client)
}

func modelRandom(t T, b *Bench) { model(t, b, 1, Pick(b, 150, 3000)) }

func modelFive(t T, b *Bench) { model(t, b, 5, Pick(b, 100, 1000)) }

// model runs random steps against a map. When one fails, it looks for a short sequence that fails too: steps are taken away as long as the rest
// still does.
func model(t T, b *Bench, clients, n int) {
	cs := make([]*Client, clients)
	for i := range cs {
		cs[i] = b.Client()
	}
	steps := make([]step, n)
	for i := range steps {
		steps[i] = step{
			op: b.IntN(6), key: fmt.Sprintf("m/%d/%d", b.IntN(2), b.IntN(3)), size: b.IntN(3000), off: int64(b.IntN(3000)), n: int64(b.IntN(3000)) - 1,
			client: b.IntN(clients),
		}
	}
	failed, why := play(b, cs, steps)
	if why == "" {
		return
	}
	steps = shrink(steps[:failed+1], func(s []step) bool { _, why := play(b, cs, s); return why != "" })
	_, short := play(b, cs, steps)
	t.Errorf("%s\nthe shortest sequence that was found: %s\n%v", why, short, steps)
}

// shrink takes away halves, quarters, ... and single steps as long as the rest fails.
func shrink(steps []step, fails func([]step) bool) []step {
	for n := len(steps) / 2; n > 0; n /= 2 {
		for at := 0; at+n <= len(steps); {
			rest := slices.Concat(steps[:at], steps[at+n:])
			if fails(rest) {
				steps = rest
			} else {
				at += n
			}
		}
	}
	return steps
}

// play runs the steps on a clean place and returns the first that differs from the map.
func play(b *Bench, cs []*Client, steps []step) (failed int, why string) {
	for _, key := range cs[0].Keys("m/") {
		cs[0].Remove(key)
	}
	m := map[string][]byte{}
	for i, s := range steps {
		if why := s.run(b, cs[s.client], m, uint64(i)); why != "" {
			return i, fmt.Sprintf("step %d, %s: %s", i, s, why)
		}
	}
	return 0, ""
}

func (s step) run(b *Bench, c *Client, m map[string][]byte, seed uint64) string {
	switch s.op {
	case 0:
		return s.put(b, c, m, seed, backends.PutOptions{Size: int64(s.size)})
	case 1:
		return s.get(c, m[s.key], m)
	case 2:
		info, err := c.Stat(b.t.ctx, s.key)
		data, there := m[s.key]
		if there != (err == nil) || !there && !errors.Is(err, backends.NotFound) || there && info.Size != int64(len(data)) {
			return fmt.Sprintf("%+v, %s; in the map: %t, %d bytes", info, shown(err), there, len(data))
		}
	case 3:
		if err := c.Delete(b.t.ctx, s.key); err != nil {
			return err.Error()
		}
		delete(m, s.key)
	case 4:
		return s.list(b, c, m)
	case 5:
		return s.put(b, c, m, seed, backends.PutOptions{Size: backends.SizeUnknown, IfAbsent: b.Properties().IfAbsent})
	}
	return ""
}

func (s step) put(b *Bench, c *Client, m map[string][]byte, seed uint64, opts backends.PutOptions) string {
	data := Random(seed, s.size)
	_, err := c.Put(b.t.ctx, s.key, plain(data), opts)
	if _, there := m[s.key]; there && opts.IfAbsent {
		if !errors.Is(err, backends.Exists) {
			return shown(err) + ", want exists"
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	m[s.key] = data
	return ""
}

func (s step) get(c *Client, data []byte, m map[string][]byte) string {
	r := backends.Range{Offset: s.off, Length: s.n}
	if r.Length == 0 {
		r.Length = 1
	}
	obj, err := c.Get(c.t.ctx, s.key, backends.GetOptions{Range: r})
	if _, there := m[s.key]; !there {
		if err == nil {
			_ = obj.Body.Close() // should not be there
		}
		if !errors.Is(err, backends.NotFound) {
			return shown(err) + ", want not_found"
		}
		return ""
	}
	off, n, want := r.Resolve(int64(len(data)))
	if want != nil {
		if err == nil {
			_ = obj.Body.Close() // should not be there
		}
		if !errors.Is(err, backends.InvalidRange) {
			return shown(err) + ", want invalid_range"
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	defer obj.Body.Close()
	var got bytes.Buffer
	if _, err := got.ReadFrom(obj.Body); err != nil || !bytes.Equal(got.Bytes(), data[off:off+n]) {
		return fmt.Sprintf("%v, %s", err, difference(got.Bytes(), data[off:off+n]))
	}
	return ""
}

func (s step) list(b *Bench, c *Client, m map[string][]byte) string {
	prefix := s.key[:len(s.key)-1]
	var got []string
	if err := c.Lists(b.t.ctx, prefix, func(i backends.Info) { got = append(got, i.Key) }); err != nil {
		return err.Error()
	}
	want := slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(key string) bool { return !strings.HasPrefix(key, prefix) })
	if !slices.Equal(got, want) {
		return fmt.Sprintf("%q, want %q", got, want)
	}
	return ""
}
