package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"payonce/lab/program"
)

// report of a run, as it is written.
type report struct {
	Lab        string              `json:"lab"`
	Seed       uint64              `json:"seed"`
	Violations []program.Violation `json:"violations"`
	Seconds    float64             `json:"seconds"`
	Played     int                 `json:"played"`
	Failed     int                 `json:"failed"`
	Columns    []string            `json:"columns"`
	Grid       []gridFlow          `json:"grid"`
	Cells      []cellReport        `json:"cells"`
}

// gridFlow is a part of the grid.
type gridFlow struct {
	Name  string    `json:"name"`
	Title string    `json:"title"`
	Rows  []gridRow `json:"rows"`
}

// gridRow has one mark for each column.
type gridRow struct {
	Label string   `json:"label"`
	Step  string   `json:"step"`
	Stops bool     `json:"stops"` // of programs that were built with stops
	Marks []string `json:"marks"`
}

type cellReport struct {
	Cell    string  `json:"cell"`
	Seconds float64 `json:"seconds"`
	Kept    string  `json:"kept,omitzero"`
}

// The marks of a cell.
const (
	markOK      = "ok"
	markFail    = "FAIL"
	markNone    = "–" // it makes no sense
	markOmitted = "·" // it was not played
)

func (m *matrix) report(began time.Time) report {
	r := report{Lab: "matrix", Seed: m.settings.Seed, Violations: []program.Violation{},
		Seconds: time.Since(began).Seconds(), Played: len(m.done)}
	marks := map[string]string{}
	for _, d := range m.done {
		marks[d.Cell] = markOK
		if len(d.Violations) > 0 {
			marks[d.Cell] = markFail
			r.Failed++
		}
		r.Violations = append(r.Violations, d.Violations...)
		r.Cells = append(r.Cells, cellReport{d.Cell, d.Took.Seconds(), d.Kept})
	}
	for _, f := range faults() {
		r.Columns = append(r.Columns, f.title())
	}
	for _, f := range flows() {
		r.Grid = append(r.Grid, gridOf(f, marks))
	}
	return r
}

// gridOf sets the marks of the cells that were played, by their names, into the rows of a flow.
func gridOf(f flow, marks map[string]string) gridFlow {
	g := gridFlow{Name: f.name, Title: f.title}
	names := labels(f.rows)
	for i, r := range f.rows {
		row := gridRow{Label: names[i], Step: r.step, Stops: r.at.at == inside}
		for _, column := range faults() {
			mark, played := marks[cell{f.name, r, names[i], column}.name()]
			switch {
			case r.senseless(column) != "":
				mark = markNone
			case !played:
				mark = markOmitted
			}
			row.Marks = append(row.Marks, mark)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// stepWidth is what the text grid gives to the name of a row.
const stepWidth = 54

// text prints the grid for a terminal.
func (r report) text(to io.Writer) error {
	var b strings.Builder
	for _, f := range r.Grid {
		if !f.played() {
			continue
		}
		fmt.Fprintf(&b, "%s\n", pad(f.Title+" ("+f.Name+")", stepWidth+8))
		fmt.Fprintf(&b, "%s", pad("", stepWidth+8))
		for _, column := range r.Columns {
			fmt.Fprintf(&b, "%s  ", short(column))
		}
		b.WriteString("\n")
		for _, row := range f.Rows {
			fmt.Fprintf(&b, "%s%s", pad("  "+row.number(), 8), pad(row.Step, stepWidth))
			for i, mark := range row.Marks {
				fmt.Fprintf(&b, "%s  ", pad(mark, utf8.RuneCountInString(short(r.Columns[i]))))
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "%s  %s\n      %s\n", v.Invariant, v.Where, v.Detail)
	}
	for _, c := range r.Cells {
		if c.Kept != "" {
			fmt.Fprintf(&b, "kept: %s\n", c.Kept)
		}
	}
	b.WriteString("–: makes no sense there; ·: not played; *: a build with a stop where no wire is. A | is the boundary.\n")
	fmt.Fprintf(&b, "seed %d: %d cells, %d failed, %d violations, %.0f s\n", r.Seed, r.Played, r.Failed,
		len(r.Violations), r.Seconds)
	_, err := io.WriteString(to, b.String())
	return err
}

func (f gridFlow) played() bool {
	return slices.ContainsFunc(f.Rows, func(r gridRow) bool {
		return slices.Contains(r.Marks, markOK) || slices.Contains(r.Marks, markFail)
	})
}

func (r gridRow) number() string {
	if r.Stops {
		return r.Label + "*"
	}
	return r.Label
}

// short is the head of a column in the text grid.
func short(column string) string {
	return strings.NewReplacer("kill -9, late packet", "late", "session ended", "db ends", "connection cut", "db cut",
		"PSP half answer", "PSP half").Replace(column)
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}
