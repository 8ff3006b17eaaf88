package rsm

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/manifest"
	"github.com/tierkit/tierkit/remotelog"
)

// partition copies segments that follow one another.
func (d *distant) partition(t testing.TB, segments, n int) (mds []remotelog.SegmentMetadata, log []byte) {
	t.Helper()
	md, log := d.kafkaSegment(t, 1, n)
	mds = append(mds, md)
	for i := range segments - 1 {
		md, _ = d.next(t, md, uint64(2+i), n)
		mds = append(mds, md)
	}
	return mds, log
}

// brokerWalk reads segments one after the other as a broker does for one consumer: at the first touch of a segment it asks for three indexes, and then for
// the log.
func brokerWalk(t testing.TB, m *Manager, mds []remotelog.SegmentMetadata, log []byte, each func(segment int, took time.Duration)) {
	t.Helper()
	for i, md := range mds {
		began := time.Now()
		for _, x := range []remotelog.IndexType{remotelog.OffsetIndex, remotelog.TimestampIndex, remotelog.TransactionIndex} {
			if _, err := readIndex(t.Context(), m, md, x); err != nil {
				t.Fatal(err)
			}
		}
		each(i, time.Since(began))
		brokerReads(t, m, md, log, md.SizeBytes, sixtyFourth, 250, func(took time.Duration) {
			each(i, took)
			time.Sleep(8 * time.Millisecond) // 128 MB/s
		})
	}
}

func TestReadAhead_BordersOfSegmentsCostNothing(t *testing.T) {
	for name, size := range map[string]int{"half a request": 16 * sixtyFourth, "one request": 32 * sixtyFourth, "two requests": 64 * sixtyFourth, "many requests": 300 * sixtyFourth} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const segments = 6
				d := newDistant(t, distantConfig())
				mds, log := d.partition(t, segments, size)
				d.driver.list = func(ctx context.Context, o backends.ListOptions) (backends.Page, error) {
					time.Sleep(distantFirst)
					return d.driver.Driver.List(ctx, o)
				}
				d.Manager = manager(t, d.driver, distantConfig(), d.logs) // cold
				d.slow.Reset()
				first, later := time.Duration(0), time.Duration(0)
				brokerWalk(t, d.Manager, mds, log, func(i int, took time.Duration) {
					if i == 0 {
						first += took
					} else {
						later += took
					}
				})
				// manifest, indexes, and the data in requests of 512 KiB; the first ones are smaller
				least := int64(segments * (2 + (size+32*sixtyFourth-1)/(32*sixtyFourth)))
				if gets := d.slow.Stats().Gets; gets > least+5 {
					t.Errorf("%d requests, want at most %d", gets, least+5)
				}
				if later > distantFirst {
					t.Errorf("%v of waiting behind the first segment, where it was %v; want less than one request takes", later, first)
				}
				if s := d.ReadAhead(); s.WastedBytes > 0 {
					t.Errorf("%d bytes were loaded in vain", s.WastedBytes)
				}
			})
		})
	}
}

// TestReadAhead_AFetchOfTwoRequests: batches of 1 MB. A broker reads the batch before the one it wants, and that; its plug-in asks for the first MiB and then
// for the rest. The next fetch begins in the first request of the last one.
func TestReadAhead_AFetchOfTwoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistant(t, distantConfig())
		md, _ := d.kafkaSegment(t, 1, 256*sixtyFourth)
		d.slow.Reset()
		const window, batch = sixtyFourth * 17 / 16, sixtyFourth * 15 / 16
		for at := int64(0); at+2*batch < md.SizeBytes; at += batch {
			for _, r := range [][2]int64{{at, at + window}, {at + window, at + 2*batch + window - sixtyFourth}} {
				if _, err := read(t.Context(), d.Manager, md, r[0], r[1]-1); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(8 * time.Millisecond)
		}
		if n := d.slow.Stats().Gets; n > 13 {
			t.Errorf("%d requests for 64 chunks, want at most 13", n)
		}
		if n := len(d.scansOf()); n != 1 {
			t.Errorf("one reader is taken for %d", n)
		}
	})
}

// TestReadAhead_MoreWasSentThanRead: the first fetches of a broker whose batches have 1 MB, as they were seen. The plug-in does not know yet how much is read and
// asks for a window that is left unread, so that the next fetches begin long before what was sent, and before the last request too. All of it is a quarter here.
func TestReadAhead_MoreWasSentThanRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistant(t, distantConfig())
		md, _ := d.kafkaSegment(t, 1, 4<<20)
		const batch, window = 973_156, 1<<20 + 64<<10
		for _, r := range []struct{ from, to, sent int64 }{
			{0, window, window},
			{window, 2_011_854, 2_011_854},
			{2_011_854, 6_206_158, 4 << 20},
			{batch, batch + window, batch + window},
			{batch + window, 2_985_059, 2_985_059},
			{2_985_059, 7_179_363, 7_179_363},
			{2 * batch, 4_033_586, 4_033_586},
			{3 * batch, 5_006_797, 5_006_797},
			{4 * batch, 5_980_045, 5_980_045},
		} {
			rc, err := d.Fetch(t.Context(), md, r.from/4, r.to/4-1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.CopyN(io.Discard, rc, r.sent/4-r.from/4); err != nil {
				t.Fatal(err)
			}
			if err := rc.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(4 * time.Millisecond)
		}
		if n := len(d.scansOf()); n != 1 {
			t.Errorf("one reader is taken for %d", n)
		}
	})
}

