package cli

import (
	"cmp"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/conformance"
)

// conformanceReport is a run of the suite: the JSON shape of --report FILE.json.
type conformanceReport struct {
	Driver     string             `json:"driver"`
	Version    string             `json:"version"` // of tierkit
	Go         string             `json:"go"`
	Platform   string             `json:"platform"`
	Config     string             `json:"config"`
	Settings   map[string]string  `json:"settings"` // those of the driver that the file gives; a secret is hidden
	Prefix     string             `json:"prefix"`   // key.prefix
	Scale      string             `json:"scale"`
	Run        string             `json:"run"`        // "": all cases, else only those that match
	Deviations string             `json:"deviations"` // what --deviations said
	Cases      int                `json:"cases"`      // those that were to be run, each level for itself
	Started    time.Time          `json:"started"`
	Ended      string             `json:"ended"` // "", or why the run ended before its end
	Summary    conformanceSummary `json:"summary"`
	Results    []caseResultJSON   `json:"results"`

	now func() time.Time
}

type conformanceSummary struct {
	Passed         int            `json:"passed"`
	Failed         int            `json:"failed"`
	Deviating      int            `json:"deviating"`
	Skipped        int            `json:"skipped"`
	NotRun         int            `json:"notRun"` // the run ended before, or in the middle of them
	SkippedBecause map[string]int `json:"skippedBecause"`
	Seconds        float64        `json:"seconds"`
	Seed           uint64         `json:"seed"`
}

// caseResultJSON is one result.
type caseResultJSON struct {
	Case     string        `json:"case"`
	Level    string        `json:"level"`
	Outcome  string        `json:"outcome"`
	Rule     string        `json:"rule"`
	Seconds  float64       `json:"seconds"`
	Why      string        `json:"why,omitempty"`
	Violated []string      `json:"violated,omitempty"`
	Notes    []string      `json:"notes,omitempty"`
	Again    string        `json:"again,omitempty"` // the command line that runs it again
	Requests []requestJSON `json:"requests,omitempty"`
}

// requestJSON is one HTTP request of a case that failed.
type requestJSON struct {
	AtSeconds float64 `json:"atSeconds"`
	Method    string  `json:"method"`
	URL       string  `json:"url"`
	Step      string  `json:"step,omitempty"`
	Asked     string  `json:"asked,omitempty"` // headers that say which bytes, or on which condition
	Status    int     `json:"status"`
	Error     string  `json:"error,omitempty"`
	Sent      int64   `json:"sent"`
	Got       int64   `json:"got"`
}

func caseResultOf(r conformance.Result) caseResultJSON {
	out := caseResultJSON{
		Case: r.Case, Level: r.Level.String(), Outcome: string(r.Outcome), Rule: r.Rule, Seconds: seconds(r.Took), Why: r.Why, Violated: r.Detail,
	}
	if r.Outcome != conformance.Fail {
		return out
	}
	out.Notes, out.Again = r.Log, r.Again
	for _, q := range r.Wire {
		out.Requests = append(out.Requests, requestJSON{seconds(q.At), q.Method, q.URL, q.Step, q.Asked, q.Status, q.Err, q.Sent, q.Got})
	}
	return out
}

func (r *conformanceReport) add(res conformance.Result) {
	r.Results = append(r.Results, caseResultOf(res))
	s := &r.Summary
	s.Seed = res.Seed
	switch res.Outcome {
	case conformance.Pass:
		s.Passed++
	case conformance.Fail:
		s.Failed++
	case conformance.Deviates:
		s.Deviating++
	case conformance.Skip:
		s.Skipped++
		if s.SkippedBecause == nil {
			s.SkippedBecause = make(map[string]int)
		}
		s.SkippedBecause[res.Why]++
	}
}

// outdated reports whether what failed is the list of deviations alone: the cases pass.
func (r *conformanceReport) outdated() bool {
	failed := r.of(conformance.Fail)
	return len(failed) > 0 && !slices.ContainsFunc(failed, func(res *caseResultJSON) bool { return res.Why == "" })
}

// end completes a report, with its results in the order of names.
func (r *conformanceReport) end(err error, names []string) {
	r.Summary.Seconds = seconds(r.now().Sub(r.Started))
	r.Summary.NotRun = r.Cases - len(r.Results)
	if err != nil {
		r.Ended = err.Error()
	}
	place := make(map[string]int) // results come as cases end
	for i, name := range names {
		place[name] = i
	}
	slices.SortStableFunc(r.Results, func(a, b caseResultJSON) int {
		return cmp.Compare(place[a.Case+"/"+a.Level], place[b.Case+"/"+b.Level])
	})
}

// shownSettings are the settings of a driver for a report that may be published: no secrets, and of a URL neither user nor query.
func shownSettings(c *backends.Config, given map[string]string) map[string]string {
	out := make(map[string]string)
	for name := range given {
		text := c.Text(name)
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			u.User, u.RawQuery, u.Fragment = nil, "", ""
			text = u.String()
		}
		out[name] = text
	}
	return out
}

// reportFile is where a report goes. It is opened before the run, which takes its time.
type reportFile struct {
	f        *os.File // nil: nobody wants one
	markdown bool
}

func openReport(path string) (*reportFile, error) {
	if path == "" {
		return &reportFile{}, nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() { // a pipe would be waited for, and can be neither emptied nor synced
		return nil, usagef("--report: %s is %s; name a file, and read it when the run is over", path, kindOf(info.Mode()))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, usagef("--report: %v", err)
	}
	return &reportFile{f, filepath.Ext(path) == ".md"}, nil
}

func (w *reportFile) write(r *conformanceReport) error {
	if w.f == nil {
		return nil
	}
	defer w.f.Close()
	text := r.markdown()
	if !w.markdown {
		var err error
		if text, err = json.MarshalIndent(r, "", "  "); err != nil {
			return err
		}
		text = append(text, '\n')
	}
	if err := w.f.Truncate(0); err != nil {
		return err
	}
	if _, err := w.f.Write(text); err != nil {
		return err
	}
	return w.f.Sync()
}
