package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/durable"
	"github.com/tierkit/tierkit/internal/testbed"
)

const serveToken = "0123456789abcdef-a-token"

// daemonSettings are what a broker's file needs for tierkit serve.
func daemonSettings(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(serveToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("rsm.config.tierkit.state.dir=%s\nrsm.config.tierkit.token.file=%s\nrsm.config.tierkit.listen=127.0.0.1:0\n", dir, file)
}

func minio(t *testing.T) string {
	srv := testbed.MinIO(t)
	return fmt.Sprintf(`rsm.config.storage.backend=s3
rsm.config.storage.s3.bucket.name=%s
rsm.config.storage.s3.endpoint.url=%s
rsm.config.storage.s3.region=us-east-1
rsm.config.storage.s3.path.style.access.enabled=true
rsm.config.storage.s3.multipart.upload.part.size=5242880
rsm.config.storage.aws.access.key.id=%s
rsm.config.storage.aws.secret.access.key=%s
`, srv.Bucket(t), srv.Endpoint, srv.AccessKey, srv.SecretKey)
}

// TestDoctor_OnRealServers: every check of a store that is well succeeds, and nothing is left there.
func TestDoctor_OnRealServers(t *testing.T) {
	all := stores()
	all["s3"] = minio
	for name, store := range all {
		t.Run(name, func(t *testing.T) {
			lines := store(t)
			config := configure(t, lines+daemonSettings(t))
			checks := 0
			for _, f := range command(t, cli.ExitOK, "doctor", "--config", config, "--json") {
				if f["result"] == "fail" || f["result"] == "warn" && strings.HasPrefix(fmt.Sprint(f["check"]), "store") {
					t.Errorf("%v", f)
				}
				if strings.HasPrefix(fmt.Sprint(f["check"]), "store") {
					checks++
				}
			}
			if checks != 8 {
				t.Errorf("%d checks of the store", checks)
			}
			if left := command(t, cli.ExitOK, "ls", "--config", config, "--json", "--from-store"); len(left) != 0 {
				t.Errorf("left in the store: %v", left)
			}
		})
	}
}

// TestDoctor_ADaemonThatThePluginStarts needs neither a token nor a port of its own; a broker's file that starts it is complete without them.
func TestDoctor_ADaemonThatThePluginStarts(t *testing.T) {
	lines := fmt.Sprintf("rsm.config.storage.backend=fs\nrsm.config.storage.root=%s\nrsm.config.tierkit.state.dir=%s\n", t.TempDir(), t.TempDir())
	plugin := "remote.log.storage.system.enable=true\nremote.log.metadata.manager.listener.name=PLAINTEXT\n" +
		"remote.log.storage.manager.class.name=io.github.tierkit.kafka.RemoteStorageManager\nrsm.config.tierkit.serve.command=" + os.Args[0] + "\n"
	for _, f := range command(t, cli.ExitOK, "doctor", "--config", configure(t, lines+plugin), "--json") {
		if what := fmt.Sprint(f["check"]); f["result"] == "fail" || strings.HasPrefix(what, "address") || strings.HasPrefix(what, "token") {
			t.Errorf("%v", f)
		}
	}
	for name, more := range map[string]string{
		"alone": "", "at a URL": "rsm.config.tierkit.serve.url=http://127.0.0.1:9480\nrsm.config.tierkit.serve.token.file=/etc/tierkit/token\n",
	} {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), []string{"doctor", "--config", configure(t, lines+more)}, registry(t), cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errs})
		if code != cli.ExitFailed || !strings.Contains(out.String(), "FAIL  settings: rsm.config.tierkit.token.file: is required") {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out.String(), errs.String())
		}
	}
}

