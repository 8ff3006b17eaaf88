package cli

import (
	"strings"
	"testing"
)

// TestReport_SaysNoMoreThanWasChecked: a report may be published, and a run of some cases is no certificate.
func TestReport_SaysNoMoreThanWasChecked(t *testing.T) {
	failed := conformanceSummary{Failed: 1}
	for want, r := range map[string]conformanceReport{
		"**keeps the contract** with":                                                       {},
		"**keeps what was checked, a part of the contract,** with":                          {Run: "^put/"},
		"**does not keep the contract** with":                                               {Run: "^put/", Summary: failed},
		"**was not checked to the end: interrupted** with":                                  {Run: "^put/", Ended: "interrupted"},
		"**does not keep the contract, and was not checked to the end: interrupted,** with": {Ended: "interrupted", Summary: failed},
		"**keeps the contract, but for what is known of the store (see below),** with":      {Summary: conformanceSummary{Deviating: 1}},
		"| cases | all |": {},
		"| cases | those that match `^(put\\|get)/` |": {Run: "^(put|get)/"},
	} {
		if text := string(r.markdown()); !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

func TestQuoted_IsOneWordOfAShell(t *testing.T) {
	for in, want := range map[string]string{"/a/b-c.properties": "/a/b-c.properties", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'"} {
		if got := quoted(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}
