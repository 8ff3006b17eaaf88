package cli

import (
	"strings"
	"testing"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/backends/azure"
	"github.com/tierkit/tierkit/conformance"
	"github.com/tierkit/tierkit/internal/settings"
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
