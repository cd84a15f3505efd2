package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const aloneIntroduction = `# Which check is alone

Written by ` + "`bin/mutants alone`" + `. Of the mutants that a test catches, some are drawn. Those
that the short matrix and the short chaos run reach are given to both, which go on to their ends. The tables say what
saw a mutant, and what was the only one to see it. Nothing is taken out of the proofs for it: a check that is never
alone here may be alone for a bug that nobody has thought of.

A cell of the matrix is a way through the program, a crash window on it ([crash_windows.md](crash_windows.md)) and a
fault at this window; a scene is a longer story. The chaos run counts as one cell and one fault. *case* means that what
a cell itself expects did not come, or that a lab could not go on; *start* means that a lab ended without a report.

`

// view is one way to tell apart what saw the mutants, such as by invariant.
type view struct {
	title string
	saw   map[string][]string // by name: the hashes of mutants, each once
	names func(invariant string, places []string) []string
	brief bool // it is long, so only what was alone is printed
}

// printAlone prints the tables.
func (w *work) printAlone(drawn []mutant, observed map[string]observation) error {
	views := []view{
		{title: "invariant", names: func(invariant string, _ []string) []string { return []string{invariant} }},
		{title: "fault", names: func(_ string, places []string) []string { return each(places, faultOf) }},
		{title: "cell", names: func(_ string, places []string) []string { return each(places, cellOf) }, brief: true},
	}
	for i := range views {
		views[i].saw = map[string][]string{}
	}
	unreached := 0
	var seen, unseen []string
	for _, m := range drawn {
		s := observed[m.hash]
		if !observed[noMutant].reaches(m) {
			unreached++
			continue
		}
		if len(s.Violations) == 0 {
			unseen = append(unseen, "| "+inCode(s.ID)+" |")
			continue
		}
		var by []string
		for _, invariant := range sortedKeys(s.Violations) {
			places := s.Violations[invariant]
			for _, v := range views {
				for _, name := range v.names(invariant, places) {
					note(v.saw, name, m.hash)
				}
			}
			by = append(by, fmt.Sprintf("%s in %s", invariant, several(each(places, cellOf))))
		}
		seen = append(seen, fmt.Sprintf("| %s | %s |", inCode(s.ID), strings.Join(by, "; ")))
	}
	fmt.Fprint(w.stdout, aloneIntroduction)
	fmt.Fprintf(w.stdout, "%d mutants, seed %d: %d are in places that these runs do not reach, %d were seen, %d were not.\n\n",
		len(drawn), w.Seed, unreached, len(seen), len(unseen))
	for _, v := range views {
		v.print(w, observed)
	}
	fmt.Fprintf(w.stdout, "| seen | by what |\n|---|---|\n%s\n\n| reached, and seen by tests alone |\n|---|\n%s\n",
		strings.Join(seen, "\n"), strings.Join(unseen, "\n"))
	return nil
}

func (v view) print(w *work, observed map[string]observation) {
	title := v.title
	if v.brief {
		title += " that was alone at least once"
	}
	fmt.Fprintf(w.stdout, "| %s | saw | alone | which |\n|---|---|---|---|\n", title)
	for _, name := range slices.Sorted(maps.Keys(v.saw)) {
		var ids []string
		for _, hash := range v.saw[name] {
			if onlyOne(v.saw, hash) {
				ids = append(ids, inCode(observed[hash].ID))
			}
		}
		if len(ids) > 0 || !v.brief {
			fmt.Fprintf(w.stdout, "| %s | %d | %d | %s |\n", name, len(v.saw[name]), len(ids), strings.Join(ids, "; "))
		}
	}
	fmt.Fprintln(w.stdout)
}

// each is what f makes of the places, each once.
func each(places []string, f func(string) string) (names []string) {
	for _, place := range places {
		if name := f(place); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// several names a few, and counts them if they are many.
func several(names []string) string {
	const shown = 4
	if len(names) > shown {
		return fmt.Sprintf("%d cells, such as %s", len(names), names[0])
	}
	return strings.Join(names, ", ")
}

// inCode is a text that a table of Markdown shows as it is. Two backticks enclose a text that has one.
func inCode(text string) string { return "`` " + strings.ReplaceAll(text, "|", "\\|") + " ``" }

// note adds a mutant to what a check has seen.
func note(saw map[string][]string, check, hash string) {
	if !slices.Contains(saw[check], hash) {
		saw[check] = append(saw[check], hash)
	}
}

// onlyOne tells whether a single entry has seen a mutant.
func onlyOne(saw map[string][]string, hash string) bool {
	n := 0
	for _, hashes := range saw {
		if slices.Contains(hashes, hash) {
			n++
		}
	}
	return n == 1
}

// cellOf is the cell of a place, without the key that was hit in it, or the lab if it has no cell.
func cellOf(place string) string {
	lab, rest, _ := strings.Cut(place, " ")
	cell, _, _ := strings.Cut(rest, " ")
	if lab == "chaos" || cell == "" {
		return lab
	}
	return cell
}

// faultOf is the fault of a cell, or the chaos run as a whole: there, many faults happen at once.
func faultOf(place string) string {
	cell := cellOf(place)
	return cell[strings.LastIndex(cell, "/")+1:]
}
