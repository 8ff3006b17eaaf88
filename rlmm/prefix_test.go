package rlmm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rlmm"
	"github.com/tierkit/tierkit/rlmm/memlog"
)

// answer is what a manager said of a partition: one of the questions of prefixes.ask. atLeast is what its prefix of the log must
// have: the end at the assignment, and the offset behind every write that this manager had acknowledged before the question.
type answer struct {
	question, text string
	tp             remotelog.TopicIDPartition
	atLeast        int64
	acknowledged   int   // of witness.acks
	atMost         int64 // the end of the log after the answer
}

// witness asks one manager all the time and keeps what it says, while another goroutine writes through it.
type witness struct {
	m    *rlmm.Manager
	log  rlmm.Log
	id   int32 // broker id: tells its events from others'
	from int64 // end of the log at the last assignment

	mu       sync.Mutex
	acks     [][]byte // events
	answers  []answer
	notReady int
}

const prefixSegments = 60

// prefixSegment is segment n: of ten offsets, without gap or overlap.
func prefixSegment(tp remotelog.TopicIDPartition, n int) remotelog.SegmentMetadata {
	return seg(tp, n+1, int64(10*n), int64(10*n+9), 0, int64(10*n))
}

// write does something to some segment, which may be refused, and takes note of it if it is acknowledged.
func (w *witness) write(ctx context.Context, t *testing.T, rng *rand.Rand, tp remotelog.TopicIDPartition, step int64) {
	md := prefixSegment(tp, rng.IntN(prefixSegments))
	md.BrokerID, md.EventTimestampMs = w.id, step // no two events are alike
	up := remotelog.SegmentUpdate{SegmentID: md.SegmentID, BrokerID: w.id, EventTimestampMs: step, State: remotelog.State(1 + rng.IntN(3))}
	var err error
	var r rlmm.Record = &rlmm.UpdateRecord{Update: up}
	if rng.IntN(3) == 0 {
		r = &rlmm.SegmentRecord{Metadata: md}
		err = w.m.Add(ctx, md)
	} else {
		err = w.m.Update(ctx, up)
	}
	switch {
	case err == nil:
		w.mu.Lock()
		w.acks = append(w.acks, mustEncode(t, r))
		w.mu.Unlock()
	case errors.Is(err, remotelog.ErrInvalidArgument), errors.Is(err, remotelog.ErrNotFound), errors.Is(err, remotelog.ErrConflict), errors.Is(err, remotelog.ErrNotReady):
	default:
		t.Errorf("write through manager %d: %v", w.id, err)
	}
}

// ask asks one question and keeps the answer.
func (w *witness) ask(ctx context.Context, t *testing.T, rng *rand.Rand, tp remotelog.TopicIDPartition) {
	w.mu.Lock()
	a := answer{tp: tp, atLeast: w.from, acknowledged: len(w.acks)}
	w.mu.Unlock()
	var err error
	switch rng.IntN(3) {
	case 0:
		a.question = "list"
		for md, lerr := range w.m.Segments(ctx, tp) {
			if err = lerr; err != nil {
				break
			}
			a.text += fmt.Sprintf("%d:%d ", md.StartOffset/10, md.State)
		}
	case 1:
		n := rng.IntN(prefixSegments)
		a.question = fmt.Sprint("lookup ", n)
		var md remotelog.SegmentMetadata
		var ok bool
		if md, ok, err = w.m.Segment(ctx, tp, 0, int64(10*n+5)); ok {
			a.text = fmt.Sprint(md.StartOffset / 10)
		}
	default:
		a.question = "highest"
		var h int64
		var ok bool
		if h, ok, err = w.m.HighestOffset(ctx, tp, 0); ok {
			a.text = fmt.Sprint(h)
		}
	}
	b, berr := w.log.Bounds(ctx, []int32{0})
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case errors.Is(err, remotelog.ErrNotReady), errors.Is(err, remotelog.ErrNotAssigned):
		w.notReady++
	case err != nil || berr != nil:
		t.Errorf("%s of %v by manager %d: %v, %v", a.question, tp, w.id, err, berr)
	default:
		a.atMost = b[0].Next
		w.answers = append(w.answers, a)
	}
}

