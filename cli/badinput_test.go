package cli_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tierkit/tierkit/cli"
	"github.com/tierkit/tierkit/internal/testbed"
)

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x40
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// secondBatch is a position inside the second batch of a .log, behind its header.
func secondBatch(t *testing.T, path string) int64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return int64(12+binary.BigEndian.Uint32(b[8:12])) + 80
}

func cutLastBatch(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := int64(0)
	for at := int64(0); at < int64(len(b)); at += int64(12 + binary.BigEndian.Uint32(b[at+8:])) {
		last = at
	}
	truncate(t, path, last)
}

// Damage in a log directory: what is whole is taken up to there, nothing of the bad segment is left in the store.
func TestBadInput_LogDirectory(t *testing.T) {
	const segment = "00000000000000000080"
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		code   int
		want   []string
		copied int // segments that are whole before the damage
	}{
		"offset index missing":     {func(t *testing.T, d string) { remove(t, filepath.Join(d, segment+".index")) }, cli.ExitFailed, []string{segment + ".index"}, 1},
		"time index missing":       {func(t *testing.T, d string) { remove(t, filepath.Join(d, segment+".timeindex")) }, cli.ExitFailed, []string{segment + ".timeindex"}, 1},
		"offset index cut":         {func(t *testing.T, d string) { truncate(t, filepath.Join(d, segment+".index"), 13) }, cli.ExitDamage, []string{segment + ".index"}, 1},
		"time index cut":           {func(t *testing.T, d string) { truncate(t, filepath.Join(d, segment+".timeindex"), 13) }, cli.ExitDamage, []string{segment + ".timeindex"}, 1},
		"snapshot missing":         {func(t *testing.T, d string) { remove(t, filepath.Join(d, "00000000000000000160.snapshot")) }, cli.ExitFailed, []string{"00000000000000000160.snapshot"}, 1},
		"log cut inside a batch":   {func(t *testing.T, d string) { truncate(t, filepath.Join(d, segment+".log"), 9000) }, cli.ExitDamage, []string{segment + ".log"}, 1},
		"bad CRC in the middle":    {func(t *testing.T, d string) { p := filepath.Join(d, segment+".log"); flip(t, p, secondBatch(t, p)) }, cli.ExitDamage, []string{segment + ".log", "CRC"}, 1},
		"log missing, index there": {func(t *testing.T, d string) { remove(t, filepath.Join(d, segment+".log")) }, cli.ExitDamage, []string{segment + ".log is missing"}, 0},
		"log without its last batch": {func(t *testing.T, d string) { cutLastBatch(t, filepath.Join(d, segment+".log")) }, cli.ExitDamage,
			[]string{segment + ".log", "its .index knows", "end was lost"}, 1},
		"log without its last batch, index too": {func(t *testing.T, d string) {
			cutLastBatch(t, filepath.Join(d, segment+".log"))
			fi, err := os.Stat(filepath.Join(d, segment+".index"))
			if err != nil {
				t.Fatal(err)
			}
			truncate(t, filepath.Join(d, segment+".index"), fi.Size()-8)
		}, cli.ExitDamage, []string{segment + ".log", "its .timeindex knows offset 159", "end was lost"}, 1},
		"partition.metadata absent": {func(t *testing.T, d string) { remove(t, filepath.Join(d, "partition.metadata")) }, cli.ExitFailed, []string{"partition.metadata", "topic id"}, 0},
		"no epoch checkpoint":       {func(t *testing.T, d string) { remove(t, filepath.Join(d, "leader-epoch-checkpoint")) }, cli.ExitFailed, []string{"leader-epoch-checkpoint"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil, "orders-0")
			c.damage(t, b.partition("orders-0"))
			fails(t, c.code, c.want, "copy", "--config", b.config, b.logs)
			objects, leftovers := b.objects(t)
			if len(objects) != 3*c.copied || len(leftovers) > 0 {
				t.Errorf("%d objects, want %d; left over: %v\n%v", len(objects), 3*c.copied, leftovers, objects)
			}
			listed := lines(t, must(t, "ls", "--config", b.config, "--json").out)
			if len(listed) != c.copied {
				t.Errorf("%d segments are known, want %d: %v", len(listed), c.copied, listed)
			}
		})
	}
}

func TestBadInput_WrongDirectory(t *testing.T) {
	b := newBed(t, nil)
	empty := t.TempDir()
	fails(t, cli.ExitUsage, []string{empty}, "copy", "--config", b.config, empty)
	fails(t, cli.ExitUsage, []string{"/no/such/dir"}, "copy", "--config", b.config, "/no/such/dir")
	fails(t, cli.ExitUsage, []string{"directory"}, "copy", "--config", b.config)
	if objects, leftovers := b.objects(t); len(objects)+len(leftovers) > 0 {
		t.Errorf("left over: %v %v", objects, leftovers)
	}
}

