package serve

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tierkit/tierkit/remotelog"
)

// spec makes what a client sends of a description.
func spec(t *testing.T, path string, kind fileKind) *fileSpec {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if target, err := os.Stat(path); err == nil {
		fi = target // what a client sees
	}
	st := fi.Sys().(*syscall.Stat_t)
	size := fi.Size()
	return &fileSpec{Path: path, Device: bits(st.Dev), Inode: bits(st.Ino), Size: &size, kind: kind} //nolint:unconvert // of another size on darwin
}

func TestLogDirs_OpenTheFilesOfThePartitionAndNoOther(t *testing.T) {
	base := t.TempDir()
	logs, secret := filepath.Join(base, "logs"), filepath.Join(base, "secret.log")
	part := filepath.Join(logs, "orders-0")
	for _, dir := range []string{part, filepath.Join(logs, "orders-1"), filepath.Join(logs, "deep", "orders-0"), filepath.Join(base, "other", "orders-0")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"00.log", "00.index", "leader-epoch-checkpoint"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("bytes"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		filepath.Join(part, "out.log"): secret, filepath.Join(part, "in.log"): "00.log", filepath.Join(base, "linked"): logs,
		filepath.Join(logs, "evil-0"): base,
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(part, "pipe.log"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(part, "dir.log"), 0o700); err != nil {
		t.Fatal(err)
	}
	change := func(path string, f func(*fileSpec)) *fileSpec {
		s := spec(t, path, fileLog)
		f(s)
		return s
	}
	log := filepath.Join(part, "00.log")
	six := int64(6)
	for name, tc := range map[string]struct {
		spec  *fileSpec
		topic string
		ok    bool
	}{
		"the log":                     {spec: spec(t, log, fileLog), ok: true},
		"an index":                    {spec: spec(t, filepath.Join(part, "00.index"), fileOffsetIndex), ok: true},
		"a link inside":               {spec: spec(t, filepath.Join(part, "in.log"), fileLog), ok: true},
		"through a link of log.dirs":  {spec: spec(t, filepath.Join(base, "linked", "orders-0", "00.log"), fileLog), ok: true},
		"a link that leads out":       {spec: spec(t, filepath.Join(part, "out.log"), fileLog)},
		"a directory that leads out":  {spec: spec(t, filepath.Join(logs, "evil-0", "secret.log"), fileLog), topic: "evil"},
		"another kind":                {spec: spec(t, log, fileOffsetIndex)},
		"a file that is no segment's": {spec: spec(t, filepath.Join(part, "leader-epoch-checkpoint"), fileLog)},
		"another partition":           {spec: spec(t, filepath.Join(logs, "orders-1", "00.log"), fileLog)},
		"another directory":           {spec: spec(t, filepath.Join(base, "other", "orders-0", "00.log"), fileLog)},
		"deeper":                      {spec: spec(t, filepath.Join(logs, "deep", "orders-0", "00.log"), fileLog)},
		"a pipe":                      {spec: spec(t, filepath.Join(part, "pipe.log"), fileLog)},
		"a directory":                 {spec: spec(t, filepath.Join(part, "dir.log"), fileLog)},
		"another inode":               {spec: change(log, func(s *fileSpec) { s.Inode++ })},
		"another device":              {spec: change(log, func(s *fileSpec) { s.Device++ })},
		"another size":                {spec: change(log, func(s *fileSpec) { s.Size = &six })},
		"not known to the client":     {spec: change(log, func(s *fileSpec) { s.Device, s.Inode = 0, 0 })},
		"relative":                    {spec: change(log, func(s *fileSpec) { s.Path = "orders-0/00.log" })},
		"not clean":                   {spec: change(log, func(s *fileSpec) { s.Path = part + "/../orders-0/00.log" })},
		"gone":                        {spec: change(log, func(s *fileSpec) { s.Path = filepath.Join(part, "01.log") })},
	} {
		topic := "orders"
		if tc.topic != "" {
			topic = tc.topic
		}
		dirs := logDirs{dirs: []string{logs, filepath.Join(base, "linked")}}
		h, err := dirs.open(tc.spec, remotelog.TopicIDPartition{Topic: topic})
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v, want it opened: %v", name, err, tc.ok)
		}
		if h != nil {
			r, n, err := h.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if string(got) != "bytes" || n != 5 || err != nil {
				t.Errorf("%s: %q, %d, %v", name, got, n, err)
			}
			_ = h.close()
		}
	}
	// Of a client that started the daemon the paths themselves show the directory, with the same rules below it.
	dirs := logDirs{derive: true}
	if h, err := dirs.open(spec(t, filepath.Join(base, "other", "orders-0", "00.log"), fileLog), remotelog.TopicIDPartition{Topic: "orders"}); err != nil {
		t.Error(err)
	} else {
		_ = h.close()
	}
	if _, err := dirs.open(spec(t, filepath.Join(part, "out.log"), fileLog), remotelog.TopicIDPartition{Topic: "orders"}); err == nil || strings.Contains(err.Error(), "another file") {
		t.Errorf("a link that leads out: %v", err)
	}
}

// The files of a copy are renamed and deleted by the broker while it runs.
func TestCopy_FilesMayGoWhileItRuns(t *testing.T) {
	letGo, got := make(chan struct{}), make(chan string, 1)
	s := open(t, &fake{copy: func(ctx context.Context, _ remotelog.SegmentMetadata, data remotelog.SegmentData) (remotelog.CustomMetadata, error) {
		<-letGo
		r, _, err := data.Log.Open(ctx)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(r)
		got <- string(text)
		return nil, err
	}})
	seg := newSegment(t, "orders", 1000)
	ask(t, s, "POST", "/v1/copies", seg.body)
	if err := os.RemoveAll(seg.dir); err != nil {
		t.Fatal(err)
	}
	close(letGo)
	if text := <-got; text != string(seg.log) {
		t.Errorf("%d bytes, want the log's %d", len(text), len(seg.log))
	}
	finish(t, s, seg)
}

func TestBits_AreSignedUnsignedOrUnknown(t *testing.T) {
	for text, want := range map[string]bits{"0": 0, "null": 0, "-1": 1<<64 - 1, "18446744073709551615": 1<<64 - 1, "131": 131} {
		var b bits
		if err := json.Unmarshal([]byte(text), &b); err != nil || b != want {
			t.Errorf("%s: %d, %v, want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"1.5", `"1"`, "18446744073709551616", "true"} {
		if err := json.Unmarshal([]byte(text), new(bits)); kindOf(err) != KindInvalidArgument {
			t.Errorf("%s: %v, want an invalid argument", text, err)
		}
	}
}