// prefixes walks over the log, and says what the answers of one partition are at each place.
type prefixes struct {
	events [][]byte
	at     int64
	state  map[int]remotelog.State
	high   int64
	tp     remotelog.TopicIDPartition
}

func newPrefixes(events [][]byte, tp remotelog.TopicIDPartition) *prefixes {
	return &prefixes{events: events, state: map[int]remotelog.State{}, high: -1, tp: tp}
}

// step applies one event by the transitions of Kafka (kafka-storage RemoteLogSegmentState), written down here once more.
func (p *prefixes) step() error {
	r, err := rlmm.Decode(p.events[p.at])
	if err != nil {
		return err
	}
	p.at++
	switch r := r.(type) {
	case *rlmm.SegmentRecord:
		n := int(r.Metadata.StartOffset / 10)
		if s, ok := p.state[n]; r.Metadata.TopicIDPartition == p.tp && (!ok || s == started) {
			p.state[n] = started
		}
	case *rlmm.UpdateRecord:
		if r.Update.TopicIDPartition != p.tp {
			return nil
		}
		n := int(r.Update.ID[15]) - 1
		from, ok := p.state[n]
		switch to := r.Update.State; {
		case !ok:
		case to == finished && (from == started || from == finished):
			p.state[n] = finished
			p.high = max(p.high, int64(10*n+9))
		case to == delStarted:
			p.state[n] = delStarted
		case to == delDone && from == delStarted:
			delete(p.state, n)
		}
	}
	return nil
}

func (p *prefixes) answer(question string) (text string) {
	var n int
	switch {
	case question == "list":
		for n := range prefixSegments {
			if s, ok := p.state[n]; ok {
				text += fmt.Sprintf("%d:%d ", n, s)
			}
		}
	case question == "highest":
		if p.high >= 0 {
			text = fmt.Sprint(p.high)
		}
	default:
		if _, err := fmt.Sscanf(question, "lookup %d", &n); err != nil {
			panic(err)
		}
		if p.state[n] == finished {
			text = fmt.Sprint(n)
		}
	}
	return text
}

// checkPrefixes finds for every answer of one manager about one partition the shortest prefix that it can be from, not shorter than
// that of the answer before. acked is the offset behind the n-th acknowledged write.
func checkPrefixes(events [][]byte, tp remotelog.TopicIDPartition, answers []answer, acked func(n int) int64) error {
	p := newPrefixes(events, tp)
	for i, a := range answers {
		if a.tp != tp {
			continue
		}
		from := max(a.atLeast, acked(a.acknowledged))
		for p.at < from || p.answer(a.question) != a.text {
			if p.at == a.atMost || p.at == int64(len(events)) {
				return fmt.Errorf("answer %d, %s: %q, is that of no prefix between %d and %d that includes those before", i, a.question, a.text, from, a.atMost)
			}
			if err := p.step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Two managers write to the same segments of two partitions, and a third comes and goes; each is asked all the time. Every answer is
// the state after some prefix of the log that has all that its manager acknowledged and the end of the log at its assignment; the
// prefixes of a manager never shrink.
func TestManager_EveryAnswerIsAPrefixOfTheLog(t *testing.T) {
	log := memlog.New(memlog.Options{})
	t.Cleanup(func() { _ = log.Close() })
	tps := []remotelog.TopicIDPartition{kafkaTopic(t, 0), kafkaTopic(t, 1)}
	ctx := within(t)
	var ws []*witness
	for id := range int32(3) {
		w := &witness{m: newManager(t, log, rlmm.Options{}), log: log, id: 10 + id}
		if id < 2 {
			follow(t, w.m, tps...)
		}
		ws = append(ws, w)
	}
	end := make(chan struct{})
	var writers, readers sync.WaitGroup
	for i, w := range ws {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		writers.Go(func() { w.work(ctx, t, rng, tps, i == 2) })
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(8, uint64(i)))
			for {
				select {
				case <-end:
					return
				default:
					w.ask(ctx, t, rng, tps[rng.IntN(2)])
				}
			}
		})
	}
	writers.Wait()
	close(end)
	readers.Wait()

	events, at := wholeLog(ctx, t, log)
	for _, w := range ws {
		t.Logf("manager %d: %d writes acknowledged, %d answers, %d times not ready", w.id, len(w.acks), len(w.answers), w.notReady)
		if len(w.acks) < 100 || len(w.answers) < 100 || w.id == 12 && w.notReady == 0 {
			t.Errorf("manager %d: %d writes acknowledged, %d answers, %d times not ready: too few to show anything", w.id, len(w.acks), len(w.answers), w.notReady)
		}
		ends := []int64{0} // behind the n-th acknowledged write and those before
		for _, ev := range w.acks {
			offset, ok := at[string(ev)]
			if !ok {
				t.Fatalf("an acknowledged write of manager %d is not in the log", w.id)
			}
			ends = append(ends, max(ends[len(ends)-1], offset+1))
		}
		for _, tp := range tps {
			if err := checkPrefixes(events, tp, w.answers, func(n int) int64 { return ends[n] }); err != nil {
				t.Errorf("manager %d about %v: %v", w.id, tp, err)
			}
		}
	}
}

