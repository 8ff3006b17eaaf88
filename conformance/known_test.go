package conformance

import (
	"strings"
	"testing"
)

func TestKnown_EveryListCanBeRead(t *testing.T) {
	for _, store := range KnownStores() {
		k, err := KnownOf(store)
		if err != nil || len(k.Deviations) == 0 && k.NoFaults == "" {
			t.Errorf("%s: %+v, %v", store, k, err)
		}
	}
	if len(KnownStores()) < 4 {
		t.Errorf("only %q are known", KnownStores())
	}
	if _, err := KnownOf("../minio"); err == nil || !strings.Contains(err.Error(), "minio, seaweedfs") {
		t.Errorf("a store that nobody knows: %v", err)
	}
}

func TestParseKnown(t *testing.T) {
	k, err := ParseKnown("# a comment\n\n  get/whole/store\tno  reads \nput/one-byte  x\nfaults it forgets\n")
	if err != nil || len(k.Deviations) != 2 || k.Deviations[0] != (Deviation{Case: "get/whole/store", Reason: "no  reads"}) || k.NoFaults != "it forgets" {
		t.Errorf("%+v, %v", k, err)
	}
	h := Harness{Deviations: []Deviation{{Case: "put/zero-byte", Reason: "y"}}}
	k.Apply(&h)
	if len(h.Deviations) != 3 || h.NoFaults != "it forgets" {
		t.Errorf("applied: %+v", h)
	}
	for text, want := range map[string]string{
		"put/one-byte":                       "line 1: put/one-byte has no reason",
		"#\nput/one-bite of a lie":           "line 2: there is no case put/one-bite",
		"put/one-byte a\nput/one-byte b":     "line 2: put/one-byte stands in line 1",
		"faults":                             "line 1: faults has no reason",
		"faults a\n\nfaults b":               "line 3: faults stands in line 1",
		"put/one-byte/both the name is none": "there is no case put/one-byte/both",
	} {
		if _, err := ParseKnown(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
