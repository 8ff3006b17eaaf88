package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/rsm"
)

// refusing is a driver that refuses one kind of request.
type refusing struct {
	backends.Driver
	what string
	with error
}

func (r *refusing) no(what string) error {
	if r.what == what {
		return r.with
	}
	return nil
}

func (r *refusing) Put(ctx context.Context, key string, body io.Reader, o backends.PutOptions) (backends.Info, error) {
	if err := r.no("put"); err != nil {
		return backends.Info{}, err
	}
	return r.Driver.Put(ctx, key, body, o)
}

func (r *refusing) Get(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
	what := "get"
	if o.Range.Length > 0 {
		what = "range"
	}
	if err := r.no(what); err != nil {
		return nil, err
	}
	return r.Driver.Get(ctx, key, o)
}

func (r *refusing) Stat(ctx context.Context, key string) (backends.Info, error) {
	if err := r.no("stat"); err != nil {
		return backends.Info{}, err
	}
	info, err := r.Driver.Stat(ctx, key)
	if r.what == "clock" {
		info.ModTime = info.ModTime.Add(-time.Hour)
	}
	return info, err
}

func (r *refusing) List(ctx context.Context, o backends.ListOptions) (backends.Page, error) {
	if err := r.no("list"); err != nil {
		return backends.Page{}, err
	}
	return r.Driver.List(ctx, o)
}

func (r *refusing) Delete(ctx context.Context, key string) error {
	if err := r.no("delete"); err != nil {
		return err
	}
	return r.Driver.Delete(ctx, key)
}

// examine looks at a subject and returns what was found.
func examine(t *testing.T, d backends.Driver, change func(*Subject)) (found []Finding) {
	t.Helper()
	store, err := backends.NewStore(d, backends.Options{})
	if err != nil {
		t.Fatal(err)
	}
	budget, err := rsm.NewBudget(rsm.Config{}, store)
	if err != nil {
		t.Fatal(err)
	}
	store.UseBudget(budget)
	m, err := rsm.New(rsm.Options{Store: store, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close(); _ = store.Close() }()
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "state", "broker-0"), 0o700); err != nil {
		t.Fatal(err)
	}
	x := Subject{
		Segments: m, Config: Config{StateDir: filepath.Join(dir, "state"), Listen: "127.0.0.1:0", TokenFile: file}, LogDirs: []string{dir},
		Custom: DefaultMaxCustomBytes, Now: time.Now, Report: func(f Finding) { found = append(found, f) },
	}
	if change != nil {
		change(&x)
	}
	Examine(t.Context(), x)
	return found
}

// bad are the checks that did not succeed.
func bad(found []Finding) (out []string) {
	for _, f := range found {
		if f.Result != OK && !strings.HasPrefix(f.Check, "memory") { // how much there is, is the machine's
			out = append(out, string(f.Result)+" "+f.Check)
		}
	}
	return out
}

func TestExamine_EachRequestOfTheStoreHasItsLine(t *testing.T) {
	space := new(mem.Space)
	if got := bad(examine(t, space.Client(mem.Options{}), nil)); len(got) != 0 {
		t.Errorf("all is well: %v", got)
	}
	for what, want := range map[string]string{
		"put": "fail store: put an object", "get": "fail store: get it", "range": "fail store: get a range of it", "stat": "fail store: look at it",
		"list": "fail store: the driver's own probe", "delete": "fail store: delete it", "clock": "warn clock: against the store's",
	} {
		space := new(mem.Space)
		found := examine(t, &refusing{Driver: space.Client(mem.Options{}), what: what, with: backends.Errorf(backends.Denied, "not for you")}, nil)
		if got := bad(found); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, want %s", what, got, want)
		}
		for _, f := range found {
			if f.Result != OK && f.Do == "" {
				t.Errorf("%s: %+v does not say what to do", what, f)
			}
		}
		if left := keys(t, space); len(left) != 0 && what != "delete" {
			t.Errorf("%s: left in the store: %v", what, left)
		}
	}
}

func TestExamine_LooksAtTheMachine(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for name, tc := range map[string]struct {
		change func(*Subject)
		want   string
	}{
		"metrics":      {func(x *Subject) { x.Config.Metrics = taken.Addr().String() }, "warn address " + taken.Addr().String()},
		"state":        {func(x *Subject) { x.Config.StateDir = filepath.Join(file, "below") }, "fail state directory: access"},
		"disk cache":   {func(x *Subject) { x.DiskDir = filepath.Join(file, "below") }, "fail disk cache: access"},
		"no command":   {func(x *Subject) { x.Command = `"` + filepath.Join(dir, "no such") + `" -v` }, "fail command of the plug-in"},
		"no program":   {func(x *Subject) { x.Command = file }, "fail command of the plug-in"},
		"bare command": {func(x *Subject) { x.Command = "sh -x" }, "warn command of the plug-in"},
		"short token":  {func(x *Subject) { x.Config.TokenFile = file }, "fail token"},
		"no token":     {func(x *Subject) { x.Config.TokenFile = filepath.Join(dir, "none") }, "fail token"},
		"public token": {func(x *Subject) { x.Config.TokenFile = open }, "warn token"},
		"certificate":  {func(x *Subject) { x.Config.CertFile, x.Config.KeyFile = file, file }, "fail TLS: certificates and key"},
		"log dir":      {func(x *Subject) { x.LogDirs = []string{file + "s"} }, "warn log directory " + file + "s: access"},
		"no log dirs":  {func(x *Subject) { x.LogDirs = nil }, "warn log directories"},
		"address":      {func(x *Subject) { x.Config.Listen = "256.0.0.1:1" }, "fail address 256.0.0.1:1"},
	} {
		if got := bad(examine(t, new(mem.Space).Client(mem.Options{}), tc.change)); len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s: %v, want %s", name, got, tc.want)
		}
	}
}

