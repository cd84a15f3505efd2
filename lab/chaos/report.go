package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"payonce/lab/program"
)

// report of one run.
type report struct {
	Lab        string              `json:"lab"`
	Target     string              `json:"target"`
	PSP        string              `json:"psp,omitzero"` // the dialect
	Seed       uint64              `json:"seed"`
	Violations []program.Violation `json:"violations"`

	Seconds           float64                   `json:"seconds"`
	Requests          int                       `json:"requests"`
	Keys              int                       `json:"keys"`
	Charges           int                       `json:"charges"`
	Refunds           int                       `json:"refunds"`
	Unknown           int                       `json:"unknownEpisodes"`
	ConvergenceMedian float64                   `json:"convergenceMedianSeconds"`
	ConvergenceMax    float64                   `json:"convergenceMaxSeconds"`
	QuietAfter        float64                   `json:"quietAfterSeconds"`
	Books             books                     `json:"books"`
	Counts            map[string]map[string]int `json:"counts"`
	Kept              string                    `json:"kept,omitzero"`
}

func (r *report) violate(invariant, where, detail string) {
	r.Violations = append(r.Violations, program.Broken(invariant, where, detail))
}

// line is the whole run in one line.
func (r *report) line() string {
	words := []string{
		"chaos", r.Target, "seed=" + strconv.FormatUint(r.Seed, 10), "psp=" + cmp.Or(r.PSP, "native"),
		fmt.Sprintf("storm=%.0fs", r.Seconds),
		fmt.Sprintf("requests=%d", r.Requests), "answers{" + r.short("answer") + "}", "faults{" + r.short("fault") +
			"}",
		"webhooks{" + r.short("webhook") + "}", fmt.Sprintf("kills=%d", r.sum("kill -9")),
		fmt.Sprintf("pauses=%d", r.sum("pause")),
		fmt.Sprintf("crashes=%d", r.Counts["blow"]["crash-postgres"]),
		fmt.Sprintf("dropped-acks=%d", r.sum("dropped acknowledgement")),
		fmt.Sprintf("cut-rounds=%d", r.sum("cut round")), fmt.Sprintf("mangled-calls=%d", r.sum("mangled call")),
		fmt.Sprintf("charges=%d", r.Charges), fmt.Sprintf("refunds=%d", r.Refunds),
		"of-others{" + counts(r.Counts["outside refund"]) + "}", "dead letters{" + r.short("dead letter") + "}",
		"keys-used-again{" + r.short("key used again") + "}", "after-expired{" + r.short("answer after expired") + "}",
		"after-deleted{" + r.short("answer after deleted") + "}", "lies-refused{" + counts(r.Counts["lie refused"]) +
			"}",
		"statements{" + counts(r.Counts["statement"]) + "}",
		fmt.Sprintf("unknown=%d", r.Unknown), fmt.Sprintf("convergence p50=%.1fs max=%.1fs", r.ConvergenceMedian,
			r.ConvergenceMax),
		fmt.Sprintf("quiet-after=%.1fs", r.QuietAfter), fmt.Sprintf("keys=%d", r.Keys),
		fmt.Sprintf("books%+v", r.Books), fmt.Sprintf("violations=%d", len(r.Violations)),
	}
	return strings.Join(words, " ")
}

// short is a group in one line, with the codes of problems left out.
func (r *report) short(group string) string {
	t := map[string]int{}
	for name, n := range r.Counts[group] {
		name, _, _ = strings.Cut(name, " ")
		t[strings.TrimPrefix(name, "pm_")] += n
	}
	return counts(t)
}

// maxShown bounds how many violations are printed; the report has them all.
const maxShown = 20

// print writes the line, and what is wrong.
func (r *report) print(w io.Writer) {
	fmt.Fprintln(w, r.line())
	for i, v := range r.Violations {
		if i == maxShown {
			fmt.Fprintf(w, "  and %d more, in the report\n", len(r.Violations)-maxShown)
			break
		}
		fmt.Fprintf(w, "  VIOLATION %s %s: %s\n", v.Invariant, v.Where, v.Detail)
	}
	if r.Kept != "" {
		fmt.Fprintf(w, "  kept in %s\n", r.Kept)
	}
}

// save writes the report as JSON.
func (r *report) save(path string) error {
	if r.Violations == nil {
		r.Violations = []program.Violation{}
	}
	return program.Write(path, r)
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

func plural(n int) string { return strconv.Itoa(n) + " " }

// sum is that of a group of counts.
func (r *report) sum(group string) (sum int) {
	for _, n := range r.Counts[group] {
		sum += n
	}
	return sum
}
