package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/fs"
	"github.com/tierkit/tierkit/internal/segmentjson"
	"github.com/tierkit/tierkit/remotelog"
	"github.com/tierkit/tierkit/rsm"
)

// childEnv makes the test binary a process that can be killed: one of children and its directory.
const childEnv = "TIERKIT_TEST_SERVE_CHILD"

// children are what such a process does.
var children = map[string]func(dir string) error{"journal": journalChild, "serve": serveChild, "order": orderChild, "work": workChild}

func child(what string) int {
	kind, dir, _ := strings.Cut(what, " ")
	var err error
	if f := children[kind]; f != nil {
		err = f(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
	}
	return 1
}

// journalChild journals one delete after the other and says which are on disk.
func journalChild(dir string) error {
	j := newJournal(&journal{dir: dir, now: time.Now})
	for {
		md := someMetadata()
		if err := j.put(&md); err != nil {
			return err
		}
		fmt.Println(md.ID)
	}
}

// serveChild serves over a directory and says where.
func serveChild(dir string) error {
	m, err := fsManager(filepath.Join(dir, "store"))
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := Open(ctx, Options{Segments: m, Token: token, StateDir: filepath.Join(dir, "state"), BrokerID: 1, DeriveLogDirs: true})
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return s.Serve(ctx, Listeners{API: l})
}

// fsManager is a real one over a directory.
func fsManager(root string) (*rsm.Manager, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	var reg backends.Registry
	if err := reg.Register(fs.Factory()); err != nil {
		return nil, err
	}
	return rsm.Open(context.Background(), rsm.OpenOptions{Registry: &reg, Props: map[string]string{
		"storage.backend": "fs", "storage.root": root, "chunk.size": "65536", "upload.rate.limit.bytes.per.second": "20000000",
	}})
}

func someMetadata() remotelog.SegmentMetadata {
	md := remotelog.SegmentMetadata{EndOffset: 41, LeaderEpochs: []remotelog.LeaderEpoch{{}}, SizeBytes: 100}
	md.Topic, md.TopicID, md.ID = "orders", remotelog.NewUUID(), remotelog.NewUUID()
	return md
}

// process is a child that is killed at the end of the test.
type process struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func spawn(t *testing.T, what string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, bufio.NewReader(out)}
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, p.out)
	_ = p.cmd.Wait()
	p.cmd = nil
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	text, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the child ended: %v", err)
	}
	return strings.TrimSpace(text)
}

