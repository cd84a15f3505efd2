package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"payonce/lab/invariants"
)

// result is what has become of all callers at one server.
type result struct {
	name    string
	rows    []row
	missing []string // callers that were not run, and why
}

type row struct {
	caller caller
	cells  []cell
}

// cell is one caller under one fault.
type cell struct {
	fault    string
	amount   int64
	played   bool
	silent   bool // the caller did not answer in time
	told     told
	requests int // until it was told
	goesOn   bool
	charges  int
}

// judge reads from the PSP's ledger how often each payment was charged.
func (r *result) judge(ledger *invariants.Ledger) {
	charges := map[int64]int{}
	for _, c := range ledger.Charges {
		if c.Executed() {
			charges[c.AmountCents]++
		}
	}
	for i := range r.rows {
		for j := range r.rows[i].cells {
			c := &r.rows[i].cells[j]
			c.charges = charges[c.amount]
		}
	}
}

// String is the cell as the table has it.
func (c cell) String() string {
	text := "–"
	switch {
	case !c.played:
		return text
	case c.silent:
		text = "no answer"
	case c.told.outcome() == failed:
		text = fmt.Sprintf("failed %d · %d", c.told.Status, c.requests)
	default:
		text = fmt.Sprintf("%s · %d", c.told.outcome(), c.requests)
	}
	if c.charges != 1 {
		text += fmt.Sprintf(" **(charged %d times)**", c.charges)
	}
	if !c.goesOn {
		text += " **(could not go on)**"
	}
	return text
}

// table is Markdown: a row for each caller, a column for each fault, and the sums below.
func (r result) table() string {
	var b strings.Builder
	b.WriteString("| caller |")
	for _, f := range faults {
		b.WriteString(" " + f.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(faults)) + "\n")
	sums := make([]struct{ success, once, goesOn, played int }, len(faults))
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s %s |", row.caller.name, row.caller.version)
		for i, c := range row.cells {
			fmt.Fprintf(&b, " %s |", c)
			s := &sums[i]
			s.played += count(c.played)
			s.success += count(c.played && c.told.outcome() == success)
			s.once += count(c.played && c.charges == 1)
			s.goesOn += count(c.played && c.goesOn)
		}
		b.WriteString("\n")
	}
	line := func(name string, number func(i int) int) {
		fmt.Fprintf(&b, "| **%s** |", name)
		for i := range faults {
			fmt.Fprintf(&b, " %d of %d |", number(i), sums[i].played)
		}
		b.WriteString("\n")
	}
	line("told the success", func(i int) int { return sums[i].success })
	line("charged once", func(i int) int { return sums[i].once })
	line("could go on with the same key", func(i int) int { return sums[i].goesOn })
	for _, why := range r.missing {
		name, _, _ := strings.Cut(why, ": ")
		fmt.Fprintf(&b, "\nNot run, as its program or library is missing here: %s.\n", name)
	}
	return b.String()
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// writeTo puts the table into the page, between the marks that have its name.
func (r result) writeTo(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+r.name+" -->\n", "<!-- /"+r.name+" -->"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("write %s: it has no place that begins with %q and ends with %q", page, begin, end)
	}
	return os.WriteFile(page, []byte(before+begin+"\n"+r.table()+"\n"+end+after), 0o644) //nolint:gosec // a page for all
}

// verdict fails if anything was charged twice, or was told as paid and not charged.
func verdict(results []result) error {
	var errs []error
	for _, r := range results {
		for _, row := range r.rows {
			for _, c := range row.cells {
				if c.charges > 1 || c.played && c.charges == 0 && (c.goesOn || c.told.outcome() == success) {
					errs = append(errs, fmt.Errorf("%s, %s, %s: charged %d times, told %q", r.name, row.caller.name,
						c.fault, c.charges, c.told.outcome()))
				}
			}
		}
	}
	return errors.Join(errs...)
}
