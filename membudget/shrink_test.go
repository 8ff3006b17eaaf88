package membudget

import (
	"runtime"
	"testing"
)

func TestShrink_GivesUnusedBytesToTheWaiter(t *testing.T) {
	b, err := New(64<<10, Needs{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Reserve(t.Context(), Copy, b.Ceiling(Copy))
	if err != nil {
		t.Fatal(err)
	}
	buf := r.Buffer(8 << 10)
	got := make(chan *Reservation)
	go func() {
		w, _ := b.Reserve(t.Context(), Copy, 16<<10)
		got <- w
	}()
	for b.Stats().CopyWaiters == 0 { // until it waits
		runtime.Gosched()
	}
	size := r.Size()
	r.Shrink(1 << 40) // as much as is unused: the buffer stays
	if r.Size() != 8<<10 || r.Unused() != 0 || len(buf) != 8<<10 {
		t.Errorf("after Shrink: %d bytes, %d unused, want 8192 and 0", r.Size(), r.Unused())
	}
	w := <-got
	if w == nil || b.Stats().CopyBytes != 24<<10 {
		t.Fatalf("the waiter got %v; copies hold %d bytes of %d before", w, b.Stats().CopyBytes, size)
	}
	w.Release()
	r.Release()
	r.Shrink(1)
	if s := b.Stats(); s.CopyBytes != 0 {
		t.Errorf("%d bytes held after all was released", s.CopyBytes)
	}
}