func TestJournal_AKillLosesNoOrderAndLeavesNoHalfOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deletes")
	var said []string
	for round := range 5 {
		p := spawn(t, "journal "+dir)
		for range 20 + 7*round {
			said = append(said, p.line(t))
		}
		_ = p.cmd.Process.Kill()
		rest, _ := io.ReadAll(p.out)
		whole := rest[:strings.LastIndex(string(rest), "\n")+1]
		said = append(said, strings.Fields(string(whole))...)
		p.kill()
	}
	for _, id := range said {
		o, err := openOrder(filepath.Join(dir, id+journalSuffix))
		if err != nil || o.md.ID.String() != id {
			t.Errorf("order %s, which was said to be on disk: %v", id, err)
			continue
		}
		o.close()
	}
	// The next process works all of them off, those too that nobody was told of.
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	deleted := make(chan remotelog.UUID, len(list))
	ctx, cancel := context.WithCancel(t.Context())
	j := newJournal(&journal{dir: dir, what: "delete", log: logger(t), now: time.Now, work: func(_ context.Context, md remotelog.SegmentMetadata) error {
		deleted <- md.ID
		return nil
	}})
	done := make(chan struct{})
	go func() { j.run(ctx); close(done) }()
	orders := 0
	for _, e := range list {
		if strings.HasSuffix(e.Name(), journalSuffix) {
			orders++
		}
	}
	got := map[string]bool{}
	for range orders {
		got[(<-deleted).String()] = true
	}
	for j.stats().Orders > 0 {
		runtimeYield()
	}
	cancel()
	<-done
	if len(got) != orders || orders < len(said) || j.stats().Bad != 0 {
		t.Errorf("%d orders of %d worked off, %d said, %d bad", len(got), orders, len(said), j.stats().Bad)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "[^.]*.json*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A daemon is killed while it copies, again and again. What the last one finds is removed, but for the segments that are whole.
func TestCopy_AKillLeavesNothingButWholeSegments(t *testing.T) {
	dir := t.TempDir()
	src := rand.New(rand.NewPCG(1, 2))
	whole := map[string]bool{} // of which "done" was heard
	var all []*stored
	interrupted := 0
	for round := range 6 {
		p := spawn(t, "serve "+dir)
		url := p.line(t)
		c := client(t, nil)
		var segs []*stored
		for range 3 {
			seg := newSegment(t, "orders", 2_000_000)
			segs = append(segs, seg)
			if _, err := send(t, c, "POST", url+"/v1/copies", seg.body); err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 { // one round goes to its end
			for _, seg := range segs {
				whole[seg.md.ID.String()] = heardDone(t, url, seg)
			}
		} else {
			timer := time.NewTimer(time.Duration(src.IntN(200)) * time.Millisecond)
			<-timer.C
		}
		p.kill()
		all = append(all, segs...)
		if n, err := filepath.Glob(filepath.Join(dir, "state/broker-1/copies/*.json")); err == nil {
			interrupted = max(interrupted, len(n))
		}
	}
	if interrupted == 0 {
		t.Error("no kill met a copy: the test shows nothing")
	}
	m, err := fsManager(filepath.Join(dir, "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	s := open(t, m, func(o *Options) { o.StateDir, o.orphanGrace = filepath.Join(dir, "state"), time.Millisecond })
	for {
		left, err := filepath.Glob(filepath.Join(dir, "state/broker-1/copies/*.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			break
		}
		runtimeYield()
	}
	objects := map[string]int{}
	err = filepath.WalkDir(filepath.Join(dir, "store"), func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			base := filepath.Base(path)
			objects[strings.TrimSuffix(base, filepath.Ext(base))]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range objects {
		if n != 3 {
			t.Errorf("%s has %d objects, want 3", name, n)
		}
	}
	for _, seg := range all {
		seg.md.State = remotelog.CopySegmentFinished
		w := ask(t, s, "POST", "/v1/fetch", seg.fetch(0, seg.md.SizeBytes-1))
		if whole[seg.md.ID.String()] && w.Body.String() != string(seg.log) {
			t.Errorf("segment %s, which was copied: %d, %d bytes", seg.md.ID, w.Code, w.Body.Len())
		}
		if w.Code != 200 && w.Code != 404 {
			t.Errorf("segment %s is neither whole nor gone: %d %s", seg.md.ID, w.Code, w.Body)
		}
	}
}

func heardDone(t *testing.T, url string, seg *stored) bool {
	t.Helper()
	for {
		got, err := send(t, client(t, nil), "GET", url+seg.path()+"?waitMs=400", nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(got.body), "running") {
			continue
		}
		if !strings.Contains(string(got.body), `"done"`) {
			t.Fatalf("copy: %s", got.body)
		}
		return true
	}
}

func TestJournal_WhereItCannotBeWrittenTheDeleteIsDoneBeforeTheAnswer(t *testing.T) {
	deleted := 0
	var fails error
	s := open(t, &fake{delete: func(context.Context, remotelog.SegmentMetadata) error { deleted++; return fails }})
	ask(t, s, "GET", "/v1/ready", nil)
	if err := os.RemoveAll(s.state.deletes); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.state.deletes, nil, 0o600); err != nil { // no directory any more
		t.Fatal(err)
	}
	q := map[string]any{"segment": someSegment(10).wire(), "journal": true}
	if got := stateIn(t, ask(t, s, "POST", "/v1/delete", q)); got != "done" || deleted != 1 {
		t.Errorf("%s after %d deletes", got, deleted)
	}
	if w := ask(t, s, "GET", "/v1/ready", nil); w.Code != 503 || !strings.Contains(w.Body.String(), "state directory") {
		t.Errorf("ready: %d %s", w.Code, w.Body)
	}
	fails = fmt.Errorf("store: %w", remotelog.ErrCorrupt)
	want(t, ask(t, s, "POST", "/v1/delete", q), 500, KindCorrupt)
	// Nor is a full disk a reason not to copy.
	if err := os.RemoveAll(s.state.copies); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.state.copies, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	seg := newSegment(t, "orders", 10)
	ask(t, s, "POST", "/v1/copies", seg.body)
	if got := finish(t, s, seg); got["state"] != "done" {
		t.Errorf("copy: %v", got)
	}
	for _, dir := range []string{s.state.deletes, s.state.copies} {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	fails = nil
	if got := stateIn(t, ask(t, s, "POST", "/v1/delete", q)); got != "journaled" { // the directory is made anew
		t.Errorf("state %s", got)
	}
}

func TestJournal_FilesOfOthersAreWorkedOffOrSetAside(t *testing.T) {
	deleted := make(chan remotelog.UUID, 10)
	s := open(t, &fake{delete: func(_ context.Context, md remotelog.SegmentMetadata) error { deleted <- md.ID; return nil }})
	md := someMetadata()
	seg, err := json.Marshal(segmentjson.Of(&md))
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(s.state.deletes, name) }
	bad := remotelog.NewUUID().String() + ".json"
	other := remotelog.NewUUID().String() + ".json"
	misnamed := remotelog.UUID{15: 1}.String()[:21] + "B.json" // 4 bits too many
	for name, text := range map[string]string{
		md.ID.String() + ".json": fmt.Sprintf("{ \"version\" : 1,\n \"segment\": %s, \"more\": [] }", seg),
		bad:                      `{"version":1,"segment":{`,
		other:                    fmt.Sprintf(`{"version":1,"segment":%s}`, seg), // of another segment than its name says
		misnamed:                 fmt.Sprintf(`{"version":1,"segment":%s}`, seg),
		".x.1.tmp":               "half", "notes.txt": "somebody's",
	} {
		// As the API demands: what is written in place may be read, and set aside, before it is whole.
		whole := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(whole, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(whole, path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path(remotelog.NewUUID().String()+".json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if id := <-deleted; id != md.ID {
		t.Errorf("deleted %s, want %s", id, md.ID)
	}
	for s.Stats().DeletesBad < 4 || s.Stats().DeletesJournaled > 0 {
		runtimeYield()
	}
	for _, name := range []string{bad + ".bad", other + ".bad", misnamed + ".bad", ".x.1.tmp", "notes.txt"} {
		if _, err := os.Stat(path(name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path(md.ID.String() + ".json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an order that is done: %v", err)
	}
}

func TestState_OneDaemonForEachBroker(t *testing.T) {
	s := open(t, &fake{})
	base := s.o.StateDir
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Options{Segments: &fake{}, Token: token, StateDir: base, BrokerID: 1}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("a second daemon: %v, want an error that names the first", err)
	}
	other, err := Open(t.Context(), Options{Segments: &fake{}, Token: token, StateDir: base, BrokerID: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.state.spool, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The first one ends while the next one waits.
	time.AfterFunc(200*time.Millisecond, func() { _ = s.Close() })
	next, err := Open(t.Context(), Options{Segments: &fake{}, Token: token, StateDir: base, BrokerID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(next.state.spool); err != nil || len(left) != 0 {
		t.Errorf("spool: %v, %v", left, err)
	}
	if err := errors.Join(other.Close(), next.Close()); err != nil {
		t.Error(err)
	}
}

// runtimeYield lets others go on while a test waits for what has no event.
func runtimeYield() { <-time.NewTimer(time.Millisecond).C }
