package backends_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/backends/mem"
)

// A Registry holds the drivers that a program offers; the settings choose one of them.
func ExampleRegistry_Open() {
	root, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(root) }()

	var reg backends.Registry
	if err := errors.Join(reg.Register(fs.Factory()), reg.Register(mem.Factory())); err != nil {
		fmt.Println(err)
		return
	}
	props := map[string]string{"storage.backend": "fs", "storage.root": root}
	ctx := context.Background()
	store, err := reg.Open(ctx, props, backends.Options{})
	if err != nil {
		fmt.Println(err) // one line for each mistake in props
		return
	}
	defer store.Close()

	const text = "hello, tiered world"
	if _, err := store.Put(ctx, "greetings/1", strings.NewReader(text), backends.PutOptions{Size: int64(len(text))}); err != nil {
		fmt.Println(err)
		return
	}
	obj, err := store.Get(ctx, "greetings/1", backends.GetOptions{Range: backends.Range{Offset: 7, Length: 6}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer obj.Body.Close()
	part, err := io.ReadAll(obj.Body)
	fmt.Printf("%s of %d bytes, %v\n", part, obj.Info.Size, err)

	_, err = store.Stat(ctx, "greetings/2")
	fmt.Println(errors.Is(err, backends.NotFound))
	// Output:
	// tiered of 19 bytes, <nil>
	// true
}
