package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/tenants"
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
	sum := func(name string) int { return group(name)(r) }
	words := []string{
		"chaos", r.Target, "seed=" + strconv.FormatUint(r.Seed, 10), "psp=" + cmp.Or(r.PSP, "native"),
		fmt.Sprintf("storm=%.0fs", r.Seconds),
		fmt.Sprintf("requests=%d", r.Requests), "answers{" + r.short("answer") + "}", "faults{" + r.short("fault") +
			"}",
		"webhooks{" + r.short("webhook") + "}", fmt.Sprintf("kills=%d", sum("kill -9")),
		fmt.Sprintf("pauses=%d", sum("pause")),
		fmt.Sprintf("crashes=%d", r.Counts["blow"]["crash-postgres"]),
		fmt.Sprintf("dropped-acks=%d", sum("dropped acknowledgement")),
		fmt.Sprintf("cut-rounds=%d", sum("cut round")), fmt.Sprintf("mangled-calls=%d", sum("mangled call")),
		fmt.Sprintf("charges=%d", r.Charges), fmt.Sprintf("refunds=%d", r.Refunds),
		"of-others{" + counts(r.Counts["outside refund"]) + "}", "dead letters{" + r.short("dead letter") + "}",
		"keys-used-again{" + r.short("key used again") + "}", "after-expired{" + r.short("answer after expired") + "}",
		"after-deleted{" + r.short("answer after deleted") + "}", "lies-refused{" + counts(r.Counts["lie refused"]) +
			"}",
		"statements{" + counts(r.Counts["statement"]) + "}",
		fmt.Sprintf("unknown=%d", r.Unknown), fmt.Sprintf("convergence p50=%.1fs max=%.1fs", r.ConvergenceMedian,
			r.ConvergenceMax),
		fmt.Sprintf("quiet-after=%.1fs", r.QuietAfter), fmt.Sprintf("keys=%d", r.Keys),
		fmt.Sprintf("violations=%d", len(r.Violations)),
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

// compared is one line of a comparison between two targets.
type compared struct {
	what string
	of   func(*report) int
}

// comparison is what can be seen of any server from outside: by its clients, and in the PSP's ledger.
func comparison() []compared {
	return []compared{
		{"requests", func(r *report) int { return r.Requests }},
		{"orders", func(r *report) int { return r.Books.Orders }},
		{"told paid", func(r *report) int { return r.Books.Paid }},
		{"charged twice or more: orders", func(r *report) int { return r.Books.ChargedTwice }},
		{"charged twice or more: surplus charges", func(r *report) int { return r.Books.SurplusCharges }},
		{"charged, but told it has failed", func(r *report) int { return r.Books.ChargedToldFailed }},
		{"told paid, but never charged", func(r *report) int { return r.Books.ToldPaidNotCharged }},
		{"another order's answer", func(r *report) int { return r.Books.OthersAnswer }},
		{"two different final answers", func(r *report) int { return r.Books.DifferentReplays }},
		{"lost: charged, and the server has no such payment", func(r *report) int { return r.Books.Lost }},
	}
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

func plural(n int) string { return strconv.Itoa(n) + " " }

// markdown turns reports into a table of bin/reports/correctness.md, with one column for each report. Reports of one
// target are compared by what happened in the runs. Reports of different targets are compared by what the clients saw
// and what the PSP charged.
func markdown(out io.Writer, files []string) error {
	reports, err := readReports(files)
	if err != nil {
		return err
	}
	rows := stormRows()
	heading := func(r *report) string {
		if r.PSP == string(tenants.Stripe) {
			return "Stripe, seed " + strconv.FormatUint(r.Seed, 10)
		}
		return "seed " + strconv.FormatUint(r.Seed, 10)
	}
	if slices.ContainsFunc(reports, func(r *report) bool { return r.Target != reports[0].Target }) {
		rows, heading = nil, func(r *report) string { return r.Target }
		for _, row := range comparison() {
			rows = append(rows, tableRow{row.what, func(r *report) string { return strconv.Itoa(row.of(r)) }})
		}
	}
	var b strings.Builder
	line := func(name string, of func(*report) string) {
		b.WriteString("| " + name)
		for _, r := range reports {
			b.WriteString(" | " + of(r))
		}
		b.WriteString(" |\n")
	}
	line("", heading)
	b.WriteString("|---|" + strings.Repeat("--:|", len(reports)) + "\n")
	for _, row := range rows {
		line(row.name, row.of)
	}
	_, err = io.WriteString(out, b.String())
	return err
}

func readReports(files []string) ([]*report, error) {
	if len(files) == 0 {
		return nil, errors.New("name the reports: chaos markdown FILE …")
	}
	var reports []*report
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read a report: %w", err)
		}
		r := &report{}
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, fmt.Errorf("read the report %s: %w", name, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// tableRow is one line of the table.
type tableRow struct {
	name string
	of   func(*report) string
}

// stormRows are what happened in a run, and what was wrong.
func stormRows() []tableRow {
	number := func(of func(*report) int) func(*report) string {
		return func(r *report) string { return strconv.Itoa(of(r)) }
	}
	several := func(of ...func(*report) int) func(*report) string {
		return func(r *report) string {
			var numbers []string
			for _, each := range of {
				numbers = append(numbers, strconv.Itoa(each(r)))
			}
			return strings.Join(numbers, ", ")
		}
	}
	answers := func(status string) func(*report) int {
		return func(r *report) int {
			n := 0
			for name, count := range r.Counts["answer"] {
				if name == status || strings.HasPrefix(name, status+" ") {
					n += count
				}
			}
			return n
		}
	}
	return []tableRow{
		{"requests", number(func(r *report) int { return r.Requests })},
		{"answered 201, 402, 202", several(answers("201"), answers("402"), answers("202"))},
		{"409, 422, 503, none", several(answers("409"), answers("422"), answers("503"), answers("none"))},
		{"kill -9, pauses, crashes of PostgreSQL", several(group("kill -9"), group("pause"),
			func(r *report) int { return r.Counts["blow"]["crash-postgres"] })},
		{"acknowledgements dropped, round trips cut, PSP calls damaged",
			several(group("dropped acknowledgement"), group("cut round"), group("mangled call"))},
		{"charges, refunds",
			several(func(r *report) int { return r.Charges }, func(r *report) int { return r.Refunds })},
		{"of these refunds, made by others: in part, whole", several(outsideRefunds("part"), outsideRefunds("whole"))},
		{"keys that are left at the end; times that a key became unknown",
			several(func(r *report) int { return r.Keys }, func(r *report) int { return r.Unknown })},
		{"unknown for, median and longest", func(r *report) string {
			return fmt.Sprintf("%.1f s, %.1f s", r.ConvergenceMedian, r.ConvergenceMax)
		}},
		{"dead letters", func(r *report) string {
			var kinds []string
			for _, kind := range slices.Sorted(maps.Keys(r.Counts["dead letter"])) {
				kinds = append(kinds, fmt.Sprintf("%s: %d", strings.ReplaceAll(kind, "_", `\_`),
					r.Counts["dead letter"][kind]))
			}
			return strings.Join(kinds, ", ")
		}},
		{"**violations**", func(r *report) string { return fmt.Sprintf("**%d**", len(r.Violations)) }},
	}
}

func outsideRefunds(how string) func(*report) int {
	return func(r *report) int { return r.Counts["outside refund"][how] }
}

// group returns the sum of a group of counts.
func group(name string) func(*report) int {
	return func(r *report) int {
		n := 0
		for _, count := range r.Counts[name] {
			n += count
		}
		return n
	}
}
