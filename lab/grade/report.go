package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"payonce/lab/grade/judge"
	"payonce/lab/grade/plan"
)

// report is what a run has found.
type report struct {
	Target  string        `json:"target"`
	Profile string        `json:"profile"`
	Seed    uint64        `json:"seed"`
	Marks   int           `json:"marks"`
	Of      int           `json:"of"`
	Levels  []levelReport `json:"levels"`
	// Ended is why not all levels were tried. Hint is what may be wrong with the profile.
	Ended   string          `json:"ended,omitempty"`
	Hint    string          `json:"hint,omitempty"`
	Unclear map[string]int  `json:"answersWithoutMeaning,omitempty"`
	First   *broken         `json:"first,omitempty"`
	later   judge.Invariant // what is not drawn, since a later lesson is about it; or ""
	failed  int             // answers that say that the server has failed
}

type levelReport struct {
	Level    int                       `json:"level"`
	Name     string                    `json:"name"`
	Of       map[judge.Invariant]count `json:"invariants"`
	Broken   []broken                  `json:"broken,omitempty"`
	NotShown []notShown                `json:"notShown,omitempty"`
}

// notShown is a case that could not be played.
type notShown struct {
	Case string `json:"case"`
	Why  string `json:"why"`
}

// count is for one invariant at one level: a payment each.
type count struct {
	Held  int `json:"held"`
	Shown int `json:"shown"`
}

// broken is an invariant that does not hold.
type broken struct {
	Level     int             `json:"level"`
	Case      string          `json:"case"`
	Invariant judge.Invariant `json:"invariant"`
	Why       string          `json:"why"`
	Intent    int             `json:"-"`
	Tries     int             `json:"historiesTried,omitempty"`
	HTML      string          `json:"html,omitempty"`
	run       judge.Run
}

// newReport judges the runs of the levels that were played.
func newReport(s settings, levels [][]judge.Run) *report {
	r := &report{Target: s.target, Profile: s.profile.Name, Seed: s.seed}
	if s.exercise != nil {
		r.later = s.exercise.later
	}
	for i, runs := range levels {
		r.add(s.levels[i], runs)
	}
	return r
}

// add judges the runs of a level.
func (r *report) add(level int, runs []judge.Run) {
	l := levelReport{Level: level, Name: plan.Levels()[level-1], Of: map[judge.Invariant]count{}}
	for _, run := range runs {
		if run.NotShown != "" {
			l.NotShown = append(l.NotShown, notShown{run.Case.Name, run.NotShown})
			continue
		}
		for _, a := range run.Answers {
			if a.Status >= http.StatusInternalServerError {
				r.failed++
			}
		}
		for _, v := range judge.Judge(run) {
			n := l.Of[v.Invariant]
			n.Shown++
			if v.Why == "" {
				n.Held++
			} else {
				l.Broken = append(l.Broken, broken{Level: level, Case: run.Case.Name, Invariant: v.Invariant,
					Why: v.Why, Intent: v.Intent, run: run})
			}
			l.Of[v.Invariant] = n
		}
	}
	slices.SortStableFunc(l.Broken, func(a, b broken) int { return place(a.Invariant) - place(b.Invariant) })
	for _, n := range l.Of {
		r.Of++
		if n.Held == n.Shown {
			r.Marks++
		}
	}
	// Of all that is broken, what costs money is drawn.
	i := slices.IndexFunc(l.Broken, func(b broken) bool { return b.Invariant != r.later })
	if i >= 0 && (r.First == nil || place(l.Broken[i].Invariant) < place(r.First.Invariant)) {
		first := l.Broken[i]
		r.First = &first
	}
	r.Levels = append(r.Levels, l)
}

// place of an invariant in the table: what costs money comes first.
func place(i judge.Invariant) int {
	for n, other := range judge.Invariants() {
		if other.Name == i {
			return n
		}
	}
	return -1
}

func (r *report) writeJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

