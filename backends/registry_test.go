package backends_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/mem"
	"github.com/tierkit/tierkit/internal/settings"
)

func cloud(opened **backends.Config) backends.Factory {
	return backends.Factory{
		Name: "cloud", Aliases: []string{"com.example.Cloud"},
		Settings: []backends.Setting{
			{Name: "storage.cloud.bucket.name", Type: backends.TypeString, Required: true, Doc: "The bucket."},
			{Name: "storage.cloud.key", Type: backends.TypeSecret, Doc: "The key."},
			{Name: "storage.cloud.part.size", Type: backends.TypeBytes, Default: "8MiB", Min: "5MiB", Doc: "The part size."},
		},
		Open: func(_ context.Context, c *backends.Config, env backends.Env) (backends.Driver, error) {
			if env.Log == nil || env.Now == nil || env.UserAgent == "" || env.WrapTransport(http.DefaultTransport) != http.DefaultTransport {
				return nil, errors.New("the environment has gaps")
			}
			*opened = c
			if c.String("storage.cloud.bucket.name") == "a/b" {
				return nil, settings.Problemf("storage.cloud.bucket.name", "a/b", "must have no slash")
			}
			if c.String("storage.cloud.bucket.name") == "gone" {
				return nil, backends.Errorf(backends.InvalidArgument, "bucket gone does not exist")
			}
			return &mock{}, nil
		},
	}
}

func registry(t *testing.T) (*backends.Registry, **backends.Config) {
	t.Helper()
	var r backends.Registry
	var opened *backends.Config
	for _, f := range []backends.Factory{fs.Factory(), mem.Factory(), cloud(&opened)} {
		if err := r.Register(f); err != nil {
			t.Fatal(err)
		}
	}
	return &r, &opened
}