func TestBadInput_Configuration(t *testing.T) {
	key := filepath.Join(t.TempDir(), "none.pem")
	encryption := []string{
		"encryption.enabled=true", "encryption.key.pairs=k", "encryption.key.pair.id=k",
		"encryption.key.pairs.k.public.key.file=" + key, "encryption.key.pairs.k.private.key.file=" + key,
	}
	for name, c := range map[string]struct {
		settings []string
		want     []string
	}{
		"unknown setting":          {[]string{"chunk.sise=4096"}, []string{"chunk.sise", "chunk.size"}},
		"unknown storage setting":  {[]string{"storage.rot=x"}, []string{"storage.rot", "storage.root"}},
		"chunk size 0":             {[]string{"chunk.size=0"}, []string{"chunk.size", "1..1073741823"}},
		"chunk size huge":          {[]string{"chunk.size=2147483648"}, []string{"chunk.size", "1..1073741823"}},
		"chunk size above memory":  {[]string{"chunk.size=1073741823", "memory.budget.bytes=64MiB"}, []string{"memory.budget.bytes"}},
		"several at once":          {[]string{"chunk.size=x", "compression.enabled=maybe", "metadata.log=cloud"}, []string{"chunk.size", "compression.enabled", "metadata.log"}},
		"key file missing":         {encryption, []string{key, "no such file"}},
		"encryption without a key": {[]string{"encryption.enabled=true"}, []string{"encryption.key.pairs", "encryption.key.pair.id"}},
		"iceberg":                  {[]string{"segment.format=iceberg"}, []string{"iceberg"}},
		"two metadata choices":     {[]string{"metadata.log=kafka"}, []string{"bootstrap.servers"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, c.settings, "orders-0")
			fails(t, cli.ExitUsage, c.want, "copy", "--config", b.config, b.logs)
			if objects, leftovers := b.objects(t); len(objects)+len(leftovers) > 0 {
				t.Errorf("left over: %v %v", objects, leftovers)
			}
		})
	}
	b := newBed(t, nil, "orders-0")
	fails(t, cli.ExitUsage, []string{"--config"}, "ls")
	fails(t, cli.ExitUsage, []string{"/no/such/file"}, "ls", "--config", "/no/such/file")
	fails(t, cli.ExitUsage, []string{"lst", "ls"}, "lst")
	fails(t, cli.ExitUsage, []string{"unknown flag", "--help"}, "ls", "--config", b.config, "--tpoic", "x")
	fails(t, cli.ExitFailed, []string{"metadata log", "--from-store"}, "ls", "--config", b.config)
	if err := os.RemoveAll(b.store); err != nil {
		t.Fatal(err)
	}
	fails(t, cli.ExitUsage, []string{b.store}, "copy", "--config", b.config, b.logs)
}