func TestExamine_OrdersThatAreNotWorkedOff(t *testing.T) {
	dir := t.TempDir()
	deletes := DeletesDir(dir, 0)
	if err := os.MkdirAll(deletes, 0o700); err != nil {
		t.Fatal(err)
	}
	look := func() []string {
		return bad(examine(t, new(mem.Space).Client(mem.Options{}), func(x *Subject) { x.Config.StateDir = dir }))
	}
	write := func(name string, age time.Duration) {
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(filepath.Join(deletes, name), nil, 0o600), os.Chtimes(filepath.Join(deletes, name), at, at)); err != nil {
			t.Fatal(err)
		}
	}
	write("new.json", time.Minute)
	write(".old.json.1.tmp", 2*leastOld)
	if got := look(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for _, name := range []string{"x.json.bad", "old.json"} {
		write(name, 2*leastOld)
		if got := look(); len(got) != 1 || got[0] != "warn journal of deletes" {
			t.Errorf("%s: %v", name, got)
		}
		if err := os.Remove(filepath.Join(deletes, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// What doctor makes belongs to whoever runs it, root perhaps, and the daemon's user could not use it.
func TestExamine_MakesNothing(t *testing.T) {
	dir := t.TempDir()
	state, cache := filepath.Join(dir, "none", "state"), filepath.Join(dir, "cache", "tierkit-chunks")
	there := filepath.Join(dir, "there", "broker-0")
	for _, d := range []string{filepath.Dir(cache), there} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, dir)
	for _, of := range []string{state, filepath.Dir(there)} {
		found := examine(t, new(mem.Space).Client(mem.Options{}), func(x *Subject) { x.Config.StateDir, x.DiskDir = of, cache })
		said := 0
		for _, f := range found {
			if f.Result == Fail {
				t.Errorf("%+v", f)
			}
			if strings.Contains(f.Text, "not there yet") {
				said++
			}
		}
		if want := map[bool]int{true: 2, false: 1}[of == state]; said != want {
			t.Errorf("%s: %d directories are said not to be there, want %d", of, said, want)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("there is now\n%swhere there was\n%s", after, before)
	}
}

func tree(t *testing.T, dir string) (all string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error { all += path + "\n"; return err }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestExamine_RootSaysWhatItCannotTell(t *testing.T) {
	fi, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mine := *fi.Sys().(*syscall.Stat_t)
	const dir, above = "/var/lib/t/broker-1", "/var/lib"
	for _, tc := range []struct {
		owner uint32
		self  int
		at    string
		say   []string
	}{
		{1000, 0, dir, []string{"user 1000"}}, {1000, 0, above, []string{dir + " is not there", "in " + above + ","}}, {0, 0, dir, nil},
		{0, 0, above, []string{dir + " is not there"}}, {1000, 1000, dir, nil}, {0, 1000, above, nil},
	} {
		mine.Uid = tc.owner
		text := foreign(owned{fi, &mine}, tc.self, dir, tc.at)
		if (text != "") != (tc.say != nil) {
			t.Errorf("%+v: %q", tc, text)
		}
		for _, part := range tc.say {
			if !strings.Contains(text, part) {
				t.Errorf("%+v: %q", tc, text)
			}
		}
	}
}

// owned is a file of another user.
type owned struct {
	os.FileInfo
	st *syscall.Stat_t
}

func (o owned) Sys() any { return o.st }

func TestExamine_CommandsAsThePluginReadsThem(t *testing.T) {
	for command, want := range map[string]string{
		"/opt/tierkit": "/opt/tierkit", "  /opt/t -v": "/opt/t", `"/opt/my dir/t" x`: "/opt/my dir/t", `/opt/"my dir"/t`: "/opt/my dir/t", "a\tb": "a",
	} {
		if got := firstWord(command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
	if found := examine(t, new(mem.Space).Client(mem.Options{}), func(x *Subject) { x.Command = "/bin/sh -c" }); len(bad(found)) != 0 {
		t.Errorf("%v", bad(found))
	}
}

func TestMemoryOf(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	info := write("meminfo", "MemFree:  1 kB\nMemTotal:        2048 kB\n")
	for _, tc := range []struct {
		cgroup, info string
		want         int64
		of           string
	}{
		{write("max", "max\n"), info, 2048 << 10, "this machine"}, {write("limit", "1000\n"), info, 1000, "this container"},
		{"none", info, 2048 << 10, "this machine"}, {"none", "none", 0, ""}, {"none", write("odd", "MemTotal: many kB"), 0, ""},
	} {
		if n, of := memoryOf(filepath.Join(dir, filepath.Base(tc.cgroup)), filepath.Join(dir, filepath.Base(tc.info))); n != tc.want || of != tc.of {
			t.Errorf("%s, %s: %d of %q, want %d of %q", tc.cgroup, tc.info, n, of, tc.want, tc.of)
		}
	}
}
