package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// list prints each mutant that PACKAGE asks for.
func (w *work) list() error {
	columns := tabwriter.NewWriter(w.stdout, 0, 0, 2, ' ', 0)
	for _, m := range w.plan.mutants {
		if w.Package != "" && !asks(w.Package, m) {
			continue
		}
		r := w.known[m.hash]
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", cmp.Or(r.verdict, "not tried"), m.line, m.id(), r.by)
	}
	return columns.Flush()
}

// tally counts verdicts.
type tally struct{ all, tried, caught, allowed, survived int }

func (t *tally) add(r result, reason string) {
	t.all++
	switch {
	case r.verdict == caught || r.verdict == hung:
		t.tried++
		t.caught++
	case r.verdict == survived && reason != "":
		t.tried++
		t.allowed++
	case r.verdict == survived:
		t.tried++
		t.survived++
	}
}

// score prints how many mutants are caught, by package and by kind, and why others may survive.
func (w *work) score() error {
	byPlace, byKind, reasons := map[string]*tally{}, map[string]*tally{}, map[string]int{}
	for _, m := range w.plan.mutants {
		reason := reasonFor(w.survivors, m)
		r := w.known[m.hash]
		for _, t := range []*tally{entry(byPlace, m.where), entry(byPlace, "all"), entry(byKind, string(m.kind))} {
			t.add(r, reason)
		}
		if r.verdict == survived && reason != "" {
			reasons[reason]++
		}
	}
	fmt.Fprint(w.stdout, introduction)
	w.table("where", byPlace)
	w.table("what is taken away", byKind)
	fmt.Fprint(w.stdout, "| survives, because | mutants |\n|---|---|\n")
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(w.stdout, "| %s | %d |\n", reason, reasons[reason])
	}
	return nil
}

const introduction = `# The score of the mutants

Written by ` + "`bin/mutants score`" + ` after ` + "`make mutants`" + `. What is tried, and why: ADR 0051. *Caught* means that a test of ` + "`make test`" + ` fails, or hangs, when the
condition is taken away. What is not tried has no verdict yet: it is neither caught nor a survivor.

`

func entry(m map[string]*tally, name string) *tally {
	if m[name] == nil {
		m[name] = &tally{}
	}
	return m[name]
}

func (w *work) table(title string, rows map[string]*tally) {
	fmt.Fprintf(w.stdout, "| %s | mutants | tried | caught | survive with a reason | survive without one |\n", title)
	fmt.Fprint(w.stdout, "|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t := rows[name]
		fmt.Fprintf(w.stdout, "| %s | %d | %d | %d | %d | %d |\n", strings.TrimSpace(name), t.all, t.tried, t.caught,
			t.allowed, t.survived)
	}
	fmt.Fprintln(w.stdout)
}