const levelWidth = 32

// writeTable prints one line for each level, and one column for each invariant.
func (r *report) writeTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, profile %s, seed %d\n\n%-*s", r.Target, r.Profile, r.Seed, levelWidth, "level")
	for _, i := range judge.Invariants() {
		fmt.Fprintf(&b, "  %-7s", i.Name)
	}
	b.WriteString("\n")
	for _, l := range r.Levels {
		line := pad(fmt.Sprintf("%2d  %s", l.Level, l.Name), levelWidth)
		if len(l.Of) == 0 {
			fmt.Fprintln(&b, line+"  not shown")
			continue
		}
		for _, i := range judge.Invariants() {
			line += "  " + pad(l.cell(i.Name), 7) //nolint:mnd // the longest name
		}
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	b.WriteString("\nok: held for every payment; 2/5: held for two of five; –: nothing was tried, or no final answer came\n")
	for _, i := range judge.Invariants() {
		fmt.Fprintf(&b, "  %-8s %s\n", i.Name, i.Says)
	}
	r.writeDetails(&b)
	fmt.Fprintf(&b, "\n%d of %d marks\n", r.Marks, r.Of)
	_, err := io.WriteString(w, b.String())
	return err
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func (l levelReport) cell(i judge.Invariant) string {
	n, shown := l.Of[i]
	switch {
	case !shown:
		return "–"
	case n.Held == n.Shown:
		return "ok"
	}
	return fmt.Sprintf("%d/%d", n.Held, n.Shown)
}

func (r *report) writeDetails(b *strings.Builder) {
	heading := "\nbroken:\n"
	for _, l := range r.Levels {
		for i, x := range l.Broken {
			if i > 0 && l.Broken[i-1].Invariant == x.Invariant {
				continue // one example is enough
			}
			n := l.Of[x.Invariant]
			fmt.Fprintf(b, "%s  level %d, %s: %s: %s", heading, x.Level, x.Invariant, x.Case, x.Why)
			if more := n.Shown - n.Held - 1; more > 0 {
				fmt.Fprintf(b, " (and %d more)", more)
			}
			b.WriteString("\n")
			heading = ""
		}
	}
	r.writeNotShown(b)
	if len(r.Unclear) > 0 {
		b.WriteString("\nanswers that the profile has no meaning for:\n")
		for text, n := range r.Unclear {
			fmt.Fprintf(b, "  %s (%d times)\n", text, n)
		}
	}
	if r.Hint != "" {
		fmt.Fprintf(b, "\nhint: %s\n", r.Hint)
	}
	if r.Ended != "" {
		fmt.Fprintf(b, "\nthe run has ended here: %s\n", r.Ended)
	}
	if r.First != nil && r.First.HTML != "" {
		small := ""
		if r.First.Tries > 0 {
			small = fmt.Sprintf(", as small as possible (%d histories were tried)", r.First.Tries)
		}
		fmt.Fprintf(b, "\ndrawn: level %d, %s: %s%s; and what else is broken, as it was\n  %s\n",
			r.First.Level, r.First.Invariant, r.First.Why, small, r.First.HTML)
	}
}

// writeNotShown says, for each reason, how much could not be tried.
func (r *report) writeNotShown(b *strings.Builder) {
	var reasons []string
	cases, levels := map[string]int{}, map[string][]string{}
	for _, l := range r.Levels {
		for _, n := range l.NotShown {
			if cases[n.Why]++; cases[n.Why] == 1 {
				reasons = append(reasons, n.Why)
			}
			levels[n.Why] = append(levels[n.Why], fmt.Sprint(l.Level))
		}
	}
	for i, why := range reasons {
		if i == 0 {
			b.WriteString("\nnot shown:\n")
		}
		fmt.Fprintf(b, "  level %s (cases: %d): %s\n", strings.Join(slices.Compact(levels[why]), ", "), cases[why], why)
	}
}
