package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
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

Written by ` + "`bin/mutants score`" + ` after ` + "`make mutants`" + `. What is tried, and why: ADR 0051. *Caught* means that a test fails, or hangs, when the
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

// share is SHARE: so many parts of so many.
func (s settings) share() (part, of int, err error) {
	first, second, found := strings.Cut(s.Share, "/")
	part, errPart := strconv.Atoi(first)
	of, errOf := strconv.Atoi(second)
	if !found || errors.Join(errPart, errOf) != nil || part < 1 || of < part {
		return 0, 0, fmt.Errorf("SHARE is %q, must be like 1/5", s.Share)
	}
	return part, of, nil
}

// chosen are the mutants that the settings ask for. What is caught is not tried again, nor what survives for a reason.
// COUNT asks for a sample of all that must be caught. It leaves out what is known to hang: that takes minutes.
func (w *work) chosen() []mutant {
	var asked []mutant
	for _, m := range w.plan.mutants {
		if w.Package == "" || asks(w.Package, m) {
			asked = append(asked, m)
		}
	}
	if part, of, _ := w.share(); part < of || w.Count > 0 {
		random := rand.New(rand.NewPCG(w.Seed, w.Seed))
		random.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
		asked = asked[:len(asked)*part/of]
	}
	var chosen []mutant
	for _, m := range asked {
		r := w.known[m.hash].verdict
		hasVerdict := r == caught || r == hung || r == survived && reasonFor(w.survivors, m) != ""
		switch {
		case w.Count > 0 && len(chosen) == w.Count:
			return chosen
		case w.Count > 0 && r != hung && reasonFor(w.survivors, m) == "", w.Count == 0 && (w.Fresh || !hasVerdict):
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// asks tells whether PACKAGE names the place of a mutant: its package, its file, the directory of an SQL file, or, as
// for go, all below a directory with /... after it.
func asks(names string, m mutant) bool {
	where := m.where
	for name := range strings.SplitSeq(names, ",") {
		name = strings.Trim(name, " /")
		below, all := strings.CutSuffix(name, "/...")
		itself := where == name || strings.HasPrefix(m.line, name+":")
		of := strings.HasSuffix(where, ".sql") && path.Dir(where) == name
		if itself || of || all && (where == below || strings.HasPrefix(where, below+"/")) {
			return true
		}
	}
	return false
}

// checkPackage fails if a name in PACKAGE fits no place.
func (w *work) checkPackage() error {
	for name := range strings.SplitSeq(w.Package, ",") {
		if w.Package != "" && !slices.ContainsFunc(w.plan.mutants, func(m mutant) bool { return asks(name, m) }) {
			return fmt.Errorf("PACKAGE names %q, where nothing is taken away; mutants score lists the places", name)
		}
	}
	return nil
}
