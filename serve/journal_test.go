package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/remotelog"
)

// working is a journal over a directory that runs until the test ends.
func working(t testing.TB, dir string, work func(remotelog.SegmentMetadata) error) *journal {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	j := newJournal(&journal{dir: dir, what: "delete", log: logger(t), now: time.Now, work: func(_ context.Context, md remotelog.SegmentMetadata) error {
		return work(md)
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { j.run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return j
}

// plugin writes an order as the plug-in does that cannot reach the daemon.
func plugin(t testing.TB, dir string, md *remotelog.SegmentMetadata) {
	t.Helper()
	if err := newJournal(&journal{dir: dir}).note(md); err != nil {
		t.Error(err)
	}
}

func orderFiles(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// Another order about a segment that comes while the first one is worked off is about what was stored since.
func TestJournal_AnOrderThatComesWhileTheFirstIsWorkedOffIsNotLost(t *testing.T) {
	for name, write := range map[string]func(*testing.T, *journal, *remotelog.SegmentMetadata){
		"by a call": func(t *testing.T, j *journal, md *remotelog.SegmentMetadata) {
			if err := j.put(md); err != nil {
				t.Error(err)
			}
		},
		"by the plug-in": func(t *testing.T, j *journal, md *remotelog.SegmentMetadata) { plugin(t, j.dir, md) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				md, tries := someMetadata(), 0
				var j *journal
				j = working(t, filepath.Join(t.TempDir(), "deletes"), func(remotelog.SegmentMetadata) error {
					if tries++; tries == 1 {
						write(t, j, &md)
					}
					return nil
				})
				if err := j.put(&md); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if files := orderFiles(t, j.dir); tries != 2 || len(files) != 0 || j.stats().Orders != 0 {
					t.Errorf("%d tries, %d orders, files %v, want 2 and none", tries, j.stats().Orders, files)
				}
			})
		})
	}
}

// Objects come and orders with them, again and again, from calls and from the plug-in.
func TestJournal_OrdersThatComeAllTheTimeAreWorkedOff(t *testing.T) {
	md := someMetadata()
	var stored atomic.Bool
	j := working(t, filepath.Join(t.TempDir(), "deletes"), func(remotelog.SegmentMetadata) error {
		stored.Store(false)
		return nil
	})
	for i := range 300 {
		stored.Store(true)
		if i%3 == 0 {
			plugin(t, j.dir, &md)
			j.mu.Lock()
			busy := j.orders[md.ID] != nil
			j.mu.Unlock()
			if busy {
				continue // it need not be found by a scan, which takes a second
			}
		}
		if err := j.put(&md); err != nil {
			t.Fatal(err)
		}
	}
	for j.stats().Orders > 0 {
		runtimeYield()
	}
	for len(orderFiles(t, j.dir)) > 0 { // found by the next scan
		runtimeYield()
	}
	if stored.Load() {
		t.Error("every order is done, and an object is there")
	}
}

// A crash between the steps of a removal makes it an order again.
func TestJournal_ARemovalThatWasCutShortIsAnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, md, tries := filepath.Join(t.TempDir(), "deletes"), someMetadata(), 0
		plugin(t, dir, &md)
		before := newJournal(&journal{dir: dir})
		if err := os.Rename(before.path(md.ID), before.aside(md.ID)); err != nil {
			t.Fatal(err)
		}
		j := working(t, dir, func(got remotelog.SegmentMetadata) error {
			if tries++; got.ID != md.ID {
				t.Errorf("segment %s, want %s", got.ID, md.ID)
			}
			return nil
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if files := orderFiles(t, dir); tries == 0 || len(files) != 0 || j.stats().Orders != 0 {
			t.Errorf("%d tries, files %v, %d orders", tries, files, j.stats().Orders)
		}
	})
}

// A file that is no order is replaced by one that is, in the moment before it is set aside.
func TestJournal_AnOrderInPlaceOfABadOneIsNotSetAside(t *testing.T) {
	dir, md := t.TempDir(), someMetadata()
	j := newJournal(&journal{dir: dir, what: "delete", log: logger(t), now: time.Now})
	if err := durable.WriteFile(j.path(md.ID), []byte("{")); err != nil {
		t.Fatal(err)
	}
	f, err := openOrder(j.path(md.ID))
	if !errors.Is(err, remotelog.ErrInvalidArgument) {
		t.Fatal(err)
	}
	defer f.close()
	plugin(t, dir, &md)
	o := &order{id: md.ID, at: -1}
	if err := j.setAside(o, f, err); err != nil {
		t.Error(err)
	}
	if files := orderFiles(t, dir); len(files) != 1 || files[0] != md.ID.String()+journalSuffix || j.stats().Bad != 0 || !o.again {
		t.Errorf("files %v, %d bad, again %v: want the order, to be tried", files, j.stats().Bad, o.again)
	}
}

// The end of an order is no reason to read the directory: with n orders that would be n times n entries.
func TestJournal_TheDirectoryIsNotReadForEachOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		dir, tries := filepath.Join(t.TempDir(), "deletes"), atomic.Int64{}
		for range n {
			md := someMetadata()
			plugin(t, dir, &md)
		}
		j := working(t, dir, func(remotelog.SegmentMetadata) error { tries.Add(1); return nil })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		j.mu.Lock()
		scans := j.scans
		j.mu.Unlock()
		if tries.Load() != n || scans > 5 || len(orderFiles(t, dir)) != 0 {
			t.Errorf("%d orders of %d worked off, the directory was read %d times in 3 s", tries.Load(), n, scans)
		}
	})
}

// A turn with very many orders that wait costs what it begins, not what waits.
func TestJournal_ATurnLooksAtWhatIsDueOnly(t *testing.T) {
	const n = 100_000
	now := fixedNow()
	done := map[remotelog.UUID]bool{}
	j := newJournal(&journal{dir: t.TempDir(), now: func() time.Time { return now }})
	for range n {
		id := remotelog.NewUUID()
		j.add(id, now, now.Add(time.Hour))
	}
	due := remotelog.NewUUID()
	j.add(due, now, now)
	j.begin(t.Context())
	j.running.Wait()
	if j.orders[due] != nil || len(j.orders) != n || len(j.waiting) != n {
		t.Errorf("%d orders, %d wait, want the %d that are not due", len(j.orders), len(j.waiting), n)
	}
	last := time.Time{}
	now = now.Add(2 * time.Hour)
	for len(j.waiting) > 0 { // in their order, each once
		o := j.waiting[0]
		j.unschedule(o)
		if o.due.Before(last) || done[o.id] {
			t.Fatalf("order %s is due at %v, after one of %v", o.id, o.due, last)
		}
		last, done[o.id] = o.due, true
	}
}

func BenchmarkJournal_Turn(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("orders=%d", n), func(b *testing.B) {
			now := fixedNow()
			j := newJournal(&journal{now: func() time.Time { return now }})
			for range n {
				j.add(remotelog.NewUUID(), now, now.Add(time.Hour))
			}
			for b.Loop() {
				j.begin(b.Context())
			}
		})
	}
}
