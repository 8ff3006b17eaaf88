package backends_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/mem"
)

func TestLoad_TellsWhatRunsAndWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, new(mem.Space).Client(mem.Options{}), backends.Options{Limits: backends.Limits{Writes: 1}})
		if _, err := s.Put(t.Context(), "k", strings.NewReader("bytes"), backends.PutOptions{Size: 5}); err != nil {
			t.Fatal(err)
		}
		obj, err := s.Get(t.Context(), "k", backends.GetOptions{Range: backends.All()})
		if err != nil {
			t.Fatal(err)
		}
		body, source := io.Pipe()
		done := make(chan error, 2)
		put := func(body io.Reader) {
			_, err := s.Put(t.Context(), "new", body, backends.PutOptions{Size: 1})
			done <- err
		}
		go put(body)
		synctest.Wait()
		go put(strings.NewReader("y"))
		synctest.Wait()
		want := backends.Load{Driver: "mem", InFlight: map[backends.Op]int{backends.OpPut: 2, backends.OpRead: 1}, WaitingWrites: 1}
		if diff := cmp.Diff(want, s.Load()); diff != "" {
			t.Errorf("while they run (-want +got):\n%s", diff)
		}
		if _, err := source.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		_ = source.Close()
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if err := obj.Body.Close(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(backends.Load{Driver: "mem", InFlight: map[backends.Op]int{}}, s.Load()); diff != "" {
			t.Errorf("at rest (-want +got):\n%s", diff)
		}
	})
}
