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
	target  *target
	name    string
	rows    []*row
	missing []string // callers that were not run, and why
}

type row struct {
	caller caller
	cells  []*cell
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
	for _, row := range r.rows {
		for _, c := range row.cells {
			c.charges = charges[c.amount]
		}
	}
}

// String is the cell as the table has it.
func (c cell) String() string {
	if !c.played {
		return "–"
	}
	text := c.told.outcome()
	if c.silent {
		text = "no answer"
	} else if text == failed {
		text += fmt.Sprintf(" %d", c.told.Status)
	}
	if c.requests > 1 {
		text += fmt.Sprintf(" (%d)", c.requests)
	}
	if c.charges != 1 {
		text += fmt.Sprintf(", **charged %d times**", c.charges)
	}
	if !c.goesOn && !c.silent {
		text += ", **could not go on**"
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
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s %s |", row.caller.name, row.caller.version)
		for _, c := range row.cells {
			fmt.Fprintf(&b, " %s |", c)
		}
		b.WriteString("\n")
	}
	r.sum(&b, "told the success", func(c *cell) bool { return c.told.outcome() == success })
	r.sum(&b, "charged once", func(c *cell) bool { return c.charges == 1 })
	r.sum(&b, "could go on with the same key", func(c *cell) bool { return c.goesOn })
	for _, why := range r.missing {
		name, _, _ := strings.Cut(why, ": ") // the rest is about this machine
		fmt.Fprintf(&b, "\nNot run, because its program or library was not there: %s.\n", name)
	}
	return b.String()
}

// sum is a line of the table that counts.
func (r result) sum(b *strings.Builder, name string, counts func(*cell) bool) {
	fmt.Fprintf(b, "| **%s** |", name)
	for i := range faults {
		counted, played := 0, 0
		for _, row := range r.rows {
			played += count(row.cells[i].played)
			counted += count(row.cells[i].played && counts(row.cells[i]))
		}
		fmt.Fprintf(b, " %d of %d |", counted, played)
	}
	b.WriteString("\n")
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// columns say what happens in each column of a table.
func columns() string {
	text := "| column | what happens |\n|---|---|\n"
	for _, f := range faults {
		text += fmt.Sprintf("| %s | %s |\n", f.name, f.means)
	}
	return text
}

// put puts a text into the page, between the marks of that name.
func put(page, name, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, begins := strings.Cut(string(old), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return fmt.Errorf("write %s: it has no place that begins with %q and ends with %q", page, begin, end)
	}
	return os.WriteFile(page, []byte(before+begin+"\n"+text+"\n"+end+after), 0o644)
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