func TestDoctor_SaysWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct{ old, new, check, do string }{
		"secret": {"secret.access.key=", "secret.access.key=wrong", "store", "credentials"},
		"scheme": {"endpoint.url=http:", "endpoint.url=https:", "store", "do this: check http:// against https://"},
		"bucket": {"bucket.name=", "bucket.name=no-such-", "store", "bucket"},
		"state":  {"tierkit.state.dir=", "tierkit.state.dir=" + os.Args[0] + "/below-a-file", "state directory", "tierkit.state.dir"},
		"token":  {"tierkit.token.file=", "tierkit.token.file=/none", "token", "tierkit.token.file"},
		"name":   {"tierkit.listen=", "tierkit.lisen=", "settings", "correct"},
		"public": {"tierkit.listen=127.0.0.1", "tierkit.listen=0.0.0.0", "settings", "correct"},
	} {
		t.Run(name, func(t *testing.T) {
			text := minio(t) + daemonSettings(t)
			if !strings.Contains(text, tc.old) {
				t.Fatalf("no %s in %s", tc.old, text)
			}
			config := configure(t, strings.Replace(text, tc.old, tc.new, 1))
			var out, errs bytes.Buffer
			code := cli.Run(t.Context(), []string{"doctor", "--config", config}, registry(t), cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errs})
			found := false
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, "FAIL") {
					found = strings.Contains(line, tc.check) && strings.Contains(line, tc.do)
				}
			}
			if code != cli.ExitFailed || !found || !strings.Contains(errs.String(), "failed") {
				t.Errorf("exit code %d\n%s%s", code, out.String(), errs.String())
			}
		})
	}
}

// supervised is a daemon as the plug-in starts it.
type supervised struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	log  *bytes.Buffer
	url  string
	line map[string]any // of a supervised one

	logDir string // of one that an operator started
}

// supervise starts one over a directory, and reads its line.
func supervise(t *testing.T, request string) *supervised {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--supervised")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	s := &supervised{cmd: cmd, log: new(bytes.Buffer)}
	cmd.Stderr = s.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if s.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := io.WriteString(s.in, request+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("no line: %v\n%s", err, s.log)
	}
	if err := json.Unmarshal(line, &s.line); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	s.url = fmt.Sprintf("http://127.0.0.1:%v", s.line["port"])
	return s
}

