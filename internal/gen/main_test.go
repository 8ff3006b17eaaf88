package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfiguration_IsCurrent(t *testing.T) {
	var want bytes.Buffer
	if err := configuration(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("docs/configuration.md is not what the tables say, run go generate ./...\n%s", diff)
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
	path := filepath.Join(t.TempDir(), "c.md")
	if err := write(path); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Contains(b, []byte("| `storage.root` | file | required |")) {
		t.Errorf("got %.200s, %v", b, err)
	}
	if write(filepath.Join(path, "below-a-file")) == nil {
		t.Error("a file that cannot be written is no error")
	}
}
