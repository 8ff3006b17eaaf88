package conformance_test

import (
	_ "embed"
	"os"
	"strings"
	"testing"

	"github.com/tierkit/tierkit/conformance"
)

// requirements are the numbered ones that the suite was designed with, one a line: its number and the IDs of its cases or families.
//
//go:embed testdata/requirements.txt
var requirements string

const countRequirements = 211

// elsewhere are those that no case can hold, and what holds them. This list may only become shorter.
func elsewhere() map[string]string {
	return map[string]string{
		"hedge":                    "it is asked for when there is hedging: no driver hedges, and neither does the Store",
		"sum/plain-http-and-https": "it is the cases of sum and put against a server with TLS: " + tlsTest,
	}
}

// tlsTest is in test/drivers.
const tlsTest = "func TestS3OnMinIOTLS("

const mostElsewhere = 2

// TestRequirements_EachHasItsCase: nothing that was asked for is forgotten, and no case that is asked for goes away.
func TestRequirements_EachHasItsCase(t *testing.T) {
	have := map[string]bool{}
	for _, c := range conformance.Cases() {
		parts := strings.Split(c.ID, "/")
		have[parts[0]+"/"+parts[1]] = true // a family is its first two parts
	}
	other := elsewhere()
	if len(other) > mostElsewhere {
		t.Errorf("%d requirements are held elsewhere, at most %d", len(other), mostElsewhere)
	}
	lines := strings.Split(strings.TrimSpace(requirements), "\n")
	if len(lines) != countRequirements {
		t.Errorf("%d requirements, want %d", len(lines), countRequirements)
	}
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			t.Errorf("%q is not a number and IDs", line)
			continue
		}
		for _, id := range fields[1:] {
			switch reason := other[id]; {
			case have[id] && reason != "":
				t.Errorf("%s has a case: it is not held elsewhere", id)
			case !have[id] && reason == "":
				t.Errorf("requirement %s: there is no case %s", fields[0], id)
			}
			delete(other, id)
		}
	}
	if text, err := os.ReadFile("../test/drivers/drivers_test.go"); err != nil || !strings.Contains(string(text), tlsTest) {
		t.Errorf("%s is not there: %v", tlsTest, err)
	}
	for id := range other {
		t.Errorf("%s is held elsewhere, but is no requirement", id)
	}
}
