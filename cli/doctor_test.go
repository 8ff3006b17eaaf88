package cli_test

import (
	"errors"
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

// broker is a broker's file with the plug-in, and more lines behind it; a line replaces one of the same key before it.
func broker(t *testing.T, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	jar, store := filepath.Join(dir, "lib", "plugin.jar"), filepath.Join(dir, "store")
	if err := errors.Join(os.Mkdir(filepath.Dir(jar), 0o700), os.Mkdir(store, 0o700), os.WriteFile(jar, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	lines := append([]string{
		"node.id=1", "listeners=IN://:9092", "remote.log.storage.system.enable= TRUE", "remote.log.metadata.manager.listener.name=IN",
		"remote.log.storage.manager.class.name=io.github.tierkit.kafka.RemoteStorageManager", "remote.log.storage.manager.class.path=/none:" + filepath.Dir(jar) + "/*",
		"rsm.config.tierkit.serve.command=/bin/sh", "rsm.config.tierkit.state.dir=" + filepath.Join(dir, "state"), "rsm.config.memory.budget.bytes=600000000",
		"rsm.config.storage.backend=fs", "rsm.config.storage.root=" + store,
	}, more...)
	file := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDoctor_LooksAtThePluginsLines(t *testing.T) {
	said := must(t, "doctor", "--config", broker(t)).out
	for _, key := range []string{"storage.system.enable", "storage.manager.class.name", "storage.manager.class.path", "metadata.manager.listener.name"} {
		if !strings.Contains(said, "ok    remote.log."+key+"\n") {
			t.Errorf("%s is well:\n%s", key, said)
		}
	}
	for _, tc := range []struct{ line, want, write string }{
		{"remote.log.storage.system.enable=false", "FAIL", "=true"},
		{"remote.log.storage.system.enable=", "FAIL", "=true"},
		{"remote.log.storage.manager.class.name=io.aiven.kafka.tieredstorage.RemoteStorageManager", "FAIL", "=io.github.tierkit.kafka.RemoteStorageManager"},
		{"remote.log.storage.manager.class.path=/none/*:/none/tierkit.jar", "FAIL", "tierkit-kafka-plugin.jar"},
		{"remote.log.storage.manager.class.path=", "warn", "tierkit-kafka-plugin.jar"},
		{"remote.log.metadata.manager.listener.name=", "FAIL", "=IN,"},
		{"remote.log.metadata.manager.listener.name=PLAIN", "FAIL", "=IN,"},
	} {
		r := run(t, "doctor", "--config", broker(t, tc.line))
		key, _, _ := strings.Cut(tc.line, "=")
		found := false
		for line := range strings.Lines(r.out) {
			found = found || strings.HasPrefix(line, tc.want+"  "+key+": is ") && strings.Contains(line, "do this: write "+key) && strings.Contains(line, tc.write)
		}
		if !found || (r.code == cli.ExitOK) != (tc.want == "warn") {
			t.Errorf("%s: exit code %d\n%s", tc.line, r.code, r.out)
		}
	}
	if b := newBed(t, []string{"node.id=1"}); strings.Contains(fails(t, cli.ExitFailed, nil, "doctor", "--config", b.config).out, "remote.log") {
		t.Error("the file is no broker's")
	}
}

func TestDoctor_ConfigProviders(t *testing.T) {
	const value = "rsm.config.key.prefix=${env:PREFIX}"
	if said := must(t, "doctor", "--config", broker(t, value)).out; !strings.Contains(said, "warn  settings: rsm.config.key.prefix begins with ${") {
		t.Errorf("nothing replaces it:\n%s", said)
	}
	r := fails(t, cli.ExitFailed, nil, "doctor", "--config", broker(t, value, "config.providers=env"))
	if strings.Contains(r.err, "cannot run") || !strings.Contains(r.err, "config.providers") {
		t.Errorf("the broker replaces it: %s", r.err)
	}
}

func TestDoctor_SaysWhoStartsTheDaemon(t *testing.T) {
	r := fails(t, cli.ExitFailed, nil, "doctor", "--config", broker(t, "rsm.config.tierkit.serve.command="))
	if !strings.Contains(r.out, "tierkit.token.file: is required for a daemon that you start") || !strings.Contains(r.out, "or set rsm.config.tierkit.serve.command") {
		t.Errorf("%s", r.out)
	}
	for _, command := range []string{"doctor", "serve"} {
		if r := fails(t, cli.ExitUsage, nil, command); !strings.Contains(r.err, "tierkit.state.dir") {
			t.Errorf("%s without a file: %s", command, r.err)
		}
	}
}
