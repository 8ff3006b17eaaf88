package conformance

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Known is what is known of a store: where it does not keep the contract, whatever the driver does.
type Known struct {
	Deviations []Deviation
	NoFaults   string // see Harness
}

// Apply adds it to a Harness.
func (k Known) Apply(h *Harness) {
	h.Deviations = append(h.Deviations, k.Deviations...)
	if k.NoFaults != "" {
		h.NoFaults = k.NoFaults
	}
}

// faultsWord stands in a list in the place of a case.
const faultsWord = "faults"

// ParseKnown reads a list. Each line has a case (an ID, or ID/driver or ID/store for one of the two), spaces, and the reason why the store fails it; in the place
// of a case the word "faults" says why the store cannot be tested with lost, cut and repeated requests. Empty lines and those that begin with # say nothing. A line
// without a reason, with a case that there is not or with one that was there before is an error.
func ParseKnown(text string) (Known, error) {
	var k Known
	cases, seen := caseNames(), make(map[string]int)
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, reason := line, ""
		if i := strings.IndexAny(line, " \t"); i > 0 {
			name, reason = line[:i], strings.TrimSpace(line[i:])
		}
		switch {
		case reason == "":
			return Known{}, fmt.Errorf("line %d: %s has no reason behind it", n, name)
		case seen[name] > 0:
			return Known{}, fmt.Errorf("line %d: %s stands in line %d already", n, name, seen[name])
		case name == faultsWord:
			k.NoFaults = reason
		case !cases[name]:
			return Known{}, fmt.Errorf("line %d: there is no case %s", n, name)
		default:
			k.Deviations = append(k.Deviations, Deviation{Case: name, Reason: reason})
		}
		seen[name] = n
	}
	return k, nil
}

//go:embed known
var known embed.FS

// KnownStores are the servers and emulators whose lists come with the suite.
func KnownStores() []string {
	entries, _ := known.ReadDir("known") // it is in the program
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".txt"))
	}
	return names
}

// KnownOf returns the list of one of KnownStores, as the suite is run on it in tierkit's own tests.
func KnownOf(store string) (Known, error) {
	if !slices.Contains(KnownStores(), store) {
		return Known{}, fmt.Errorf("nothing is known of %q, but of %s", store, strings.Join(KnownStores(), ", "))
	}
	text, err := known.ReadFile(path.Join("known", store+".txt"))
	if err != nil {
		return Known{}, err
	}
	return ParseKnown(string(text))
}

// caseNames are the names that a case can be called by.
func caseNames() map[string]bool {
	names := make(map[string]bool)
	for _, c := range Cases() {
		names[c.ID] = true
		for _, l := range c.levels() {
			names[c.ID+"/"+l.String()] = true
		}
	}
	return names
}
