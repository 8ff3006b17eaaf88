package settings

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func table() []Setting {
	return []Setting{
		{Name: "name", Type: TypeString, Default: "x", Doc: "A name."},
		{Name: "kind", Type: TypeString, OneOf: []string{"red", "green"}, Doc: "A kind."},
		{Name: "count", Type: TypeInt, Default: "3", Min: "1", Max: "10", Doc: "A number."},
		{Name: "any", Type: TypeInt, Doc: "Any number."},
		{Name: "size", Type: TypeBytes, Default: "4MiB", Min: "1KiB", Max: "1GiB", Doc: "A size."},
		{Name: "cache.size", Type: TypeBytes, Min: "-1", Doc: "A size, or -1."},
		{Name: "on", Type: TypeBool, Default: "true", Doc: "A switch."},
		{Name: "wait", Type: TypeDuration, Default: "30s", Min: "1ms", Doc: "A time."},
		{Name: "list", Type: TypeList, OneOf: []string{"A", "B", "C"}, Doc: "A list."},
		{Name: "password", Type: TypeSecret, Doc: "A secret.", With: []string{"user"}},
		{Name: "user", Type: TypeString, Doc: "A user.", Conflicts: []string{"token"}},
		{Name: "token", Type: TypeSecret, Doc: "A token."},
		{Name: "path", Type: TypeFile, Required: true, Doc: "A path."},
		{Name: "keys.<id>.file", Type: TypeFile, Doc: "A key file."},
		{Name: "old", Type: TypeInt, NoEffect: "it is gone"},
	}
}