// keyPair makes the files of a key pair with openssl's formats and returns the settings for it.
func keyPair(t *testing.T, dir, id string) []string {
	t.Helper()
	demo := filepath.Join(t.TempDir(), "keys")
	must(t, "demo", "--keep", demo) // the demonstration makes a pair
	for _, name := range []string{"public", "private"} {
		b, err := os.ReadFile(filepath.Join(demo, name+".pem"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, id+"-"+name+".pem"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"encryption.enabled=true", "encryption.key.pairs=k", "encryption.key.pair.id=k",
		"encryption.key.pairs.k.public.key.file=" + filepath.Join(dir, id+"-public.pem"),
		"encryption.key.pairs.k.private.key.file=" + filepath.Join(dir, id+"-private.pem"),
	}
}

func TestBadInput_WrongKeyNeverShowsARecord(t *testing.T) {
	b := newBed(t, nil, "orders-0")
	right, wrong := keyPair(t, b.dir, "right"), keyPair(t, b.dir, "wrong")
	b.configure(t, right...)
	must(t, "copy", "--config", b.config, b.logs)
	b.configure(t, wrong...)
	r := fails(t, cli.ExitFailed, []string{"key pair"}, "read", "--config", b.config, "--topic", "orders", "--partition", "0", "--offset", "0")
	if r.out != "" {
		t.Errorf("records are shown: %.200q", r.out)
	}
	b.configure(t)
	r = fails(t, cli.ExitFailed, []string{"encrypt"}, "read", "--config", b.config, "--topic", "orders", "--partition", "0", "--offset", "0")
	if r.out != "" {
		t.Errorf("records are shown: %.200q", r.out)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "right-public.pem"), []byte("not a key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.configure(t, right...)
	fails(t, cli.ExitUsage, []string{"right-public.pem", "PEM"}, "read", "--config", b.config, "--topic", "orders", "--partition", "0", "--offset", "0")
}

func TestBadInput_Manifests(t *testing.T) {
	const head = `{"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":1000,"originalFileSize":2500,"transformedChunkSize":1000,"finalTransformedChunkSize":500},`
	const tail = `"segmentIndexes":{"offset":{"position":0,"size":10},"timestamp":{"position":10,"size":20},"producerSnapshot":{"position":30,"size":0},` +
		`"leaderEpoch":{"position":30,"size":30},"transaction":null},"compression":false,"remoteLogSegmentMetadata":{}}`
	b := newBed(t, nil, "orders-0")
	must(t, "copy", "--config", b.config, b.logs)
	listed := lines(t, must(t, "ls", "--config", b.config, "--json").out)
	id, key := listed[0]["segmentId"].(string), listed[0]["objectKey"].(string)
	for name, text := range map[string]string{
		"not JSON":           "hello",
		"empty":              "",
		"wrong version":      strings.Replace(head+tail, `"version":"1"`, `"version":"2"`, 1),
		"negative size":      strings.Replace(head+tail, `"originalFileSize":2500`, `"originalFileSize":-1`, 1),
		"does not add up":    strings.Replace(head+tail, `"originalFileSize":2500`, `"originalFileSize":1900`, 1),
		"a claim of 10 GB":   strings.Replace(head+tail, `"originalFileSize":2500`, `"originalFileSize":10000000000`, 1),
		"10 GB in one chunk": strings.Replace(head+tail, `"originalChunkSize":1000`, `"originalChunkSize":10000000000`, 1),
		"variable, 10 GB":    `{"version":"1","chunkIndex":{"type":"variable","originalChunkSize":1,"originalFileSize":2147483647,"transformedChunks":"KLUv/SAPeQAAAAAAAwAAA+gBABAAAABN"},` + tail,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(b.store, key+".rsm-manifest")
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			fails(t, cli.ExitDamage, []string{file}, "inspect", file)
			r := fails(t, cli.ExitDamage, []string{id}, "fetch", "--config", b.config, "--topic", "orders", "--partition", "0", "--segment", id)
			if r.out != "" {
				t.Errorf("%d bytes are shown", len(r.out))
			}
			fails(t, cli.ExitDamage, nil, "read", "--config", b.config, "--topic", "orders", "--partition", "0", "--offset", "0")
		})
	}
	good := filepath.Join(b.dir, "good")
	if err := os.WriteFile(good, []byte(head+tail), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "inspect", good).out; !strings.Contains(out, "2.5 kB in 3 chunks") {
		t.Errorf("inspect: %s", out)
	}
}

// child runs the test binary as the command in a process of its own.
func child(t *testing.T, prepare func(*exec.Cmd), args ...string) result {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if prepare != nil {
		prepare(cmd)
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func TestBadInput_RootNotWritable(t *testing.T) {
	dir, err := os.MkdirTemp("", "tierkit-cli-") //nolint:usetesting // the directory of a test is not open to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := newBed(t, nil, "orders-0")
	store := filepath.Join(dir, "store")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(store, 0o555), os.CopyFS(filepath.Join(dir, "logs"), os.DirFS(b.logs))); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "c.properties")
	if err := os.WriteFile(config, []byte("storage.backend=fs\nstorage.root="+store+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"copy", "--config", config, filepath.Join(dir, "logs")}
	var r result
	if os.Getuid() != 0 {
		r = run(t, args...)
	} else {
		// Root writes everywhere, so somebody else has to try, with a copy of the test binary that he can reach.
		r = child(t, func(c *exec.Cmd) {
			self, err := os.ReadFile(c.Path)
			if err != nil {
				t.Fatal(err)
			}
			c.Path = filepath.Join(dir, "tierkit")
			if err := os.WriteFile(c.Path, self, 0o755); err != nil {
				t.Fatal(err)
			}
			c.Dir = dir
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}, args...)
	}
	checkFailure(t, r, cli.ExitFailed, []string{store, "permission denied"}, args)
}

// A full disk: a small tmpfs where it can be mounted.
func TestBadInput_DiskFullInTheMiddleOfACopy(t *testing.T) {
	b := newBed(t, nil, "orders-0", "blobs-0")
	testbed.SmallDisk(t, b.store, 256<<10)
	r := fails(t, cli.ExitFailed, []string{"no space left", "blobs-0"}, "copy", "--config", b.config, b.logs)
	objects, leftovers := b.objects(t)
	if len(leftovers) > 0 {
		t.Errorf("left over: %v", leftovers)
	}
	for _, o := range objects {
		if strings.HasPrefix(o, "blobs-") {
			t.Errorf("left of the segment that did not fit: %s\n%s", o, r.out)
		}
	}
	if listed := lines(t, must(t, "ls", "--config", b.config, "--json").out); len(listed)*3 != len(objects) {
		t.Errorf("%d segments, %d objects", len(listed), len(objects))
	}
}
