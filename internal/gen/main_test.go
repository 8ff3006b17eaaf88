package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPages_AreCurrent(t *testing.T) {
	for _, p := range pages() {
		var want bytes.Buffer
		if err := p.make(&want); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("../../docs", p.name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), string(got)); diff != "" {
			t.Errorf("docs/%s is not what the code says, run go generate ./...\n%s", p.name, diff)
		}
	}
}

func TestDrivers_AreThoseOfTheCommand(t *testing.T) {
	reg, err := drivers()
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile("../../cmd/tierkit/main.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`"github\.com/tierkit/tierkit/backends/(\w+)"`).FindAllSubmatch(src, -1)
	if len(found) == 0 || len(found) != len(reg.Names()) {
		t.Errorf("the command imports %d drivers, the reference has %q", len(found), reg.Names())
	}
	for _, m := range found {
		if _, ok := reg.Factory(string(m[1])); !ok {
			t.Errorf("driver %s is not in the reference", m[1])
		}
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]string{
		"configuration.md": "| `storage.root` | file | required |",
		"metrics.md":       "| `tierkit_backend_ops_total` | counter | `driver`, `op`, `code` |",
	} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Contains(b, []byte(row)) {
			t.Errorf("%s: got %.200s, %v; want %q in it", name, b, err, row)
		}
	}
	if write(filepath.Join(dir, "missing")) == nil {
		t.Error("a directory that is not there is no error")
	}
}
