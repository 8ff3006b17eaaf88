package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/cli"
)

// Doctor may be run by root before the broker's first start: what it made would be root's, and the broker could not start.
func TestDoctor_MakesNoDirectoryOfTheDaemons(t *testing.T) {
	cache := t.TempDir()
	b := newBed(t, nil)
	state := filepath.Join(b.dir, "state")
	own := []string{
		"node.id=1", "tierkit.state.dir=" + state, "tierkit.listen=127.0.0.1:0", "fetch.chunk.cache.class=io.aiven.kafka.tieredstorage.fetch.cache.DiskChunkCache", "fetch.chunk.cache.path=" + cache,
		"fetch.chunk.cache.size=100000000", "memory.budget.bytes=600000000",
	}
	b.configure(t, append(own, "tierkit.serve.command=/bin/sh")...)
	said := must(t, "doctor", "--config", b.config).out
	for _, want := range []string{"state directory", "disk cache", "command of the plug-in"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing about %q:\n%s", want, said)
		}
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the state directory: %v, want that it is not there", err)
	}
	if in, err := os.ReadDir(cache); err != nil || len(in) != 0 {
		t.Errorf("the directory of the cache has %v, %v", in, err)
	}
	b.configure(t, append(own, "tierkit.serve.command=/opt/none/tierkit")...)
	if r := fails(t, cli.ExitFailed, nil, "doctor", "--config", b.config); !strings.Contains(r.out, "/opt/none/tierkit") {
		t.Errorf("a program that is not there:\n%s", r.out)
	}
}

// A broker whose log directory has a directory of ours in it does not start again.
func TestDoctorAndServe_RefuseDirectoriesInsideTheBrokers(t *testing.T) {
	b := newBed(t, nil)
	state, cache := "tierkit.state.dir="+filepath.Join(b.dir, "state"), "fetch.chunk.cache.path="+b.logs
	if err := os.Mkdir(b.logs, 0o700); err != nil {
		t.Fatal(err)
	}
	own := []string{
		"node.id=1", "log.dirs=" + b.logs, "tierkit.listen=127.0.0.1:0", "tierkit.token.file=/etc/token", "memory.budget.bytes=600000000",
		"fetch.chunk.cache.class=io.aiven.kafka.tieredstorage.fetch.cache.DiskChunkCache", "fetch.chunk.cache.size=100000000",
	}
	for _, tc := range []struct{ setting, state, cache string }{
		{"tierkit.state.dir", "tierkit.state.dir=" + filepath.Join(b.logs, "tierkit"), "fetch.chunk.cache.path=" + b.dir},
		{"fetch.chunk.cache.path", state, cache},
	} {
		b.configure(t, append(own, tc.state, tc.cache)...)
		if r := fails(t, cli.ExitUsage, nil, "serve", "--config", b.config); !strings.Contains(r.err, tc.setting+": would be inside "+b.logs) {
			t.Errorf("serve: %s", r.err)
		}
		if r := fails(t, cli.ExitFailed, nil, "doctor", "--config", b.config); !strings.Contains(r.out, "FAIL  settings: "+tc.setting+": would be inside "+b.logs) {
			t.Errorf("doctor: %s", r.out)
		}
	}
	if in, err := os.ReadDir(b.logs); err != nil || len(in) != 0 {
		t.Errorf("the log directory has %v, %v", in, err)
	}
}
