package main

import (
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"

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
	Label    string   `json:"label"`
	Step     string   `json:"step"`
	Boundary string   `json:"boundary"`
	Stops    bool     `json:"stops"` // of programs that were built with stops
	Marks    []string `json:"marks"`
	Why      []string `json:"why"` // there is no such cell, in the order of the marks
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
		row := gridRow{Label: names[i], Step: r.step, Boundary: r.place(), Stops: r.at.at == inside}
		for _, column := range faults() {
			why := r.senseless(column)
			mark, played := marks[cell{f.name, r, names[i], column}.name()]
			switch {
			case why != "":
				mark = markNone
			case !played:
				mark = markOmitted
			}
			row.Marks, row.Why = append(row.Marks, mark), append(row.Why, why)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

func readReport(from io.Reader) (report, error) {
	var r report
	if err := json.UnmarshalRead(from, &r); err != nil {
		return r, fmt.Errorf("read report: %w", err)
	}
	if r.Lab != "matrix" {
		return r, fmt.Errorf("read report: it is one of %q", r.Lab)
	}
	return r, nil
}
