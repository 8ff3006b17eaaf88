package compat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/remotelog"
)

const howToGetJava = "install a JDK, 17 or newer, and Maven (Debian: apt-get install default-jdk maven; macOS: brew install openjdk maven)"

// job is one segment for the reader to read; Job.java describes the fields.
type job struct {
	ID                 string            `json:"id"`
	Out                string            `json:"out"`
	Config             map[string]string `json:"config"`
	Locale             string            `json:"locale,omitempty"`
	Objects            map[string]string `json:"objects"` // key to file
	Topic              string            `json:"topic"`
	TopicID            string            `json:"topicId"`
	Partition          int32             `json:"partition"`
	SegmentID          string            `json:"segmentId"`
	StartOffset        int64             `json:"startOffset"`
	SegmentSizeInBytes int64             `json:"segmentSizeInBytes"`
	CustomMetadata     []byte            `json:"customMetadata"`
	Ranges             [][2]int64        `json:"ranges"`
}

// newJob reads one segment from the given objects, by key, with the plug-in's settings.
func newJob(t *testing.T, id string, md remotelog.SegmentMetadata, config map[string]string, objects map[string][]byte) job {
	t.Helper()
	dir := t.TempDir()
	j := job{
		ID: id, Out: filepath.Join(dir, "out"), Config: config, Objects: map[string]string{}, Topic: md.Topic,
		TopicID: md.TopicID.String(), Partition: md.Partition, SegmentID: md.ID.String(), StartOffset: md.StartOffset,
		SegmentSizeInBytes: md.SizeBytes, CustomMetadata: md.CustomMetadata,
	}
	for key, data := range objects {
		// Numbered, since not every key can be the name of a file.
		file := filepath.Join(dir, strconv.Itoa(len(j.Objects)))
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		j.Objects[key] = file
	}
	return j
}

// outcome is what came of one read. Stage is empty where there was no error, else "open" or "read".
type outcome struct {
	Stage   string   `json:"stage"`
	Causes  []string `json:"causes"` // from the outermost exception to its root
	Message string   `json:"message"`
}

// root names the exception that everything began with.
func (o outcome) root() string {
	if len(o.Causes) == 0 {
		return ""
	}
	return o.Causes[len(o.Causes)-1]
}

// indexTypes are the reader's names of the indexes, Kafka's own.
var indexTypes = []string{"OFFSET", "TIMESTAMP", "PRODUCER_SNAPSHOT", "LEADER_EPOCH", "TRANSACTION"}

// sourcesHash names a state of the reader's sources.
func sourcesHash(t *testing.T) string {
	t.Helper()
	h := sha256.New()
	add := func(file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h.Write([]byte(filepath.ToSlash(file) + "\n"))
		h.Write(text)
	}
	add(filepath.Join("java", "pom.xml"))
	err := filepath.WalkDir(filepath.Join("java", "src"), func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			add(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// building keeps two tests from building at once; two processes may, the first one to finish wins.
var building sync.Mutex

// buildReader returns the directory of the built reader: classes/ and lib/.
func buildReader(t *testing.T) string {
	t.Helper()
	need.Command(t, "java", howToGetJava)
	maven := need.Command(t, "mvn", howToGetJava)
	building.Lock()
	defer building.Unlock()
	cache := filepath.Join(need.CacheDir(t), "compat-reader")
	dir := filepath.Join(cache, sourcesHash(t))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	partial, err := os.MkdirTemp(cache, "partial.") //nolint:usetesting // beside its final place, so that a rename can move it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(partial) }() // nothing there once it is moved
	t.Logf("building the reader into %s", dir)
	cmd := exec.CommandContext(t.Context(), maven, "-B", "-ntp", "-q", "-Dstyle.color=never", "-f", filepath.Join("java", "pom.xml"),
		"-Dout="+partial, "process-classes")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the reader: %v\n%s", err, out)
	}
	if err := os.Rename(partial, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runReader reads all jobs in one JVM and returns what came of them: job id, then "log", "range-0" and so on, or an index type.
func runReader(t *testing.T, jobs []job) map[string]map[string]outcome {
	t.Helper()
	reader := buildReader(t)
	dir := t.TempDir()
	list, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(dir, "jobs.json"), filepath.Join(dir, "results.json")
	if err := os.WriteFile(in, list, 0o600); err != nil {
		t.Fatal(err)
	}
	classpath := filepath.Join(reader, "classes") + string(filepath.ListSeparator) + filepath.Join(reader, "lib", "*")
	// One damaged object makes the reader ask for a gigabyte, and it must get it, as the plug-in did, to fail where the plug-in
	// failed.
	cmd := exec.CommandContext(t.Context(), need.Command(t, "java", howToGetJava), "-Xmx1600m", "-XX:+UseSerialGC",
		"-Dfile.encoding=UTF-8", "-cp", classpath, "io.github.tierkit.compat.Main", in, out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the reader: %v\n%s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var results map[string]map[string]outcome
	if err := json.Unmarshal(text, &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != len(jobs) {
		t.Fatalf("%d results for %d jobs", len(results), len(jobs))
	}
	return results
}

// readOutput returns what the reader wrote for a part of a job.
func readOutput(t *testing.T, j job, part string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(j.Out, part))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestReader_Builds is the part that takes long on a new machine; scripts/test.sh runs it beside the building of other tools.
func TestReader_Builds(t *testing.T) {
	dir := buildReader(t)
	lib, err := os.ReadDir(filepath.Join(dir, "lib"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range lib {
		names = append(names, e.Name())
	}
	for _, want := range []string{"jackson-databind", "zstd-jni", "bcprov"} {
		if !strings.Contains(strings.Join(names, " "), want) {
			t.Errorf("libraries are %v, want %s among them", names, want)
		}
	}
}