func superviseOver(t *testing.T, dir string) *supervised {
	t.Helper()
	request, err := json.Marshal(map[string]any{"protocol": 1, "token": serveToken, "brokerId": 7, "prefix": "rsm.config.", "settings": map[string]string{
		"storage.backend": "fs", "storage.root": dir, "tierkit.state.dir": filepath.Join(dir, ".state"), "broker.id": "7", "tierkit.serve.command": "x",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return supervise(t, string(request))
}

// A start waits for the daemon before it also where only the disk cache is still held, and doctor looks at everything else beside it.
func TestServe_WaitsForTheDiskCache(t *testing.T) {
	dir := t.TempDir()
	held := filepath.Join(dir, "tierkit-chunks")
	if err := os.Mkdir(held, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.Lock(held)
	if err != nil {
		t.Fatal(err)
	}
	cached := map[string]string{
		"fetch.chunk.cache.class": "io.aiven.kafka.tieredstorage.fetch.cache.DiskChunkCache", "fetch.chunk.cache.path": dir, "fetch.chunk.cache.size": "1000000",
	}
	lines := fmt.Sprintf("rsm.config.storage.backend=fs\nrsm.config.storage.root=%s\n", t.TempDir()) + daemonSettings(t)
	for k, v := range cached {
		lines += "rsm.config." + k + "=" + v + "\n"
	}
	found := false
	for _, f := range command(t, cli.ExitOK, "doctor", "--config", configure(t, lines), "--json") {
		found = found || strings.HasPrefix(fmt.Sprint(f["check"]), "disk cache") && f["result"] == "ok"
	}
	if !found {
		t.Error("doctor says nothing of the disk cache")
	}
	time.AfterFunc(time.Second, func() { _ = lock.Close() }) // the one before is still ending
	maps.Copy(cached, map[string]string{"storage.backend": "fs", "storage.root": dir, "tierkit.state.dir": filepath.Join(dir, ".state")})
	request, err := json.Marshal(map[string]any{"protocol": 1, "token": serveToken, "brokerId": 7, "settings": cached})
	if err != nil {
		t.Fatal(err)
	}
	if s := supervise(t, string(request)); s.line["port"] == nil {
		t.Errorf("it did not start: %v", s.line)
	}
}

func (s *supervised) ask(t *testing.T, path string) (status int, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+serveToken)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode, err
}

func TestServe_SupervisedLivesAsLongAsItsClient(t *testing.T) {
	s := superviseOver(t, t.TempDir())
	if s.line["protocol"] != 1.0 || s.line["version"] == "" || !strings.HasSuffix(fmt.Sprint(s.line["deletes"]), "/.state/broker-7/deletes") {
		t.Errorf("line %v", s.line)
	}
	if status, err := s.ask(t, "/v1/ready"); status != 200 || err != nil {
		t.Fatalf("ready: %d, %v", status, err)
	}
	// Ctrl-C and systemd signal the whole group, and more than once.
	for range 3 {
		for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
		if status, err := s.ask(t, "/metrics"); status != 200 || err != nil {
			t.Fatalf("after signals: %d, %v\n%s", status, err, s.log)
		}
	}
	if err := s.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("end: %v\n%s", err, s.log)
	}
}

func TestServe_SupervisedSaysWhyItDoesNotStart(t *testing.T) {
	good := map[string]any{"protocol": 1, "token": serveToken, "brokerId": 7, "settings": map[string]string{"storage.backend": "fs"}}
	with := func(key string, v any) string {
		q := map[string]any{}
		for k, v := range good {
			q[k] = v
		}
		q[key] = v
		data, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	logDir := t.TempDir()
	if err := os.WriteFile(filepath.Join(logDir, "meta.properties"), nil, 0o600); err != nil { // as a broker does
		t.Fatal(err)
	}
	inLogDir := map[string]string{"storage.backend": "fs", "storage.root": t.TempDir(), "tierkit.state.dir": filepath.Join(logDir, "tierkit")}
	for name, tc := range map[string]struct{ request, want string }{
		"log dir":  {with("settings", inLogDir), "a log directory of the broker"},
		"no JSON":  {"hello", "not the JSON"},
		"protocol": {with("protocol", 2), "protocol 2"},
		"token":    {with("token", "short"), "token"},
		"broker":   {with("brokerId", nil), "brokerId"},
		"settings": {with("settings", map[string]string{"storage.backend": "fs", "tierkit.stat.dir": "x"}), "did you mean tierkit.state.dir"},
		"store":    {with("settings", map[string]string{"storage.backend": "fs", "storage.root": "/none/there", "tierkit.state.dir": t.TempDir()}), "/none/there"},
	} {
		s := supervise(t, tc.request)
		if !strings.Contains(fmt.Sprint(s.line["error"]), tc.want) || s.line["protocol"] != 1.0 || s.line["retriable"] != false {
			t.Errorf("%s: %v", name, s.line)
		}
		if err := s.cmd.Wait(); s.cmd.ProcessState.ExitCode() != cli.ExitUsage {
			t.Errorf("%s: %v, want exit code 2\n%s", name, err, s.log)
		}
	}
}

// TestServe_SupervisedWarnsOfWhatMayPass: a broker comes up although the store refuses it for now, and its log says so.
func TestServe_SupervisedWarnsOfWhatMayPass(t *testing.T) {
	settings := map[string]string{"tierkit.state.dir": t.TempDir(), "custom.metadata.fields.include": "REMOTE_SIZE,OBJECT_PREFIX,OBJECT_KEY"}
	for line := range strings.Lines(minio(t)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		settings[strings.TrimPrefix(key, "rsm.config.")] = value
	}
	settings["storage.aws.secret.access.key"] = "wrong"
	request, err := json.Marshal(map[string]any{"protocol": 1, "token": serveToken, "brokerId": 7, "settings": settings})
	if err != nil {
		t.Fatal(err)
	}
	s := supervise(t, string(request))
	said := fmt.Sprint(s.line["warnings"])
	if !strings.Contains(said, "not usable yet") || !strings.Contains(said, "not authenticated") || !strings.Contains(said, "characters do not fit") {
		t.Errorf("line %v", s.line)
	}
	if status, err := s.ask(t, "/v1/ready"); status != 503 || err != nil {
		t.Errorf("ready: %d, %v", status, err)
	}
	if status, err := s.ask(t, "/v1/health"); status != 200 || err != nil {
		t.Errorf("health: %d, %v", status, err)
	}
}

// TestServe_ClientsThatLeaveEndNothing: a write to a connection that was reset before raises the signal of a broken pipe.
func TestServe_ClientsThatLeaveEndNothing(t *testing.T) {
	s := standalone(t)
	segment := s.copied(t, 32<<20)
	for range 10 {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"segment":%s,"start":0}`, segment)
		if _, err := fmt.Fprintf(conn, "POST /v1/fetch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
			serveToken, len(body), body); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1<<20)); err != nil { // the stream is on its way
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if status, err := s.ask(t, "/v1/ready"); status != 200 || err != nil {
		t.Fatalf("%d, %v\n%s", status, err, s.log)
	}
}

// copied has the daemon copy a segment of so many bytes and returns its metadata.
func (s *supervised) copied(t *testing.T, size int) string {
	t.Helper()
	dir := filepath.Join(s.logDir, "orders-0")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]any{}
	for field, suffix := range map[string]string{"log": ".log", "offsetIndex": ".index", "timeIndex": ".timeindex", "producerSnapshot": ".snapshot"} {
		content := []byte{}
		if field == "log" {
			content = make([]byte, size)
		}
		path := filepath.Join(dir, "00000000000000000000"+suffix)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		st := fi.Sys().(*syscall.Stat_t)
		files[field] = map[string]any{"path": path, "device": st.Dev, "inode": st.Ino, "size": len(content)}
	}
	segment := fmt.Sprintf(`{"topic":"orders","topicId":"9MjOTkKsRbyFvRj4vGgJqA","partition":0,"segmentId":"OgmDcRnbTQ-1CGKr6dAAjw","startOffset":0,`+
		`"endOffset":41,"maxTimestampMs":1,"brokerId":7,"eventTimestampMs":1,"segmentSizeInBytes":%d,"state":"COPY_SEGMENT_STARTED","segmentLeaderEpochs":{"0":0}}`, size)
	body, err := json.Marshal(map[string]any{"segment": json.RawMessage(segment), "leaderEpochs": "MAoxCjAgMAo=", "files": files})
	if err != nil {
		t.Fatal(err)
	}
	for state := ""; state != "done"; {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/copies", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+serveToken)
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var a struct{ State string }
		err = json.NewDecoder(resp.Body).Decode(&a)
		_ = resp.Body.Close()
		if state = a.State; err != nil || state != "done" && state != "running" {
			t.Fatalf("copy: %s, %v", state, err)
		}
	}
	return segment
}

// standalone starts a daemon as an operator does.
func standalone(t *testing.T) *supervised {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf("node.id=1\nlog.dirs=%s\nrsm.config.storage.backend=fs\nrsm.config.storage.root=%s\n%s", dir, dir, daemonSettings(t))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--config", config)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	s := &supervised{cmd: cmd, log: new(bytes.Buffer), logDir: dir}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(log)
	for s.url == "" && sc.Scan() {
		if _, at, ok := strings.Cut(sc.Text(), "address="); ok {
			s.url = "http://" + strings.Fields(at)[0]
		}
		fmt.Fprintln(s.log, sc.Text())
	}
	rest := make(chan struct{})
	go func() {
		defer close(rest)
		_, _ = io.Copy(io.Discard, log)
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-rest; _ = cmd.Wait() })
	if s.url == "" {
		t.Fatalf("it does not start:\n%s", s.log)
	}
	return s
}

// TestServe_AStoreThatRefusesTheDaemonKeepsItFromStarting: it says what is missing, and leaves the lock and nothing else.
func TestServe_AStoreThatRefusesTheDaemonKeepsItFromStarting(t *testing.T) {
	text := minio(t) + daemonSettings(t)
	for old, want := range map[string]string{"secret.access.key=": "credentials", "bucket.name=": "bucket"} {
		config := configure(t, strings.Replace(text, old, old+"wrong", 1))
		said := fmt.Sprint(command(t, cli.ExitFailed, "serve", "--config", config)[0]["error"])
		if !strings.Contains(said, want) || !strings.Contains(said, "the store cannot be used") {
			t.Errorf("%s: %s", old, said)
		}
	}
	for old, want := range map[string]string{
		"tierkit.state.dir=": "tierkit.state.dir", "tierkit.token.file=": "tierkit.token.file", "tierkit.listen=127.0.0.1": "tierkit.listen", "node.id=1": "node.id",
	} {
		config := configure(t, text)
		data, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(data), old, "a.line.of.somebody=", 1)
		if old == "tierkit.listen=127.0.0.1" {
			changed = strings.Replace(string(data), old, "tierkit.listen=0.0.0.0", 1)
		}
		if err := os.WriteFile(config, []byte(strings.ReplaceAll(changed, "rsm.config.a.line", "a.line")), 0o600); err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprint(command(t, cli.ExitUsage, "serve", "--config", config)[0]["error"]); !strings.Contains(said, want) {
			t.Errorf("without %s: %s", old, said)
		}
	}
}

func TestServe_StandaloneEndsOnASignal(t *testing.T) {
	s := standalone(t)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("end: %v, want exit code 0", err)
	}
}
