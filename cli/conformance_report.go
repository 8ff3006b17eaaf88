package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tierkit/tierkit/conformance"
)

// conformanceReport is a run of the suite: the JSON shape of --report FILE.json.
type conformanceReport struct {
	Driver  string             `json:"driver"`
	Version string             `json:"version"` // of tierkit
	Config  string             `json:"config"`
	Scale   string             `json:"scale"`
	Run     string             `json:"run"` // "": all cases, else only those that match
	Started time.Time          `json:"started"`
	Ended   string             `json:"ended"` // "", or why the run ended before its end
	Summary conformanceSummary `json:"summary"`
	Results []caseResultJSON   `json:"results"`

	now func() time.Time
}

type conformanceSummary struct {
	Passed         int            `json:"passed"`
	Failed         int            `json:"failed"`
	Deviating      int            `json:"deviating"`
	Skipped        int            `json:"skipped"`
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
	Again    string        `json:"again,omitempty"` // the arguments that run it again
	Requests []requestJSON `json:"requests,omitempty"`
}

// requestJSON is one HTTP request of a case that failed.
type requestJSON struct {
	AtSeconds float64 `json:"atSeconds"`
	Method    string  `json:"method"`
	URL       string  `json:"url"`
	Step      string  `json:"step,omitempty"`
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
	out.Notes, out.Again = r.Log, fmt.Sprintf("--run '^%s$' --seed %d", r.Name(), r.Seed)
	for _, q := range r.Wire {
		out.Requests = append(out.Requests, requestJSON{seconds(q.At), q.Method, q.URL, q.Step, q.Status, q.Err, q.Sent, q.Got})
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

func (r *conformanceReport) end(err error) {
	r.Summary.Seconds = seconds(r.now().Sub(r.Started))
	if err != nil {
		r.Ended = err.Error()
	}
}

// markdown is the report for people who have not seen the code: what failed comes first, with everything that is needed to understand it.
func (r *conformanceReport) markdown() []byte {
	var b bytes.Buffer
	s := r.Summary
	fmt.Fprintf(&b, "# Conformance of driver %s\n\n", r.Driver)
	verdict := "keeps the contract"
	switch {
	case s.Failed > 0:
		verdict = "does not keep the contract"
	case r.Ended != "":
		verdict = "was not checked to the end: " + oneLineMarkdown(r.Ended)
	case r.Run != "":
		verdict = "keeps what was checked, a part of the contract,"
	}
	fmt.Fprintf(&b, "The driver **%s** with the store of this configuration. ", verdict)
	fmt.Fprintf(&b, "Each case below stands for one sentence of the contract of tierkit's package `backends`.\n\n")
	fmt.Fprintf(&b, "| | |\n| --- | --- |\n")
	cases := "all"
	if r.Run != "" {
		cases = "those that match `" + r.Run + "`"
	}
	for _, row := range [][2]string{
		{"tierkit", r.Version}, {"configuration", r.Config}, {"started", r.Started.Format(time.RFC3339)}, {"took", fmt.Sprintf("%.1f s", s.Seconds)},
		{"scale", r.Scale}, {"cases", cases}, {"seed", fmt.Sprint(s.Seed)}, {"passed", fmt.Sprint(s.Passed)}, {"failed", fmt.Sprint(s.Failed)}, {"skipped", fmt.Sprint(s.Skipped)},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], cellMarkdown(row[1]))
	}
	for i := range r.Results {
		if res := &r.Results[i]; res.Outcome == string(conformance.Fail) {
			res.markdown(&b, r.Config)
		}
	}
	b.WriteString("\n## The cases\n\n| case | outcome | seconds | what must hold |\n| --- | --- | --- | --- |\n")
	for i := range r.Results {
		res := &r.Results[i]
		outcome := res.Outcome
		if res.Why != "" {
			outcome += ": " + res.Why
		}
		fmt.Fprintf(&b, "| %s/%s | %s | %.2f | %s |\n", res.Case, res.Level, cellMarkdown(outcome), res.Seconds, cellMarkdown(res.Rule))
	}
	return b.Bytes()
}

// markdown is one failure.
func (r *caseResultJSON) markdown(b *bytes.Buffer, config string) {
	fmt.Fprintf(b, "\n## Failed: %s/%s\n\n**What must hold:** %s\n\n**What was violated:**\n\n%s\n", r.Case, r.Level, r.Rule, block(r.Violated))
	if len(r.Notes) > 0 {
		fmt.Fprintf(b, "\n**Notes of the case:**\n\n%s\n", block(r.Notes))
	}
	fmt.Fprintf(b, "\n**Run it again:** `tierkit conformance --config %s %s`\n", config, r.Again)
	if len(r.Requests) == 0 {
		return
	}
	b.WriteString("\n**The requests on the wire**, each attempt and those of the clean-up too: seconds since the case began, request, what it was for, bytes sent, status, bytes received.\n\n")
	var lines []string
	for _, q := range r.Requests {
		answer := fmt.Sprintf("%d, got %d", q.Status, q.Got)
		if q.Error != "" {
			answer = "no answer: " + q.Error
		}
		step := ""
		if q.Step != "" {
			step = "[" + q.Step + "]  "
		}
		lines = append(lines, fmt.Sprintf("%8.3f  %-6s %s  %ssent %d -> %s", q.AtSeconds, q.Method, q.URL, step, q.Sent, answer))
	}
	b.WriteString(block(lines) + "\n")
}

// block is text as it is, whatever it holds.
func block(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		for part := range strings.SplitSeq(line, "\n") {
			b.WriteString("    " + printable(part) + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func cellMarkdown(s string) string { return strings.ReplaceAll(oneLineMarkdown(s), "|", `\|`) }

func oneLineMarkdown(s string) string { return printable(strings.Join(strings.Fields(s), " ")) }

// reportFile is where a report goes. It is opened before the run, which takes its time.
type reportFile struct {
	f        *os.File // nil: nobody wants one
	markdown bool
}

func openReport(path string) (*reportFile, error) {
	if path == "" {
		return &reportFile{}, nil
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
