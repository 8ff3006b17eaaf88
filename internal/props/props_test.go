package props

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tierkit/tierkit/internal/settings"
)

func lines(s ...string) []byte { return []byte(strings.Join(s, "\n") + "\n") }

func TestParse_WhoGetsWhichKey(t *testing.T) {
	tests := []struct {
		name      string
		file      []byte
		rsm, rlmm map[string]string
	}{
		{
			"broker's file",
			lines("node.id=1", "process.roles=broker", "metadata.log.dir=/kraft", "rsm.config.storage.backend=fs", "rsm.config.chunk.size=1",
				"rlmm.config.remote.log.metadata.topic.num.partitions=5", "remote.log.storage.system.enable=true"),
			map[string]string{"storage.backend": "fs", "chunk.size": "1"},
			map[string]string{"remote.log.metadata.topic.num.partitions": "5"},
		},
		{
			"other prefixes",
			lines("remote.log.storage.manager.impl.prefix=a.", "remote.log.metadata.manager.impl.prefix=a.b.", "a.storage.backend=fs", "a.b.metadata.log=file"),
			map[string]string{"storage.backend": "fs"}, map[string]string{"metadata.log": "file"},
		},
		{
			"bare keys",
			lines("storage.backend=fs", "storage.root=/x", "metadata.log=memory", "metadata.log.dir=/y", "node.id=7", "log.dirs=/a,/b",
				"remote.log.metadata.common.client.bootstrap.servers=k:1", "unheard.of=1"),
			map[string]string{"storage.backend": "fs", "storage.root": "/x", "unheard.of": "1"},
			map[string]string{"metadata.log": "memory", "metadata.log.dir": "/y", "remote.log.metadata.common.client.bootstrap.servers": "k:1"},
		},
		{
			"Java's syntax",
			lines("! comment", "# comment", "", "  storage.root : /a\\", "   b", "key.prefix=x\\u00e4${y}", "storage.backend fs"),
			map[string]string{"storage.root": "/ab", "key.prefix": "x\u00e4${y}", "storage.backend": "fs"}, map[string]string{},
		},
		{"empty", nil, map[string]string{}, map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse("f", tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.rsm, f.RSM); diff != "" {
				t.Errorf("RSM: %s", diff)
			}
			if diff := cmp.Diff(tt.rlmm, f.RLMM); diff != "" {
				t.Errorf("RLMM: %s", diff)
			}
		})
	}
}