func TestParse_ValuesAndDefaults(t *testing.T) {
	v, err := Parse(table(), map[string]string{
		"path": " /x ", "count": "7", "size": "8 MiB", "cache.size": "-1", "on": "FALSE", "wait": "1500", "list": "A, C,,",
		"keys.a.file": "/a", "keys.b.c.file": "/bc", "password": "pw", "user": "", "old": "garbage",
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if v.String("name") != "x" || v.String("kind") != "" || v.Int("count") != 7 || v.Int("any") != 0 || v.Bytes("size") != 8<<20 ||
		v.Bytes("cache.size") != -1 || v.Bool("on") || v.Duration("wait") != 1500*time.Millisecond || v.File("path") != "/x" {
		t.Error("a value is not as it was given")
	}
	if diff := cmp.Diff([]string{"A", "C"}, v.List("list")); diff != "" {
		t.Error(diff)
	}
	if v.Secret("password").Reveal() != "pw" || v.Text("password") != Redacted || v.Text("size") != "8 MiB" || v.Text("wait") != "1500" {
		t.Error("secret or text is wrong")
	}
	if diff := cmp.Diff([]string{"a", "b.c"}, v.IDs("keys.<id>.file")); diff != "" {
		t.Error(diff)
	}
	if v.File("keys.b.c.file") != "/bc" || v.File("keys.none.file") != "" {
		t.Error("dynamic values are wrong")
	}
	if !v.IsSet("count") || v.IsSet("name") {
		t.Error("IsSet is wrong")
	}
	if diff := cmp.Diff([]string{"old has no effect: it is gone"}, v.Notices()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"user", "token"}, v.Unread()); diff != "" { // all but those were asked for above
		t.Errorf("unread: %s", diff)
	}
}

func TestParse_EveryMistakeAtOnce(t *testing.T) {
	v, err := Parse(table(), map[string]string{
		"kind": "gren", "count": "11", "any": "99999999999999999999", "size": "8MB", "cache.size": "-2", "on": "yes", "wait": "soon",
		"list": "A,D", "password": "hunter2", "token": "hunter3", "user": "u", "coutn": "hunter4", "keys.a.fiel": "x", "keys..file": "x", "name": "fine",
	}, Options{Prefix: "p."})
	want := []string{
		`p.any="99999999999999999999": must be a whole number of at most 9223372036854775807`,
		`p.cache.size="-2": must be at least -1`,
		`p.count="11": must be in 1..10`,
		`p.coutn: unknown setting, did you mean p.count?`,
		`p.keys..file: unknown setting, did you mean p.keys.<id>.file?`,
		`p.keys.a.fiel: unknown setting, did you mean p.keys.<id>.file?`,
		`p.kind="gren": must be one of red, green; did you mean green?`,
		`p.list="A,D": holds "D": must be one of A, B, C`,
		`p.on="yes": must be true or false`,
		`p.path: is required`,
		`p.size="8MB": must be a number of bytes, plain or with KiB, MiB, GiB or TiB (8MiB)`,
		`p.user="u": cannot be set together with p.token`,
		`p.wait="soon": must be a duration such as 30s, 5m or 250ms, or a plain number of milliseconds`,
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}
	if len(Problems(fmt.Errorf("wrapped: %w", err))) != len(want) {
		t.Error("Problems does not find them all")
	}
	if v.String("name") != "fine" || v.Int("count") != 0 {
		t.Error("what is right is not there, or what is wrong is")
	}
	_, err = Parse(table(), map[string]string{"path": "x", "password": "hunter2", "count": "", "kind": strings.Repeat("\x00x\n", 100)}, Options{})
	for _, p := range Problems(err) {
		if line := p.Error(); strings.Contains(line, "hunter") || strings.Contains(line, "\n") || len(line) > 400 {
			t.Errorf("unfit line %q", line)
		}
	}
	if len(Problems(err)) != 3 {
		t.Errorf("got %v, want three mistakes", err)
	}
}

func TestParse_Ignored(t *testing.T) {
	v, err := Parse(table(), map[string]string{"path": "x", "other.a": "1", "silent": "1"}, Options{Prefix: "p.", Ignored: func(key string) (string, bool) {
		if key == "silent" {
			return "", true
		}
		return "it belongs to other", strings.HasPrefix(key, "other.")
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"p.other.a is ignored: it belongs to other"}, v.Notices()); diff != "" {
		t.Error(diff)
	}
}

func TestValues_WrongNameOrTypePanics(t *testing.T) {
	v, err := Parse(table(), map[string]string{"path": "x"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){
		"unknown name": func() { v.String("no.such") },
		"other type":   func() { v.String("count") },
		"no id":        func() { v.IDs("name") },
		"bad table":    func() { _, _ = Parse([]Setting{{Name: "x", Type: "y", Doc: "z"}}, nil, Options{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestCheck_RefusesBadTables(t *testing.T) {
	ok := Setting{Name: "a", Type: TypeInt, Doc: "x"}
	for want, bad := range map[string][]Setting{
		"stands twice":         {ok, ok},
		"no documentation":     {{Name: "a", Type: TypeInt}},
		"lower case":           {{Name: "A", Type: TypeInt, Doc: "x"}},
		"more than once":       {{Name: "a.<id>.<id>", Type: TypeInt, Doc: "x"}},
		"unknown type":         {{Name: "a", Type: "float", Doc: "x"}},
		"bounds make no sense": {{Name: "a", Type: TypeBool, Min: "1", Doc: "x"}},
		"bound \"x\"":          {{Name: "a", Type: TypeInt, Min: "x", Doc: "x"}},
		"default \"0\"":        {{Name: "a", Type: TypeInt, Default: "0", Min: "1", Doc: "x"}},
		"has no default":       {{Name: "a", Type: TypeSecret, Default: "s", Doc: "x"}},
		"refers to b":          {{Name: "a", Type: TypeInt, Doc: "x", With: []string{"b"}}},
	} {
		if err := Check(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1048576": 1 << 20, "8MiB": 8 << 20, "8 MiB": 8 << 20, "512B": 512, "1KiB": 1024, "2GiB": 2 << 30, "3TiB": 3 << 40, "-1": -1,
		"9223372036854775807": math.MaxInt64,
	} {
		if n, why := parseBytes(text); why != "" || n != want {
			t.Errorf("bytes %q: %d, %s, want %d", text, n, why, want)
		}
	}
	for _, text := range []string{"8MB", "8mib", "1.5GiB", "MiB", "0x10", "1_000", "9223372036854775808", "9007199254740992KiB", "8388608TiB", "-9223372036854775809", "1 0", "\u0661"} {
		if n, why := parseBytes(text); why == "" {
			t.Errorf("bytes %q: %d, want a mistake", text, n)
		}
	}
	for text, want := range map[string]time.Duration{"0": 0, "30000": 30 * time.Second, "30s": 30 * time.Second, "1m30s": 90 * time.Second, "-1": -time.Millisecond} {
		if n, why := parseDuration(text); why != "" || time.Duration(n) != want {
			t.Errorf("duration %q: %d, %s, want %s", text, n, why, want)
		}
	}
	for _, text := range []string{"30 s", "1d", "9223372036855", "s", "1.5"} {
		if n, why := parseDuration(text); why == "" {
			t.Errorf("duration %q: %d, want a mistake", text, n)
		}
	}
}

func TestSecret_CannotBePrinted(t *testing.T) {
	const text = "hunter2"
	s := NewSecret(text)
	holder := struct {
		Public  Secret
		private Secret
		Ptr     *Secret
		List    []Secret
		Map     map[string]Secret
	}{s, s, &s, []Secret{s}, map[string]Secret{"k": s}}
	var out []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%t"} {
		out = append(out, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, holder), fmt.Sprintf(verb, &holder))
	}
	out = append(out, s.String(), s.GoString(), fmt.Sprint(s), fmt.Sprintln(holder))
	for _, v := range []any{s, holder.List, holder.Map, holder.Ptr, holder} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	x, err := xml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, string(x))
	for _, h := range []func(*bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(h(&b)).With("a", s).Info("x", "secret", s, "holder", holder, "error", fmt.Errorf("bad %v", s))
		out = append(out, b.String())
	}
	hex := fmt.Sprintf("%x", text)
	for _, o := range out {
		if strings.Contains(o, text) || strings.Contains(strings.ToLower(o), hex) {
			t.Errorf("shows the secret: %s", o)
		}
	}
	if s.Reveal() != text || !(Secret{}).IsZero() || s.IsZero() {
		t.Error("the secret itself is lost")
	}
}

func TestSecret_Sources(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pw")
	if err := os.WriteFile(file, []byte("from file\r\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, make([]byte, MaxSecretBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Getenv: func(name string) (string, bool) { return "from env", name == "PW" }}
	for text, want := range map[string]string{"literal": "literal", "file:" + file: "from file", "env:PW": "from env", "a:b": "a:b"} {
		v, err := Parse(table(), map[string]string{"path": "x", "token": text}, o)
		if err != nil || v.Secret("token").Reveal() != want {
			t.Errorf("%s: got %q, %v", text, v.Secret("token").Reveal(), err)
		}
	}
	for text, want := range map[string]string{
		"":              `token: is empty: remove the line, or give the secret, file:PATH or env:NAME`,
		"env:NO":        `token: environment variable "NO" is not set: it must be for this command and for whatever starts the daemon`,
		"file:/no/such": `token: file "/no/such" cannot be read: no such file or directory`,
		"file:" + empty: fmt.Sprintf("token: file %q is empty", empty),
		"file:" + big:   fmt.Sprintf("token: file %q cannot be read: it holds more than %d bytes", big, MaxSecretBytes),
		"file:" + dir:   fmt.Sprintf("token: file %q cannot be read: is a directory", dir),
	} {
		if _, err := Parse(table(), map[string]string{"path": "x", "token": text}, o); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, err := Parse(table(), map[string]string{"path": "x", "token": "env:PW"}, Options{}); err == nil {
		t.Error("env: without an environment is no mistake")
	}
}

func TestNearest(t *testing.T) {
	known := []string{"chunk.size", "storage.root", "storage.s3.bucket.name", "encryption.key.pairs.<id>.public.key.file", "key.prefix"}
	for key, want := range map[string]string{
		"chunk.sise": "chunk.size", "storage.rot": "storage.root", "root": "storage.root", "storage.key.prefix": "key.prefix", "s3.bucket.name": "storage.s3.bucket.name",
		"encryption.key.pairs.k1.public.key.fil": "encryption.key.pairs.<id>.public.key.file", "completely.else": "", "": "", strings.Repeat("x", 1000): "",
	} {
		if got := Nearest(key, known); got != want {
			t.Errorf("%.50q: got %q, want %q", key, got, want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	err := Markdown(&b, []Setting{
		{Name: "a", Type: TypeBytes, Default: "4MiB", Min: "1", Doc: "One | two.\nThree <a> `<b>`.", Conflicts: []string{"b"}},
		{Name: "b", Type: TypeSecret, Required: true, Doc: "Secret."},
		{Name: "c", Type: TypeInt, NoEffect: "it is gone"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "| setting | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n" +
		"| `a` | bytes | `4MiB` | 1 or more | One \\| two. Three &lt;a> `<b>`. Not together with `b`. |\n" +
		"| `b` | secret | required |  | Secret. May be given as `file:PATH` or `env:NAME`. |\n" +
		"| `c` | int |  |  | Accepted without effect: it is gone. |\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	if Markdown(&b, []Setting{{Name: "a"}}) == nil {
		t.Error("a bad table is written")
	}
	if !errors.Is(Markdown(failing{}, nil), os.ErrClosed) {
		t.Error("the writer's error is lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"8MiB", "-1", "30s", "1500", "9223372036854775807", "9223372036855", "1h1m1s1ms", "8 MiB", "0x1", "+5", "TiB", "-9223372036854775808KiB"} {
		f.Add(s)
	}
	bytesSetting := Setting{Name: "b", Type: TypeBytes, Min: "1KiB", Max: "1TiB", Doc: "x"}
	timeSetting := Setting{Name: "t", Type: TypeDuration, Min: "1ms", Max: "24h", Doc: "x"}
	f.Fuzz(func(t *testing.T, text string) {
		if v, why := bytesSetting.parse(text); why == "" && (v.(int64) < 1<<10 || v.(int64) > 1<<40) {
			t.Errorf("bytes %q: %v is out of bounds", text, v)
		}
		if v, why := timeSetting.parse(text); why == "" && (v.(time.Duration) < time.Millisecond || v.(time.Duration) > 24*time.Hour) {
			t.Errorf("duration %q: %v is out of bounds", text, v)
		}
		if n, why := parseBytes(text); why == "" {
			if again, why := parseBytes(fmt.Sprint(n)); why != "" || again != n {
				t.Errorf("bytes %q: %d does not read back: %d, %s", text, n, again, why)
			}
		}
		Nearest(text, []string{"a.b", "keys.<id>.file", text})
	})
}
