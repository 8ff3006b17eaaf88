package kafkaplugin

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
)

// suite is what Maven reports of one class of tests.
type suite struct {
	Name    string `xml:"name,attr"`
	Tests   int    `xml:"tests,attr"`
	Skipped int    `xml:"skipped,attr"`
}

// TestJava_ProjectsOwnTests runs them and looks that they did run.
func TestJava_ProjectsOwnTests(t *testing.T) {
	need.Long(t)
	_, mvn := testbed.Java(t)
	testbed.PluginJar(t) // so that two do not build at once
	out := t.TempDir()
	cmd := exec.CommandContext(t.Context(), mvn, "-B", "-ntp", "-q", "-Dstyle.color=never", "-Dout="+out, "test")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	files, err := filepath.Glob(filepath.Join(out, "surefire-reports", "*.xml"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s suite
		if err := xml.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if s.Skipped > 0 {
			t.Errorf("%s: %d tests were skipped", s.Name, s.Skipped)
		}
		seen[s.Name] = s.Tests
	}
	for _, name := range []string{"CopyTest", "DeadlineTest", "DeleteTest", "FaultTest", "JsonTest", "MetricsTest", "RoundTripTest"} {
		if seen["io.github.tierkit.kafka."+name] == 0 {
			t.Errorf("no test of %s has run; seen: %v", name, seen)
		}
	}
}
