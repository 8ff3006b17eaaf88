package localtiered_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/localtiered"
	"github.com/tierkit/tierkit/internal/golden"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a copy of what Kafka's brokers of a version left.
func open(t *testing.T, version string) (d *localtiered.Driver, root string) {
	t.Helper()
	data, err := golden.Kafka()
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	if err := golden.CopyTree(root, os.DirFS(filepath.Join(data, "localtieredstorage", version))); err != nil {
		t.Fatal(err)
	}
	d, err = localtiered.Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, filepath.Join(root, "kafka-tiered-storage")
}

// list reads all pages of a few keys each.
func list(t *testing.T, d *localtiered.Driver, prefix string) (out []backends.Info) {
	t.Helper()
	for token := ""; ; {
		page, err := d.List(t.Context(), backends.ListOptions{Prefix: prefix, Token: token, Limit: 7})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, page.Infos...)
		if token = page.Next; token == "" {
			return out
		}
	}
}

func get(t *testing.T, d *localtiered.Driver, key string, r backends.Range) []byte {
	t.Helper()
	o, err := d.Get(t.Context(), key, backends.GetOptions{Range: r})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	b, err := io.ReadAll(o.Body)
	if err != nil || int64(len(b)) != o.Length {
		t.Fatalf("%s: %d bytes, %v, want %d", key, len(b), err, o.Length)
	}
	return b
}

