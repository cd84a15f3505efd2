package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"payonce/internal/sequence"
	"payonce/lab/grade/judge"
	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
)

//go:embed page.html
var pageText string

// history is a broken invariant as the page shows it.
type history struct {
	*broken
	Says    string
	Lesson  taught
	Link    string // to the lesson, where there is one
	Diagram sequence.Diagram
	More    int  // other payments that break the same at this level
	Open    bool // the first one
}

// draw writes a page with one history for each broken invariant of each level. The first is the one that was looked for
// and made small; the others are drawn as they were.
func (r *report) draw(out string) error {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	r.First.HTML = filepath.Join(out, drawing)
	var html bytes.Buffer
	err = page.Execute(&html, map[string]any{
		"Report": r, "Histories": r.histories(out), "Lessons": lessonsFolder,
		"Style": template.CSS(sequence.Style), //nolint:gosec // a constant
	})
	if err != nil {
		return fmt.Errorf("draw the histories: %w", err)
	}
	return os.WriteFile(r.First.HTML, html.Bytes(), readable)
}

func (r *report) histories(out string) []history {
	shown := func(x *broken) history {
		lesson := lessonOf(x.Invariant, x.Level)
		return history{broken: x, Says: x.says(), Lesson: lesson, Link: lesson.link(out), Diagram: diagram(*x)}
	}
	first := shown(r.First)
	first.Open = true
	all := []history{first}
	for _, l := range r.Levels {
		for i := range l.Broken {
			x := &l.Broken[i]
			n := l.Of[x.Invariant]
			switch {
			case i > 0 && l.Broken[i-1].Invariant == x.Invariant: // one example is enough
			case x.Level == r.First.Level && x.Invariant == r.First.Invariant:
				all[0].More = n.Shown - n.Held - 1
			default:
				h := shown(x)
				h.More = n.Shown - n.Held - 1
				all = append(all, h)
			}
		}
	}
	return all
}

const (
	drawing  = "histories.html"
	readable = 0o644
)

func (x *broken) says() string {
	for _, i := range judge.Invariants() {
		if i.Name == x.Invariant {
			return i.Says
		}
	}
	return ""
}

// diagram draws what clients, servers, the database and the PSP did. What went on inside the server is not known, and
// is not drawn.
func diagram(x broken) sequence.Diagram {
	d := sequence.Diagram{Title: fmt.Sprintf("Level %d: %s", x.Level, x.Case)}
	many := len(x.run.Case.Intents) > 1
	for _, a := range grouped(x.run.Answers, x.run.Charges) {
		d.Steps = append(d.Steps, exchange(a, x.run.Amounts[a.Intent], many)...)
	}
	for _, c := range x.run.Charges {
		what := "declined"
		if c.Succeeded {
			what = "charged"
		}
		d.Steps = append(d.Steps, sequence.Step{At: c.At, From: sequence.PSP, To: sequence.PSP,
			Label: fmt.Sprintf("%s: %s, %s", what, money(c.Amount), c.ID),
			Short: fmt.Sprintf("%s: %s", what, money(c.Amount))})
	}
	for _, e := range x.run.Events {
		at := map[string]sequence.Column{"client": sequence.Client, "server": sequence.API,
			"database": sequence.Database, "PSP": sequence.PSP}[e.Where]
		from := at
		if strings.HasPrefix(e.Text, "charge of") {
			from = sequence.API
		}
		d.Steps = append(d.Steps, sequence.Step{At: e.At, From: from, To: at, Label: e.Text})
	}
	slices.SortStableFunc(d.Steps, func(a, b sequence.Step) int { return a.At.Compare(b.At) })
	return d
}

// told is an answer, or several ones that say the same and came one after the other.
type told struct {
	judge.Answer
	times int
}

// grouped puts together the many answers that a client gets who asks again and again, where nothing is charged in
// between.
func grouped(answers []judge.Answer, charges []judge.Charge) []told {
	charged := func(from, to time.Time) bool {
		return slices.ContainsFunc(charges, func(c judge.Charge) bool {
			return c.At.After(from) && c.At.Before(to)
		})
	}
	var all []told
	latest := map[int]int{} // by intent, in all
	for _, a := range answers {
		if i, ok := latest[a.Intent]; ok {
			last := &all[i]
			same := last.Meaning == a.Meaning && last.Status == a.Status && last.Step == a.Step && last.Err == a.Err
			repeats := a.Step == plan.UntilFinal || a.Step == plan.Try || a.Step == plan.Look || a.Step == plan.Renew
			same = same && (!a.Meaning.Final() || bytes.Equal(last.Body, a.Body)) && !charged(last.Heard, a.Heard)
			if same && repeats {
				last.times++
				continue
			}
		}
		latest[a.Intent] = len(all)
		all = append(all, told{a, 1})
	}
	return all
}

// exchange is a request and its answer.
func exchange(a told, amount int64, named bool) []sequence.Step {
	what, short := "POST "+money(amount), "POST"
	switch {
	case a.Step.Reads():
		what, short = "read", "read"
	case a.Other():
		what, short = "the same key, another amount", "other amount"
	case a.Step != plan.Send:
		what, short = "the same request again", "again"
	}
	if named {
		what += fmt.Sprintf(", payment %d", a.Intent+1)
		short += fmt.Sprintf(" %d", a.Intent+1)
	}
	if a.On > 0 {
		what += fmt.Sprintf(", to server %d", a.On)
		short += fmt.Sprintf(", server %d", a.On)
	}
	ask := sequence.Step{At: a.Asked, From: sequence.Client, To: sequence.API, Label: what, Short: short}
	answer := sequence.Step{At: a.Heard, From: sequence.API, To: sequence.Client, Label: label(a)}
	if a.Err != "" { // Nobody knows whether the server has answered, and when. The client has noticed it now.
		answer.From, answer.Label = sequence.Client, a.Err
	}
	if !answer.At.After(ask.At) {
		answer.At = ask.At.Add(time.Microsecond)
	}
	if a.times > 1 {
		answer.Label += fmt.Sprintf(" (%d times)", a.times)
	}
	return []sequence.Step{ask, answer}
}

func label(a told) string {
	if a.Meaning == profile.None {
		return fmt.Sprint(a.Status)
	}
	return fmt.Sprintf("%d: %s", a.Status, a.Meaning)
}