// TestReadAhead_OfTwoScansTheOneUsedLast: two scans of a segment came so near to one another that a fetch could go on with either. The one used last is
// taken, whichever came first and whichever ends nearer to where the fetch begins.
func TestReadAhead_OfTwoScansTheOneUsedLast(t *testing.T) {
	const mib = 16 * sixtyFourth
	for last, fetches := range map[string][][2]int64{ // in MiB of production; the last one is that of the scan to be taken
		"is the one behind": {{12, 13}, {0, 10}, {9, 14}},
		"is the one ahead":  {{0, 10}, {12, 16}, {9, 14}, {16, 17}},
		"is the nearer end": {{0, 10}, {12, 16}, {16, 17}, {9, 14}},
	} {
		t.Run(last, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDistant(t, distantConfig())
				md, _ := d.kafkaSegment(t, 1, 18*mib)
				fetch := func(from, to int64) {
					if _, err := read(t.Context(), d.Manager, md, from*mib, to*mib-1); err != nil {
						t.Fatal(err)
					}
				}
				for _, f := range fetches {
					fetch(f[0], f[1])
				}
				scans, end := d.scansOf(), fetches[len(fetches)-1][1]*mib
				for _, sc := range scans {
					if sc.start > 13*mib || sc.next < 13*mib {
						t.Fatalf("a scan of the bytes from %d to %d has nothing of MiB 13", sc.start, sc.next)
					}
				}
				used := slices.IndexFunc(scans, func(sc *scan) bool { return sc.asked == end })
				fetch(13, 15)
				if n := len(d.scansOf()); len(scans) != 2 || n != 2 {
					t.Fatalf("%d scans, then %d, want two", len(scans), n)
				}
				if got := slices.IndexFunc(scans, func(sc *scan) bool { return sc.asked == 15*mib }); got != used {
					t.Errorf("the fetch went on with scan %d of the two, want %d, which was used last", got, used)
				}
			})
		})
	}
}

// listings counts what is asked for.
func (d *distant) listings(err error) *atomic.Int64 {
	var n atomic.Int64
	d.driver.list = func(ctx context.Context, o backends.ListOptions) (backends.Page, error) {
		n.Add(1)
		if err != nil {
			return backends.Page{}, err
		}
		return d.driver.Driver.List(ctx, o)
	}
	return &n
}

func TestReadAhead_OneListingForEachSegmentThatIsReadToItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int64
	}{
		"found": {nil, 3}, // there is none behind the last one
		"not allowed, which is not tried again soon":    {backends.Errorf(backends.Denied, "no"), 1},
		"failed, which says nothing about the next one": {backends.Errorf(backends.Corrupt, "no"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDistant(t, distantConfig())
				mds, log := d.partition(t, 3, 64*sixtyFourth)
				asked := d.listings(c.err)
				brokerReads(t, d.Manager, mds[0], log, 8*sixtyFourth, sixtyFourth, 250, func(time.Duration) {})
				if n := asked.Load(); n != 0 {
					t.Errorf("%d listings far before the end of a segment", n)
				}
				brokerWalk(t, d.Manager, mds, log, func(int, time.Duration) {})
				if n := asked.Load(); n != c.want {
					t.Errorf("%d listings, want %d", n, c.want)
				}
			})
		})
	}
}

// TestReadAhead_AnotherCopyIsReadThanWasExpected: the segment was copied twice, by two leaders; the broker alone knows which copy counts.
func TestReadAhead_AnotherCopyIsReadThanWasExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDistant(t, distantConfig())
		md, log := d.kafkaSegment(t, 1, 64*sixtyFourth)
		after, afterLog := d.next(t, md, 2, 40*sixtyFourth)
		time.Sleep(time.Second)
		other, _ := d.next(t, md, 3, 24*sixtyFourth) // the later one
		brokerWalk(t, d.Manager, []remotelog.SegmentMetadata{md}, log, func(int, time.Duration) {})
		if !slices.ContainsFunc(d.scansOf(), func(sc *scan) bool { return sc.segment == other.ID && sc.before != nil && sc.edge >= 0 }) {
			t.Error("nothing is there of the later copy")
		}
		brokerWalk(t, d.Manager, []remotelog.SegmentMetadata{after}, afterLog, func(int, time.Duration) {})
	})
}

func (d *distant) scansOf() []*scan {
	d.chunks.mu.Lock()
	defer d.chunks.mu.Unlock()
	return slices.Clone(d.chunks.scans)
}

