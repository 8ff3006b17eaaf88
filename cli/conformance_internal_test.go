package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/internal/settings"
)

// TestReport_SaysNoMoreThanWasChecked: a report may be published, and a run of some cases is no certificate.
func TestReport_SaysNoMoreThanWasChecked(t *testing.T) {
	failed := conformanceSummary{Failed: 1}
	for want, r := range map[string]conformanceReport{
		"The driver **keeps the contract** with the store of this configuration.\n":                                                  {},
		"The driver **keeps what was checked, a part of the contract,** with the store of this configuration.\n":                     {Run: "^put/"},
		"The driver **does not keep the contract** with the store of this configuration.\n":                                          {Run: "^put/", Summary: failed},
		"**was not checked to the end**. The run ended early, 3 cases were not run to their end: interrupted.\n":                     {Run: "^put/", Ended: "interrupted", Summary: conformanceSummary{NotRun: 3}},
		"**does not keep the contract** with the store of this configuration. The run ended early, 0 cases":                          {Ended: "interrupted", Summary: failed},
		"**keeps the contract, but for what is known of the store** (see below) with the store of this configuration.\n":             {Summary: conformanceSummary{Deviating: 1}},
		"a part of the contract,** with the store of this configuration. Cases that the store is known to fail have failed too (see": {Run: "^put/", Summary: conformanceSummary{Deviating: 1}},
		"The **list of deviations is out of date**: what it lists passes with the store of this configuration.\n": {
			Summary: failed, Results: []caseResultJSON{{Outcome: "fail", Why: "it is slow"}},
		},
		"The driver **does not keep the contract** with the store of": {
			Summary: conformanceSummary{Failed: 2}, Results: []caseResultJSON{{Outcome: "fail", Why: "it is slow"}, {Outcome: "fail"}},
		},
		"| cases | all |": {},
		"| cases | those that match `^(put\\|get)/` |": {Run: "^(put|get)/"},
	} {
		if text := string(r.markdown()); !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

// Cases end in any order, and the settings may hold secrets.
func TestReport_IsInOrderAndShowsNoSecret(t *testing.T) {
	r := conformanceReport{now: time.Now, Go: "go1", Platform: "plan9/mips"}
	names := caseNames()
	for _, name := range []string{names[40], names[7], names[8]} {
		at := strings.LastIndex(name, "/")
		r.Results = append(r.Results, caseResultJSON{Case: name[:at], Level: name[at+1:], Outcome: "pass"})
	}
	r.end(nil, names)
	var reg backends.Registry
	if err := reg.Register(azure.Factory()); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{
		"storage.backend": "azure", "storage.azure.container.name": "box", "storage.azure.account.name": "acc", "storage.azure.account.key": "c2VjcmV0",
		"storage.azure.endpoint.url": "https://acc.example/acc",
	}
	choice, err := reg.Parse(given, settings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	delete(given, "storage.backend")
	r.Settings = shownSettings(choice.Config, given)
	text := string(r.markdown())
	for _, want := range []string{"| go1, plan9/mips |", "| `storage.azure.container.name` | box |", "| `storage.azure.endpoint.url` | https://acc.example/acc |", "| `storage.azure.account.key` | "} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	first, second, third := strings.Index(text, names[7]+" "), strings.Index(text, names[8]+" "), strings.Index(text, names[40]+" ")
	if first < 0 || second < first || third < second || strings.Contains(text, "c2VjcmV0") {
		t.Errorf("the order, or a secret:\n%s", text)
	}
}

func TestQuoted_IsOneWordOfAShell(t *testing.T) {
	for in, want := range map[string]string{"/a/b-c.properties": "/a/b-c.properties", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'"} {
		if got := quoted(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// The cases about credentials run where it is known what wrong ones look like.
func TestSuite_OfABuiltInDriver(t *testing.T) {
	over := func(url string) map[string]string { return map[string]string{"storage.azure.endpoint.url": url} }
	h := conformance.Harness{Settings: map[string]string{"storage.azure.account.key": "AAAA"}, Knobs: conformance.Knobs{Endpoint: over}}
	var reg backends.Registry
	if err := reg.Register(azure.Factory()); err != nil {
		t.Fatal(err)
	}
	choice, err := reg.Parse(map[string]string{
		"storage.backend": "azure", "storage.azure.container.name": "box", "storage.azure.account.name": "acc", "storage.azure.account.key": "AAAA",
		"storage.azure.endpoint.url": "http://127.0.0.1:1/acc",
	}, settings.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := newApp(&reg, Stdio{})
	a.suite(&h, choice)
	if h.Dialect == nil || h.Knobs.WrongCredentials["storage.azure.account.key"] == "" || h.Knobs.Endpoint("http://x")["storage.azure.endpoint.url"] != "http://x/acc" {
		t.Errorf("%+v", h)
	}
	a.Conformance = map[string]func(*conformance.Harness){"azure": func(h *conformance.Harness) { h.Dialect = nil }}
	if a.suite(&h, choice); h.Dialect != nil {
		t.Error("what the command was made with does not go before")
	}
}
