package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// document is the JSON: the report with its version, and for readers without this package what is made of the samples.
type document struct {
	Schema   int       `json:"schema"`
	Verdicts []verdict `json:"verdicts"` // of the bars, in order; not read back
	Report
}

type verdict struct {
	What    string   `json:"what"`
	Verdict Verdict  `json:"verdict"`
	Median  *float64 `json:"median"` // null if it was not run
	Low     *float64 `json:"low"`
	High    *float64 `json:"high"`
}

// JSON writes the report, indented, for Read.
func (r Report) JSON(w io.Writer) error {
	if err := r.Check(); err != nil {
		return err
	}
	d := document{Schema: Schema, Verdicts: []verdict{}, Report: r.listed()}
	for _, bar := range r.Bars() {
		v := verdict{What: bar.What, Verdict: bar.Verdict()}
		if summary, ran := bar.Summary(); ran {
			v.Median, v.Low, v.High = &summary.Median, &summary.Low, &summary.High
		}
		d.Verdicts = append(d.Verdicts, v)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d)
}

// listed is a copy of the report in which a list without entries is one: [] and not null.
func (r Report) listed() Report {
	r.Settings, r.Machine.PostgreSQLSettings = list(r.Settings), list(r.Machine.PostgreSQLSettings)
	r.Sections = list(slices.Clone(r.Sections))
	for i := range r.Sections {
		section := &r.Sections[i]
		section.Lines, section.Ratios, section.Bars = list(slices.Clone(section.Lines)),
			list(slices.Clone(section.Ratios)), list(slices.Clone(section.Bars))
		for j := range section.Lines {
			section.Lines[j].Samples = list(section.Lines[j].Samples)
		}
		for j := range section.Ratios {
			section.Ratios[j].Rounds = list(section.Ratios[j].Rounds)
		}
		for j := range section.Bars {
			section.Bars[j].Samples = list(section.Bars[j].Samples)
		}
	}
	return r
}

func list[T any](entries []T) []T {
	if entries == nil {
		return []T{}
	}
	return entries
}

// Read takes what JSON wrote.
func Read(from io.Reader) (Report, error) {
	var d document
	if err := json.NewDecoder(from).Decode(&d); err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	if d.Schema != Schema {
		return Report{}, fmt.Errorf("read report: its schema is %d, this program reads %d", d.Schema, Schema)
	}
	if err := d.Check(); err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	return d.Report, nil
}

// Convert reads what JSON wrote and writes it in the Go benchmark format.
func Convert(from io.Reader, to io.Writer) error {
	r, err := Read(from)
	if err != nil {
		return err
	}
	return r.Benchmarks(to)
}