func TestParse_MistakesAllAtOnce(t *testing.T) {
	tests := []struct {
		name string
		file []byte
		want []string
	}{
		{
			"broker's file without tiered storage",
			lines("process.roles=broker", "metadata.log.dir=/kraft", "listeners=PLAINTEXT://:9092"),
			[]string{"rsm.config.storage.backend: is required: f looks like a broker's file, and no key in it begins with rsm.config. or rlmm.config."},
		},
		{
			"several",
			lines("rsm.config.storage.backend=fs", "storage.root=/x", "node.id=1", "broker.id=2", "config.providers=vault", "rsm.config.key.prefix=${vault:x}"),
			[]string{
				"storage.root: lacks the prefix rsm.config., which other keys of the file have",
				"rsm.config.key.prefix: uses a config provider of the broker, which is not there outside it; give the value, or for a secret file:PATH or env:NAME",
				`broker.id="2": differs from node.id=1`,
			},
		},
		{"no properties", []byte("storage.root=\\uZZZZ"), []string{"f: not a properties file: properties: Line 1: invalid unicode literal"}},
		{"too big", make([]byte, MaxBytes+1), []string{"f: the configuration has more than 1048576 bytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("f", tt.file)
			if diff := cmp.Diff(tt.want, texts(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func texts(err error) []string {
	var out []string
	for _, p := range settings.Problems(err) {
		out = append(out, p.Error())
	}
	return out
}

func TestLoad_FileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "no"): "the configuration cannot be read: no such file or directory",
		dir:                      "the configuration cannot be read: is a directory",
	} {
		if _, err := Load(path); err == nil || err.Error() != path+": "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	path := filepath.Join(dir, "ok.properties")
	if err := os.WriteFile(path, []byte("storage.root=/\xe4"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Load(path)
	if err != nil || f.RSM["storage.root"] != "/\u00e4" || len(f.Notices) != 1 {
		t.Errorf("got %v, %v, notices %q", f, err, f.Notices)
	}
}

func TestParse_OtherEncodingsAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"\xef\xbb\xbfstorage.backend=fs\r\n": "UTF-8 byte order mark", "\xff\xfes\x00t\x00": "UTF-16 byte order mark",
		"\xfe\xff\x00s\x00t": "UTF-16 byte order mark", "s\x00t\x00": "NUL bytes",
	} {
		if f, err := Parse("x.properties", []byte(text)); f != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	f, err := Parse("x.properties", []byte("storage.backend=fs\r\nstorage.root=/x\r\n"))
	if err != nil || f.RSM["storage.root"] != "/x" {
		t.Errorf("CRLF: %v, %v", f, err)
	}
}

func TestFile_Broker(t *testing.T) {
	f, err := Parse("f", lines("broker.id=3", "node.id=3", "log.dirs=/a, /b", "log.dir=/c", "storage.root=/x",
		"listeners=INTERNAL://0.0.0.0:1,ctl://:2,client://[::]:3", "controller.listener.names=CTL",
		"listener.security.protocol.map=internal:SASL_SSL, CLIENT:PLAINTEXT"))
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := f.BrokerID(); id != 3 || !ok {
		t.Errorf("broker id: %d, %v", id, ok)
	}
	if diff := cmp.Diff([]string{"/a", "/b"}, f.LogDirs()); diff != "" {
		t.Error(diff)
	}
	want := []Listener{{"INTERNAL", "localhost:1", "SASL_SSL"}, {"CLIENT", "localhost:3", "PLAINTEXT"}}
	if diff := cmp.Diff(want, f.Listeners()); diff != "" {
		t.Error(diff)
	}
	f.all["advertised.listeners"] = "PLAINTEXT://host.example:9092"
	if diff := cmp.Diff([]Listener{{"PLAINTEXT", "host.example:9092", "PLAINTEXT"}}, f.Listeners()); diff != "" {
		t.Error(diff)
	}
}

func TestMetadataLog_Rules(t *testing.T) {
	const boot = "rlmm.config.remote.log.metadata.common.client.bootstrap.servers=k1:1,k2:2"
	const backend = "rsm.config.storage.backend=fs"
	const listener = "remote.log.metadata.manager.listener.name=internal"
	tests := []struct {
		name string
		file []byte
		want MetadataLog
		errs []string
	}{
		{"two lines", lines("storage.backend=fs", "storage.root=/x"), MetadataLog{Kind: LogFile, Dir: "/x/.tierkit/metadata"}, nil},
		{"dir given", lines("storage.root=/x", "metadata.log.dir=/y"), MetadataLog{Kind: LogFile, Dir: "/y"}, nil},
		{"memory", lines("storage.backend=fs", "metadata.log=memory", "metadata.snapshot.dir=/s"), MetadataLog{Kind: LogMemory}, nil},
		{"snapshots", lines("storage.root=/x", "metadata.snapshot.dir=/s"), MetadataLog{Kind: LogFile, Dir: "/x/.tierkit/metadata", SnapshotDir: "/s"}, nil},
		{
			"bootstrap servers", lines(backend, "rsm.config.storage.root=/x", boot, "rlmm.config.metadata.snapshot.dir=/s"),
			MetadataLog{Kind: LogKafka, SnapshotDir: "/s", BootstrapServers: []string{"k1:1", "k2:2"}, Kafka: map[string]string{keyBootstrap: "k1:1,k2:2"}}, nil,
		},
		{
			"file although Kafka is there", lines(backend, "rsm.config.storage.root=/x", boot, "metadata.log=file", "metadata.log.dir=/kraft"),
			MetadataLog{Kind: LogFile, Dir: "/x/.tierkit/metadata"}, nil,
		},
		{
			"listener", lines(backend, listener, "advertised.listeners=INTERNAL://h:1"),
			MetadataLog{Kind: LogKafka, BootstrapServers: []string{"h:1"}, Kafka: map[string]string{}}, nil,
		},
		{
			"listener of a controller", lines(backend, listener, "listeners=INTERNAL://h:1", "controller.listener.names=INTERNAL"),
			MetadataLog{}, []string{`remote.log.metadata.manager.listener.name="internal": names no listener with an address in advertised.listeners ` +
				`or listeners (those of controllers do not count); without Kafka set rlmm.config.metadata.log.dir`},
		},
		{
			"nothing", lines("storage.backend=s3"), MetadataLog{},
			[]string{"metadata.log.dir: is required without storage.root and without Kafka (" + keyBootstrap + ")"},
		},
		{
			"several mistakes", lines(backend, "rlmm.config.metadata.log=kafak", "metadata.log=file", "rlmm.config.metadata.log.dri=/x"), MetadataLog{},
			[]string{
				`metadata.log="file": differs from rlmm.config.metadata.log=kafak`,
				`rlmm.config.metadata.log="kafak": must be one of file, memory, kafka; did you mean kafka?`,
				"rlmm.config.metadata.log.dri: unknown setting, did you mean rlmm.config.metadata.log.dir?",
			},
		},
		{"kafka without address", lines(backend, "metadata.log=kafka"), MetadataLog{},
			[]string{"rlmm.config." + keyBootstrap + ": is required with metadata.log=kafka, or " + keyMetadataListener + " with the name of a listener of the broker's"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse("f", tt.file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.MetadataLog(settings.Options{})
			if diff := cmp.Diff(tt.errs, texts(err)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("storage.backend=fs\nstorage.root=/x\n"))
	f.Add([]byte("rsm.config.storage.backend=fs\nrlmm.config.metadata.log=kafka\nlisteners=A://:1,B://[::]:2\nnode.id=1\n"))
	f.Add([]byte("a\\\n  b : c\\u0041\n!x\n${a}=${a}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data)
		if file == nil {
			if len(settings.Problems(err)) == 0 {
				t.Fatalf("neither a file nor a problem: %v", err)
			}
			return
		}
		for _, p := range settings.Problems(err) {
			if strings.ContainsAny(p.Error(), "\r\n") {
				t.Errorf("a problem is not one line: %q", p.Error())
			}
		}
		if n := len(file.RSM) + len(file.RLMM); n > len(file.all) {
			t.Errorf("%d keys out of %d", n, len(file.all))
		}
		file.BrokerID()
		file.LogDirs()
		if m, err := file.MetadataLog(settings.Options{}); err == nil && m.Kind == "" {
			t.Error("no log and no mistake")
		}
	})
}