// TestReadAhead_ASuccessorEndsWithItsReader: what is on its way in the next segment, or is still looked for, is given up when the reader stays away, and
// whoever comes back finds it all the same.
func TestReadAhead_ASuccessorEndsWithItsReader(t *testing.T) {
	for _, suffix := range []manifest.Suffix{manifest.ManifestSuffix, manifest.LogSuffix} {
		t.Run(string(suffix), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDistant(t, distantConfig())
				mds, log := d.partition(t, 2, 64*sixtyFourth)
				d.Manager = manager(t, d.driver, distantConfig(), d.logs)
				inner := d.driver.get
				var stall atomic.Bool
				var hang, ended atomic.Int64
				stall.Store(true)
				d.driver.get = func(ctx context.Context, key string, o backends.GetOptions) (*backends.Object, error) {
					if !stall.Load() || !strings.Contains(key, mds[1].ID.String()) || !strings.HasSuffix(key, string(suffix)) {
						return inner(ctx, key, o)
					}
					hang.Add(1)
					<-ctx.Done()
					ended.Add(1)
					return nil, ctx.Err()
				}
				brokerReads(t, d.Manager, mds[0], log, 60*sixtyFourth, sixtyFourth, 250, func(time.Duration) { time.Sleep(8 * time.Millisecond) })
				synctest.Wait()
				if hang.Load() == 0 || ended.Load() > 0 {
					t.Fatalf("%d requests hang, %d have ended: want some that hang", hang.Load(), ended.Load())
				}
				time.Sleep(scanIdle)
				synctest.Wait()
				if ended.Load() != hang.Load() || d.running() != 0 {
					t.Errorf("%d of %d requests have ended %v after the last read, %d loads run", ended.Load(), hang.Load(), scanIdle, d.running())
				}
				stall.Store(false)
				if s := d.ReadAhead(); s.Readers != 0 || s.DepthBytes != 0 {
					t.Errorf("nobody reads, and there is %+v", s)
				}
				brokerWalk(t, d.Manager, mds, log, func(int, time.Duration) {})
			})
		})
	}
}

func TestFetchIndex_TheOffsetIndexBringsTheOthers(t *testing.T) {
	for name, c := range map[string]struct {
		most int64 // of the cache
		want int64
	}{"together": {10 << 20, 2}, "one by one, for want of room": {1, 5}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conf := distantConfig()
				conf.Indexes.Max = AtMost(c.most)
				d := newDistant(t, conf)
				md, data, _ := segmentOf(3, 1000)
				want := map[remotelog.IndexType]remotelog.Source{
					remotelog.OffsetIndex: data.OffsetIndex, remotelog.TimestampIndex: data.TimeIndex, remotelog.ProducerSnapshotIndex: data.ProducerSnapshot,
				}
				fin := d.mustCopy(t, md, data)
				d.slow.Reset()
				for _, x := range []remotelog.IndexType{remotelog.OffsetIndex, remotelog.TimestampIndex, remotelog.ProducerSnapshotIndex, remotelog.LeaderEpochIndex} {
					got, err := readIndex(t.Context(), d.Manager, fin, x)
					if err != nil {
						t.Fatal(err)
					}
					if src := want[x]; src != nil && !slices.Equal(got, src.(remotelog.Bytes)) {
						t.Errorf("%s index: wrong bytes", x)
					}
				}
				if n := d.slow.Stats().Gets; n != c.want {
					t.Errorf("%d requests for the manifest and four indexes, want %d", n, c.want)
				}
			})
		})
	}
}

// TestFetchIndex_DamageOfAnotherIndexIsNone: what comes along and is damaged, or is not there, is an error only of who asks for it.
func TestFetchIndex_DamageOfAnotherIndexIsNone(t *testing.T) {
	for name, damage := range map[string]func(all []byte, at int) []byte{
		"flipped": func(all []byte, at int) []byte { all[at] ^= 1; return all },
		"cut":     func(all []byte, at int) []byte { return all[:at] },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Encryption: true})
			md, data, _ := segmentOf(3, 1000)
			fin := r.mustCopy(t, md, data)
			rd, err := r.open(t.Context(), &fin)
			if err != nil {
				t.Fatal(err)
			}
			part, _ := rd.there().Indexes.Part(remotelog.TimestampIndex)
			rd.release()
			r.damage(t, ".indexes", func(all []byte) []byte { return damage(all, int(part.Position)) })
			got, err := readIndex(t.Context(), r.Manager, fin, remotelog.OffsetIndex)
			if err != nil || !slices.Equal(got, data.OffsetIndex.(remotelog.Bytes)) {
				t.Errorf("offset index: %v", err)
			}
			if _, err := readIndex(t.Context(), r.Manager, fin, remotelog.TimestampIndex); !errors.Is(err, remotelog.ErrCorrupt) {
				t.Errorf("timestamp index: %v, want ErrCorrupt", err)
			}
		})
	}
}
