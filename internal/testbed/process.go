package testbed

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tierkit/tierkit/internal/need"
)

// A server has readyWithin to start, on a machine that does much else, and is started anew if it does not: another process may have taken one of
// its ports in between.
const (
	readyWithin = 2 * time.Minute
	maxStarts   = 3
)

// process is a server that runs. A shell stands between it and us: it waits on a pipe of ours, so that the server ends with this process, however
// that ends.
type process struct {
	cmd   *exec.Cmd
	alive *os.File // closing it ends the shell and the server
	dir   string
	log   string
	last  []byte   // the end of its log, once that is removed
	sheds []string // patterns of what it leaves outside of dir when it is killed
}

// What comes through the pipe is its end, or a line that asks for an orderly end, which the end of the pipe may still cut short.
const guard = `exec 3<&0
"$@" </dev/null 3<&- & server=$!
if read -r _; then
	kill $server
	{ read -r _; kill -9 $server; } <&3 & cutter=$!
	wait $server
	kill $cutter
else
	kill -9 $server
	wait $server
fi 2>/dev/null`

// program finds an installed program.
func program(t testing.TB, set, version, name string) string {
	t.Helper()
	path := filepath.Join(need.CacheDir(t), set, version, name)
	if _, err := os.Stat(path); err != nil {
		need.Missing(t, set, "run scripts/tools.sh "+set)
	}
	return path
}

// start runs a program in a fresh directory until stop.
func start(dir string, env []string, argv ...string) (*process, error) {
	p := &process{dir: dir, log: filepath.Join(dir, "server.log")}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p.alive = w
	p.cmd = exec.CommandContext(context.Background(), "/bin/sh", append([]string{"-c", guard, "sh"}, argv...)...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = r, out, out, dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}, env...)
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return p, nil
}

// ready waits until url answers with 200.
func (p *process) ready(ctx context.Context, url string) error {
	return p.answers(ctx, url, func(status int) bool { return status == http.StatusOK })
}

// answers waits until url answers with a status that will do.
func (p *process) answers(ctx context.Context, url string, good func(status int) bool) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if good(resp.StatusCode) {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("no answer from %s: %w; it said:\n%s", url, context.Cause(ctx), p.tail())
		}
	}
}

// tail is the end of what it has said, also after it was stopped.
func (p *process) tail() []byte {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return p.last
	}
	if len(b) > 4096 {
		b = b[len(b)-4096:]
	}
	return bytes.TrimSpace(b)
}

func (p *process) stop() {
	_ = p.alive.Close()
	_ = p.cmd.Wait() // it is killed
	p.last = p.tail()
	_ = os.RemoveAll(p.dir)
	for _, pattern := range p.sheds {
		left, _ := filepath.Glob(pattern)
		for _, path := range left {
			_ = os.Remove(path)
		}
	}
}

// terminate ends the server with SIGTERM and waits for it; one that takes longer is killed, which is an error. It is none once excused is closed: the
// server has the time left then.
func (p *process) terminate(within time.Duration, excused <-chan struct{}, left time.Duration) error {
	if _, err := p.alive.WriteString("end\n"); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // whatever it is: it has ended
		close(ended)
	}()
	err := fmt.Errorf("it does not end within %v of SIGTERM", within)
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-excused:
			excused, err = nil, nil
			timer.Reset(left)
		case <-timer.C:
			_ = p.alive.Close()
			<-ended
			return err
		}
	}
}

// shared is the servers of this test binary.
type shared struct {
	mu      sync.Mutex
	servers map[string]*entry
}

type entry struct {
	once   sync.Once
	server any // of the type that its name has
	proc   *process
	err    error
}

var all shared

// get starts the server of that name once.
func get[S any](t testing.TB, s *shared, name string, run func(dir string) (*S, *process, error)) *S {
	t.Helper()
	s.mu.Lock()
	if s.servers == nil {
		s.servers = make(map[string]*entry)
	}
	e := s.servers[name]
	if e == nil {
		e = new(entry)
		s.servers[name] = e
	}
	s.mu.Unlock()
	e.once.Do(func() {
		for try := 1; try == 1 || e.err != nil && try <= maxStarts && t.Context().Err() == nil; try++ {
			e.start(name, func(dir string) (any, *process, error) { return run(dir) })
		}
	})
	if e.err != nil {
		t.Fatalf("start %s: %v", name, e.err)
	}
	server, ok := e.server.(*S)
	if !ok {
		t.Fatalf("the server %s is a %T", name, e.server)
	}
	return server
}

func (e *entry) start(name string, run func(dir string) (any, *process, error)) {
	var dir string
	if dir, e.err = os.MkdirTemp("", "tierkit-"+name+"-"); e.err != nil {
		return
	}
	if e.server, e.proc, e.err = run(dir); e.err != nil && e.proc != nil {
		e.proc.stop()
		e.proc = nil
	}
}

// Stop stops every server.
func Stop() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, e := range all.servers {
		if e.proc != nil {
			e.proc.stop()
		}
	}
	all.servers = nil
}

// Exit is Stop and os.Exit, for goleak.Cleanup.
func Exit(code int) {
	Stop()
	os.Exit(code) //nolint:revive // the end of TestMain
}
