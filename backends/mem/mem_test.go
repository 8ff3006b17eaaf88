package mem_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
)

func put(t *testing.T, d backends.Driver, key string, n int) error {
	t.Helper()
	_, err := d.Put(t.Context(), key, strings.NewReader(strings.Repeat("x", n)), backends.PutOptions{Size: int64(n)})
	return err
}

func TestSpace_Full(t *testing.T) {
	space := new(mem.Space)
	d := space.Client(mem.Options{MaxBytes: 1000})
	if err := put(t, d, "a", 600); err != nil {
		t.Fatal(err)
	}
	for range 3 { // a failed put takes nothing for good
		if err := put(t, d, "b", 401); !errors.Is(err, backends.Exhausted) {
			t.Errorf("got %v, want Exhausted", err)
		}
		broken := io.MultiReader(strings.NewReader(strings.Repeat("x", 300)), iotest.ErrReader(io.ErrClosedPipe))
		if _, err := d.Put(t.Context(), "b", broken, backends.PutOptions{Size: 400}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v, want the body's error", err)
		}
	}
	if err := put(t, d, "b", 400); err != nil {
		t.Errorf("it fits exactly: %v", err)
	}
	if err := d.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := put(t, d, "c", 600); err != nil {
		t.Errorf("after delete: %v", err)
	}
	if err := put(t, space.Client(mem.Options{}), "d", 600); err != nil {
		t.Errorf("a client without a bound: %v", err)
	}
}

func TestDriver_PagesAndBulks(t *testing.T) {
	d := new(mem.Space).Client(mem.Options{})
	var keys []string
	for i := range 2500 {
		keys = append(keys, fmt.Sprintf("k%04d", i))
		if err := put(t, d, keys[i], 0); err != nil {
			t.Fatal(err)
		}
	}
	pages, n := 0, 0
	for token := ""; ; pages++ {
		page, err := d.List(t.Context(), backends.ListOptions{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Infos)
		if token = page.Next; token == "" {
			break
		}
	}
	if pages != 2 || n != 2500 { // two of them have a next one
		t.Errorf("%d keys on %d pages", n, pages+1)
	}
	if err := d.DeleteMany(t.Context(), keys[:1001]); !errors.Is(err, backends.InvalidArgument) {
		t.Errorf("too many at once: %v", err)
	}
	if err := d.DeleteMany(t.Context(), append(keys[:999:999], "none")); err != nil {
		t.Error(err)
	}
	page, err := d.List(t.Context(), backends.ListOptions{Limit: 1})
	if err != nil || page.Infos[0].Key != "k0999" {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestDriver_MetaIsACopy(t *testing.T) {
	d := new(mem.Space).Client(mem.Options{})
	meta := map[string]string{"k": "v"}
	info, err := d.Put(t.Context(), "a", strings.NewReader(""), backends.PutOptions{Meta: meta})
	if err != nil {
		t.Fatal(err)
	}
	meta["k"], info.Meta["k"] = "changed", "changed"
	if st, err := d.Stat(t.Context(), "a"); err != nil || st.Meta["k"] != "v" {
		t.Errorf("%+v, %v", st, err)
	}
}
