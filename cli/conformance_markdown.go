package cli

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierkit/tierkit/conformance"
)

// whatThisIs is for a reader who has seen neither tierkit nor the suite.
const whatThisIs = `tierkit keeps the segments of Kafka's tiered storage in object stores. It relies on a contract that the driver of each store keeps (package ` + "`backends`" + `). The conformance suite tries that
contract out on a live store: each case below stands for one sentence of it. A case whose name ends with ` + "`/driver`" + ` calls the driver itself, one with ` + "`/store`" + ` the layer that tierkit puts
around every driver, which checks arguments, resumes reads that broke and hides prefixes.
`

// markdown is the report for people who have not seen the code: what failed comes first, with everything that is needed to understand it.
func (r *conformanceReport) markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Conformance of driver %s\n\n%s\n\n%s\n", r.Driver, r.verdict(), whatThisIs)
	r.facts(&b)
	failed := r.of(conformance.Fail)
	if len(failed) > 1 {
		b.WriteString("\n## What failed\n\n| case | what must hold |\n| --- | --- |\n")
		for _, res := range failed {
			fmt.Fprintf(&b, "| %s/%s | %s |\n", res.Case, res.Level, cellMarkdown(res.Rule))
		}
	}
	for _, res := range failed {
		res.markdown(&b)
	}
	if known := r.of(conformance.Deviates); len(known) > 0 {
		fmt.Fprintf(&b, "\n## Known to fail\n\nThese cases failed too, as `--deviations %s` said of the store. Had one passed, the run would have failed.\n\n| case | what must hold | why it does not |\n| --- | --- | --- |\n", r.Deviations)
		for _, res := range known {
			fmt.Fprintf(&b, "| %s/%s | %s | %s |\n", res.Case, res.Level, cellMarkdown(res.Rule), cellMarkdown(res.Why))
		}
	}
	if len(r.Summary.SkippedBecause) > 0 {
		b.WriteString("\n## Skipped\n\n| cases | because |\n| --- | --- |\n")
		for _, why := range slices.Sorted(maps.Keys(r.Summary.SkippedBecause)) {
			fmt.Fprintf(&b, "| %d | %s |\n", r.Summary.SkippedBecause[why], cellMarkdown(why))
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

// of returns the results with an outcome.
func (r *conformanceReport) of(o conformance.Outcome) (out []*caseResultJSON) {
	for i := range r.Results {
		if r.Results[i].Outcome == string(o) {
			out = append(out, &r.Results[i])
		}
	}
	return out
}

// verdict is a sentence or two, and says no more than was checked.
func (r *conformanceReport) verdict() string {
	const with = " with the store of this configuration"
	s := r.Summary
	text := "The driver **keeps the contract**" + with + "."
	switch {
	case r.outdated():
		text = "The **list of deviations is out of date**: what it lists passes" + with + "."
	case s.Failed > 0:
		text = "The driver **does not keep the contract**" + with + "."
	case r.Ended != "":
		text = "Whether the driver keeps the contract" + with + " **was not checked to the end**."
	case r.Run != "":
		text = "The driver **keeps what was checked, a part of the contract,**" + with + "."
	case s.Deviating > 0:
		text = "The driver **keeps the contract, but for what is known of the store** (see below)" + with + "."
	}
	if r.Ended != "" {
		text += fmt.Sprintf(" The run ended early, %d cases were not run to their end: %s.", s.NotRun, strings.TrimSuffix(oneLineMarkdown(r.Ended), "."))
	}
	if s.Deviating > 0 && (s.Failed > 0 || r.Ended != "" || r.Run != "") {
		text += " Cases that the store is known to fail have failed too (see below)."
	}
	return text
}

// facts are what was run.
func (r *conformanceReport) facts(b *bytes.Buffer) {
	s := r.Summary
	cases := "all"
	if r.Run != "" {
		cases = "those that match `" + r.Run + "`"
	}
	rows := [][2]string{
		{"tierkit", r.Version}, {"built with", r.Go + ", " + r.Platform}, {"driver", r.Driver}, {"configuration", r.Config},
	}
	for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
		rows = append(rows, [2]string{"`" + name + "`", r.Settings[name]})
	}
	if r.Prefix != "" {
		rows = append(rows, [2]string{"`key.prefix`", r.Prefix})
	}
	rows = append(rows, [][2]string{
		{"started", r.Started.Format(time.RFC3339)}, {"took", fmt.Sprintf("%.1f s", s.Seconds)},
		{"scale", r.Scale}, {"cases", cases}, {"seed", fmt.Sprint(s.Seed)}, {"passed", fmt.Sprint(s.Passed)}, {"failed", fmt.Sprint(s.Failed)},
		{"known to fail", fmt.Sprint(s.Deviating)}, {"skipped", fmt.Sprint(s.Skipped)}, {"not run", fmt.Sprint(s.NotRun)},
	}...)
	b.WriteString("| | |\n| --- | --- |\n")
	for _, row := range rows {
		fmt.Fprintf(b, "| %s | %s |\n", row[0], cellMarkdown(row[1]))
	}
}

// markdown is one failure.
func (r *caseResultJSON) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## Failed: %s/%s\n\n**What must hold:** %s\n\n**What was violated** (behind the place in package `conformance` that checks it):\n\n%s\n", r.Case, r.Level, r.Rule, block(r.Violated))
	if len(r.Notes) > 0 {
		fmt.Fprintf(b, "\n**Notes of the case:**\n\n%s\n", block(r.Notes))
	}
	fmt.Fprintf(b, "\n**Run it again**, with the same bytes and keys:\n\n%s\n", block([]string{r.Again}))
	if len(r.Requests) == 0 {
		return
	}
	b.WriteString("\n**The requests on the wire**, as the driver sent them, each attempt and those of the clean-up too: seconds since the case began, request, [what it was for], {the bytes or the condition that its headers ask for}, bytes sent, status, bytes received.\n\n")
	var lines []string
	for _, q := range r.Requests {
		answer := fmt.Sprintf("%d, got %d", q.Status, q.Got)
		switch {
		case q.Error != "":
			answer = "no answer: " + q.Error
		case q.Status == 0:
			answer = "no answer yet"
		}
		step := ""
		if q.Step != "" {
			step = "[" + q.Step + "]  "
		}
		if q.Asked != "" {
			step += "{" + q.Asked + "}  "
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
