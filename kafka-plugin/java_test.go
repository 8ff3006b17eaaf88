package kafkaplugin

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/internal/need"
	"github.com/tierkit/tierkit/internal/testbed"
)

// suite is what Maven reports of one class of tests.
type suite struct {
	Tests   int `xml:"tests,attr"`
	Skipped int `xml:"skipped,attr"`
}

// TestJava_ProjectsOwnTests runs them, against tierkit as it is now, and looks that each class of them did run.
func TestJava_ProjectsOwnTests(t *testing.T) {
	need.Long(t)
	_, mvn := testbed.Java(t)
	testbed.PluginJar(t) // so that two do not build at once
	program, out := filepath.Join(t.TempDir(), "tierkit"), t.TempDir()
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../cmd/tierkit").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	cmd := exec.CommandContext(t.Context(), mvn, "-B", "-ntp", "-q", "-Dstyle.color=never", "-Dout="+out, "-Dtierkit="+program, "test")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	sources := "src/test/java/io/github/tierkit/kafka"
	files, err := filepath.Glob(filepath.Join(sources, "*Test.java"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %s: %v", sources, err)
	}
	for _, file := range files {
		name := "io.github.tierkit.kafka." + strings.TrimSuffix(filepath.Base(file), ".java")
		text, err := os.ReadFile(filepath.Join(out, "surefire-reports", "TEST-"+name+".xml"))
		if err != nil {
			t.Error(err)
			continue
		}
		var s suite
		if err := xml.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s.Tests == 0 || s.Skipped > 0 {
			t.Errorf("%s: %d tests, %d of them skipped", name, s.Tests, s.Skipped)
		}
	}
}