func TestRegistry_Open(t *testing.T) {
	r, opened := registry(t)
	for name, props := range map[string]map[string]string{
		"name":  {"storage.backend": "cloud"},
		"class": {"storage.backend.class": "com.example.Cloud"},
		"both":  {"storage.backend": "cloud", "storage.backend.class": "com.example.Cloud"},
	} {
		var log bytes.Buffer
		props["storage.cloud.bucket.name"], props["storage.cloud.key"], props["chunk.size"] = "b", "env:KEY", "not ours"
		props["storage.root"], props["storage.key.prefix"] = "/x", "y"
		s, err := r.Open(t.Context(), props, backends.Options{
			Env:      backends.Env{Log: slog.New(slog.NewTextHandler(&log, nil))},
			Settings: settings.Options{Getenv: func(string) (string, bool) { return "hunter2", true }},
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c := *opened
		if c.String("storage.cloud.bucket.name") != "b" || c.Secret("storage.cloud.key").Reveal() != "hunter2" || c.Bytes("storage.cloud.part.size") != 8<<20 {
			t.Errorf("%s: settings are wrong", name)
		}
		for _, want := range []string{"storage.root is ignored: it belongs to storage.backend=fs", "storage.key.prefix has no effect"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: no notice %q in %s", name, want, log.String())
			}
		}
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("%s: the log shows the secret", name)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRegistry_EveryMistakeAtOnce(t *testing.T) {
	r, _ := registry(t)
	tests := []struct {
		name  string
		props map[string]string
		want  []string
	}{
		{"nothing", nil, []string{"p.storage.backend: is required (cloud, fs, mem)"}},
		{"nothing, and more", map[string]string{"storage.rot": "x", "storage.cloud.bucket.name": "b"}, []string{
			"p.storage.backend: is required (cloud, fs, mem)", "p.storage.rot: unknown setting, did you mean p.storage.root?",
		}},
		{"the name itself misspelled", map[string]string{"storage.bakend": "fs"}, []string{
			"p.storage.backend: is required (cloud, fs, mem)", "p.storage.bakend: unknown setting, did you mean p.storage.backend?",
		}},
		{"unknown name", map[string]string{"storage.backend": "clod"}, []string{`p.storage.backend="clod": must be one of cloud, fs, mem; did you mean cloud?`}},
		{"unknown class", map[string]string{"storage.backend.class": "x.Y"}, []string{
			`p.storage.backend.class="x.Y": no such driver; known are cloud, com.example.Cloud, fs, io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage, mem`,
		}},
		{"contradiction", map[string]string{"storage.backend": "mem", "storage.backend.class": "com.example.Cloud"}, []string{
			`p.storage.backend.class="com.example.Cloud": means cloud, but p.storage.backend=mem`,
		}},
		{"three in one driver", map[string]string{"storage.backend": "cloud", "storage.cloud.part.size": "1MiB", "storage.cloud.bukcet.name": "b"}, []string{
			"p.storage.cloud.bucket.name: is required", "p.storage.cloud.bukcet.name: unknown setting, did you mean p.storage.cloud.bucket.name?",
			`p.storage.cloud.part.size="1MiB": must be at least 5MiB`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.Open(t.Context(), tt.props, backends.Options{Settings: settings.Options{Prefix: "p."}})
			var got []string
			for _, p := range settings.Problems(err) {
				got = append(got, p.Error())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRegistry_DriverThatDoesNotOpen(t *testing.T) {
	r, _ := registry(t)
	props := map[string]string{"storage.backend": "cloud", "storage.cloud.bucket.name": "gone"}
	_, err := r.Open(t.Context(), props, backends.Options{})
	if !errors.Is(err, backends.InvalidArgument) || err.Error() != "cloud open: invalid argument: bucket gone does not exist" || countErrors(err) != 1 {
		t.Errorf("got %v", err)
	}
	// A mistake that only the driver sees is one of the configuration too, with the name that the user wrote.
	props["storage.cloud.bucket.name"] = "a/b"
	_, err = r.Open(t.Context(), props, backends.Options{Settings: settings.Options{Prefix: "p."}})
	if want := `cloud open: invalid argument: p.storage.cloud.bucket.name="a/b": must have no slash`; !errors.Is(err, backends.InvalidArgument) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	props["storage.cloud.bucket.name"] = "b"
	if _, err := r.Open(t.Context(), props, backends.Options{Prefix: ".tierkit/"}); !errors.Is(err, backends.InvalidArgument) || countErrors(err) != 1 {
		t.Errorf("got %v", err)
	}
}

func TestRegistry_Register(t *testing.T) {
	open := func(context.Context, *backends.Config, backends.Env) (backends.Driver, error) { return nil, nil }
	for want, f := range map[string]backends.Factory{
		"the name fs belongs to driver fs":               {Name: "fs", Open: open},
		"the name com.example.Cloud belongs to driver":   {Name: "x", Aliases: []string{"com.example.Cloud"}, Open: open},
		"the name y is given twice":                      {Name: "x", Aliases: []string{"y", "y"}, Open: open},
		"it needs a name":                                {Open: open},
		"an Open function":                               {Name: "x"},
		"setting chunk.size does not belong to a driver": {Name: "x", Open: open, Settings: []backends.Setting{{Name: "chunk.size", Type: backends.TypeInt, Doc: "x"}}},
		"setting storage.backend does not belong":        {Name: "x", Open: open, Settings: []backends.Setting{{Name: "storage.backend", Type: backends.TypeInt, Doc: "x"}}},
		"setting storage.x: has no documentation":        {Name: "x", Open: open, Settings: []backends.Setting{{Name: "storage.x", Type: backends.TypeInt}}},
	} {
		r, _ := registry(t)
		if err := r.Register(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, ok := r.Factory("x"); ok {
			t.Errorf("%s: it is there all the same", want)
		}
	}
	r, _ := registry(t)
	if f, ok := r.Factory("com.example.Cloud"); !ok || f.Name != "cloud" {
		t.Error("an alias is not found")
	}
	if _, ok := new(backends.Registry).Factory("x"); ok {
		t.Error("an empty registry has something")
	}
}

// TestDrivers_ReadEverySetting: what is documented is read.
func TestDrivers_ReadEverySetting(t *testing.T) {
	r, _ := registry(t)
	for name, props := range map[string]map[string]string{
		"fs":  {"storage.backend": "fs", "storage.root": t.TempDir()},
		"mem": {"storage.backend": "mem"},
	} {
		c, err := r.Parse(props, settings.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Open(t.Context(), backends.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if unread := c.Config.Unread(); len(unread) > 0 {
			t.Errorf("%s does not read %q", name, unread)
		}
		if err := s.Probe(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	c, err := r.Parse(map[string]string{
		"storage.backend.class": "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage", "storage.root": "/x", "storage.overwrite.enabled": "true",
	}, settings.Options{})
	if err != nil || c.Factory.Name != "fs" || len(c.Notices) != 1 {
		t.Errorf("the plug-in's file: %+v, %v", c, err)
	}
}
