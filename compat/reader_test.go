package compat

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/testbed"
	"github.com/tierkit/tierkit/remotelog"
)

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

// buildReader returns the directory of the built reader: classes/ and lib/.
func buildReader(t *testing.T) string {
	t.Helper()
	return testbed.MavenBuild(t, "java", "process-classes")
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
	java, _ := testbed.Java(t)
	cmd := exec.CommandContext(t.Context(), java, "-Xmx1600m", "-XX:+UseSerialGC",
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