// enough: what was asked so far shows something, also of a manager that comes and goes.
func (w *witness) enough(comes bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.answers) >= 100 && (!comes || w.notReady > 0)
}

// work writes; with comes, the manager is assigned the partitions and stopped in between.
func (w *witness) work(ctx context.Context, t *testing.T, rng *rand.Rand, tps []remotelog.TopicIDPartition, comes bool) {
	for step := int64(0); step < 1500 || !w.enough(comes) && ctx.Err() == nil; step++ {
		if comes && step%100 == 0 {
			if err := w.m.OnStop(tps); err != nil {
				t.Error(err)
			}
			b, err := w.log.Bounds(ctx, []int32{0})
			if err == nil {
				w.mu.Lock()
				w.from = b[0].Next
				w.mu.Unlock()
				err = errors.Join(w.m.OnLeadershipChange(tps, nil), w.m.WaitReady(ctx, tps...))
			}
			if err != nil {
				t.Error(err)
			}
		}
		w.write(ctx, t, rng, tps[rng.IntN(2)], step)
	}
}

// wholeLog reads the log, and where each event is.
func wholeLog(ctx context.Context, t *testing.T, log rlmm.Log) (events [][]byte, at map[string]int64) {
	t.Helper()
	b, err := log.Bounds(ctx, []int32{0})
	if err != nil {
		t.Fatal(err)
	}
	f := log.Follow(map[int32]rlmm.Position{0: {Epoch: -1}})
	defer func() { _ = f.Close() }()
	at = map[string]int64{}
	for int64(len(events)) < b[0].Next {
		batch, err := f.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range batch.Events {
			at[string(ev.Value)] = ev.Offset
			events = append(events, ev.Value)
		}
	}
	return events, at
}

// The check finds an answer that forgets an acknowledged write, one that goes back, and one that is from no prefix at all.
func TestPrefixes_TheCheckSeesWhatItLooksFor(t *testing.T) {
	tp := kafkaTopic(t, 0)
	var events [][]byte
	for n := range 3 {
		events = append(events, mustEncode(t, &rlmm.SegmentRecord{Metadata: prefixSegment(tp, n)}))
	}
	none := func(int) int64 { return 0 }
	list := func(text string) answer { return answer{question: "list", text: text, tp: tp, atMost: 3} }
	for name, tc := range map[string]struct {
		answers []answer
		acked   func(int) int64
		good    bool
	}{
		"in order":               {[]answer{list(""), list("0:0 "), list("0:0 1:0 2:0 ")}, none, true},
		"goes back":              {[]answer{list("0:0 1:0 "), list("0:0 ")}, none, false},
		"from no prefix":         {[]answer{list("1:0 ")}, none, false},
		"acknowledged forgotten": {[]answer{list("0:0 ")}, func(int) int64 { return 2 }, false},
		"from the future":        {[]answer{{question: "list", text: "0:0 1:0 2:0 ", tp: tp, atMost: 2}}, none, false},
	} {
		if err := checkPrefixes(events, tp, tc.answers, tc.acked); (err == nil) != tc.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
