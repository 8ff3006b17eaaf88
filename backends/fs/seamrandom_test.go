package fs

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
)

// chance is a store whose calls of the system fail by chance, and what may be in it.
type chance struct {
	*stage
	rnd  *rand.Rand
	seed uint64
	may  map[string][]string // key: contents, "" for none; one unless an answer left it open
	log  []string            // what was done, and which calls failed
}

// chanceKeys lie beside and below each other, so that a delete of one takes directories that a put of the other needs.
func chanceKeys() []string { return []string{stageKey, "p/q/l", "p/m"} }

// draw lets one call in six fail, clean-up among them.
func (c *chance) draw(call string) (failure, bool) {
	if c.rnd.IntN(6) > 0 {
		return failure{}, false
	}
	all := failures()
	how := all[c.rnd.IntN(len(all))]
	if how.short && !strings.HasPrefix(call, "write") {
		return failure{}, false
	}
	c.log = append(c.log, fmt.Sprintf("    %s: %s", call, how))
	return how, true
}

func (c *chance) errorf(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("seed %d: %s\n%s", c.seed, fmt.Sprintf(format, args...), strings.Join(c.log, "\n"))
}

// fails sets whether calls fail.
func (c *chance) fails(draw func(string) (failure, bool)) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.draw = draw
}

// step does one thing, and looks at what became of it.
func (c *chance) step(n int) {
	c.t.Helper()
	key := chanceKeys()[c.rnd.IntN(len(chanceKeys()))]
	data := fmt.Sprintf("content %d of %s", n, key)
	if c.rnd.IntN(4) == 0 {
		data += strings.Repeat(" more", bufferBytes/4)
	}
	what := []string{"put", "put", "put if absent", "delete", "get", "list"}[c.rnd.IntN(6)]
	c.log = append(c.log, what+" "+key)
	c.fails(c.draw)
	var err error
	switch what {
	case "delete":
		err = c.d.Delete(c.t.Context(), key)
		data = ""
	case "get":
		err = c.get(key)
	case "list":
		err = c.list()
	default:
		_, err = c.d.Put(c.t.Context(), key, strings.NewReader(data), backends.PutOptions{Size: int64(len(data)), IfAbsent: what == "put if absent"})
	}
	c.fails(nil)
	c.log = append(c.log, fmt.Sprintf("  -> %v", err))
	if what != "get" && what != "list" {
		c.became(key, data, what, err)
	}
	c.codes(what, err)
	c.holds()
}

// became notes what may be there after a call that changes something.
func (c *chance) became(key, data, what string, err error) {
	e, _ := errors.AsType[*backends.Error](err)
	switch {
	case err == nil:
		c.may[key] = []string{data}
	case errors.Is(err, backends.Exists):
		if slices.Equal(c.may[key], []string{""}) {
			c.errorf("%s says that %s exists, which it does not", what, key)
		}
	case e != nil && e.Ambiguous || what == "delete":
		c.may[key] = append(slices.Clone(c.may[key]), data)
	}
}

// codes checks that a failure of the system is none of an object.
func (c *chance) codes(what string, err error) {
	c.t.Helper()
	if err == nil || errors.Is(err, backends.Exists) && what == "put if absent" || errors.Is(err, backends.NotFound) && what == "get" {
		return
	}
	if code := backends.CodeOf(err); code != backends.Unavailable && code != backends.Exhausted {
		c.errorf("%v has the code %s", err, code.Label())
	}
}

// get reads while calls fail: an error, or what is there to its end.
func (c *chance) get(key string) error {
	obj, err := c.d.Get(c.t.Context(), key, backends.GetOptions{Range: backends.All()})
	if errors.Is(err, backends.NotFound) && !slices.Contains(c.may[key], "") {
		c.errorf("get says that %s is not there", key)
	}
	if err != nil {
		return err
	}
	data, err := io.ReadAll(obj.Body)
	_ = obj.Body.Close() // read side
	if err == nil && !slices.Contains(c.may[key], string(data)) {
		c.errorf("get says without an error that %s has %d bytes", key, len(data))
	}
	return err
}

// list lists while calls fail: an error, or what is there without a gap.
func (c *chance) list() error {
	page, err := c.d.List(c.t.Context(), backends.ListOptions{})
	if err != nil {
		return err
	}
	for key, may := range c.may {
		there := slices.ContainsFunc(page.Infos, func(i backends.Info) bool { return i.Key == key })
		if !there && !slices.Contains(may, "") || there && slices.Equal(may, []string{""}) {
			c.errorf("list says without an error that %s is there: %t", key, there)
		}
	}
	return nil
}

// holds looks with a clean driver: nothing is lost or half done, no descriptor is open, and no temp file is left, since opening removes what no process holds.
func (c *chance) holds() {
	c.t.Helper()
	if _, n := c.s.seen(); n != 0 {
		c.errorf("%d files are open", n)
	}
	eye := open(c.t, c.root)
	defer eye.Close()
	for _, key := range chanceKeys() {
		got := ""
		obj, err := eye.Get(c.t.Context(), key, backends.GetOptions{Range: backends.All()})
		if err == nil {
			data, rerr := io.ReadAll(obj.Body)
			got, err = string(data), errors.Join(rerr, obj.Body.Close())
		}
		if err != nil && !errors.Is(err, backends.NotFound) || !slices.Contains(c.may[key], got) {
			c.errorf("%s: %v, %d bytes %.40q", key, err, len(got), got)
		}
		c.may[key] = []string{got} // now it is known
	}
	if left := tempNames(c.t, c.root); len(left) > 0 {
		c.errorf("left are %q", left)
	}
}

// TestSeam_RandomFailures: whatever calls of the system fail, one or several, those of the clean-up too: an object is the old one or the new one, whole; which of
// them is left open by no call that does not say so; what reads is not told of something else; nothing stays open or behind.
func TestSeam_RandomFailures(t *testing.T) {
	const runs, steps = 150, 12
	dir := t.TempDir()
	failed := 0
	for seed := range uint64(runs) {
		c := &chance{stage: newStage(t, filepath.Join(dir, fmt.Sprint(seed)), true), rnd: rand.New(rand.NewPCG(seed, 0)), seed: seed, may: map[string][]string{}}
		for _, key := range chanceKeys() {
			c.may[key] = []string{""}
		}
		c.may[stageKey] = []string{oldData}
		for n := range steps {
			c.step(n)
		}
		failed += len(c.log) - 2*steps
		for _, key := range chanceKeys() {
			if err := c.d.Delete(t.Context(), key); err != nil {
				c.errorf("delete of %s, when nothing fails any more: %v", key, err)
			}
		}
		if err := c.d.Close(); err != nil {
			c.errorf("close: %v", err)
		}
		for _, name := range tree(t, c.root) {
			if !strings.HasPrefix(name, ".tierkit") || strings.HasPrefix(name, tempDir+"/") && name != tempDir+"/" {
				c.errorf("%q is left", name)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d calls failed", failed)
}