// Every segment is there with its three objects, whose sizes and bytes agree however they are asked for.
func TestDriver_ShowsEverySegment(t *testing.T) {
	for _, version := range []string{"3.9.2", "4.4.0"} {
		d, root := open(t, version)
		logs, err := filepath.Glob(filepath.Join(root, "*", "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		infos := list(t, d, "")
		if len(infos) != 3*len(logs) || len(logs) < 10 {
			t.Fatalf("%s: %d objects for %d segments", version, len(infos), len(logs))
		}
		for i, info := range infos {
			if i > 0 && info.Key <= infos[i-1].Key {
				t.Errorf("%s is listed after %s", info.Key, infos[i-1].Key)
			}
			if st, err := d.Stat(t.Context(), info.Key); err != nil || st.Size != info.Size || !st.ModTime.Equal(info.ModTime) {
				t.Errorf("Stat of %s: %+v, %v, listed as %+v", info.Key, st, err, info)
			}
			whole := get(t, d, info.Key, backends.All())
			if int64(len(whole)) != info.Size {
				t.Errorf("%s: %d bytes, listed with %d", info.Key, len(whole), info.Size)
			}
			for off := int64(0); off < info.Size; off += max(info.Size/5, 1) {
				if got := get(t, d, info.Key, backends.Range{Offset: off, Length: 100}); !bytes.Equal(got, whole[off:min(off+100, info.Size)]) {
					t.Errorf("%s from %d: other bytes than in the whole", info.Key, off)
				}
			}
			if _, err := d.Get(t.Context(), info.Key, backends.GetOptions{Range: backends.Range{Offset: info.Size, Length: 1}}); !errors.Is(err, backends.InvalidRange) {
				t.Errorf("%s from its end: %v", info.Key, err)
			}
		}
		if got := list(t, d, infos[4].Key); len(got) != 1 || got[0].Key != infos[4].Key {
			t.Errorf("prefix of one key: %v", got)
		}
	}
}

// oneSegment returns the files of a segment, without ending, and the key of its manifest.
func oneSegment(t *testing.T, root string, d *localtiered.Driver) (base, key string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(root, "orders-0-*", "*.log"))
	if err != nil || len(logs) < 2 {
		t.Fatalf("%v, %v", logs, err)
	}
	base = strings.TrimSuffix(logs[0], ".log")
	id := filepath.Base(base)[21:]
	for _, info := range list(t, d, "") {
		if strings.Contains(info.Key, id) && strings.HasSuffix(info.Key, "."+string(manifest.ManifestSuffix)) {
			return base, info.Key
		}
	}
	t.Fatalf("no manifest of %s", base)
	return "", ""
}

// A segment whose files are not all there, or contradict themselves, has a manifest that nobody takes for one; the others are not
// hindered. When the files are as they should be the manifest is, too.
func TestDriver_DamagedSegments(t *testing.T) {
	damages := map[string]func(base string) error{
		"no snapshot": func(base string) error { return os.Remove(base + ".snapshot") },
		"no epochs":   func(base string) error { return os.Remove(base + ".leader_epoch_checkpoint") },
		"foreign epochs": func(base string) error {
			return os.WriteFile(base+".leader_epoch_checkpoint", []byte("0\n1\nx y\n"), 0o644)
		},
		"later epochs": func(base string) error {
			return os.WriteFile(base+".leader_epoch_checkpoint", []byte("0\n1\n5 99999\n"), 0o644)
		},
		"empty log":    func(base string) error { return os.Truncate(base+".log", 0) },
		"cut log":      func(base string) error { return os.Truncate(base+".log", 1000) },
		"log of zeros": func(base string) error { return os.WriteFile(base+".log", make([]byte, 500), 0o644) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			d, root := open(t, "4.4.0")
			base, key := oneSegment(t, root, d)
			if _, err := manifest.Parse(get(t, d, key, backends.All())); err != nil {
				t.Fatalf("before: %v", err)
			}
			n := len(list(t, d, ""))
			if err := damage(base); err != nil {
				t.Fatal(err)
			}
			fresh, err := localtiered.Open(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := manifest.Parse(get(t, fresh, key, backends.All())); !errors.Is(err, remotelog.ErrCorrupt) {
				t.Errorf("the manifest of a segment with %s: %v, want corrupt", name, err)
			}
			page, err := fresh.List(t.Context(), backends.ListOptions{})
			if missing := strings.HasPrefix(name, "no "); err != nil || !missing && len(page.Infos) != n || missing && len(page.Infos) < n-1 {
				t.Errorf("listing: %d objects, %v, want %d", len(page.Infos), err, n)
			}
		})
	}
}

// A file that gets shorter while it is read is an error, and never the bytes of the next one in its place.
func TestDriver_FileThatShrinks(t *testing.T) {
	d, root := open(t, "4.4.0")
	base, key := oneSegment(t, root, d)
	for suffix, file := range map[manifest.Suffix]string{manifest.IndexesSuffix: ".leader_epoch_checkpoint", manifest.LogSuffix: ".log"} {
		key := strings.TrimSuffix(key, string(manifest.ManifestSuffix)) + string(suffix)
		o, err := d.Get(t.Context(), key, backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(base+file, 3); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(o.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %d bytes of %d, %v, want an unexpected end", key, len(b), o.Length, err)
		}
		if err := o.Body.Close(); err != nil {
			t.Error(err)
		}
		if _, err := o.Body.Read(make([]byte, 1)); !errors.Is(err, backends.Closed) {
			t.Errorf("read after close: %v", err)
		}
	}
}

func TestDriver_RefusesToWrite(t *testing.T) {
	d, _ := open(t, "3.9.2")
	_, perr := d.Put(t.Context(), "a", strings.NewReader("x"), backends.PutOptions{Size: 1})
	for what, err := range map[string]error{"Put": perr, "Delete": d.Delete(t.Context(), "a"), "Probe": d.Probe(t.Context())} {
		if !errors.Is(err, backends.Unsupported) {
			t.Errorf("%s: %v, want unsupported", what, err)
		}
	}
	for _, key := range []string{"a", "orders-AAAAAAAAAAAAAAAAAAAAAA/0/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log"} {
		if _, err := d.Stat(t.Context(), key); !errors.Is(err, backends.NotFound) {
			t.Errorf("Stat of %s: %v, want not found", key, err)
		}
	}
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.List(dead, backends.ListOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("List after the end of its context: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.List(t.Context(), backends.ListOptions{}); !errors.Is(err, backends.Closed) {
		t.Errorf("List after Close: %v", err)
	}
}

// What is not LocalTieredStorage's is not seen.
func TestDriver_ForeignNames(t *testing.T) {
	d, root := open(t, "4.4.0")
	n := len(list(t, d, ""))
	part := filepath.Join(root, "x-01-AAAAAAAAAAAAAAAAAAAAAA") // a partition has no leading zero
	for _, dir := range []string{part, filepath.Join(root, "lost+found"), filepath.Join(root, "a-99999999999-AAAAAAAAAAAAAAAAAAAAAA")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(part, "00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := len(list(t, d, "")); got != n {
		t.Errorf("%d objects, want %d", got, n)
	}
	if _, err := localtiered.Open(t.Context(), filepath.Join(root, "nowhere")); !errors.Is(err, backends.InvalidArgument) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
