package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"payonce/internal/tenants"
)

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
