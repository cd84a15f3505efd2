package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// The widest that names, and what is said of prototypes, get in a terminal of 140 columns.
const (
	nameWidth      = 50
	prototypeWidth = 36
	proseWidth     = 136
)

// nothing stands where there is no number.
const nothing = "—"

// Table writes the report for a terminal of 140 columns. It writes whatever there is, also what Check refuses.
func (r Report) Table(w io.Writer) error {
	var text strings.Builder
	for _, line := range r.Machine.lines() {
		fmt.Fprintln(&text, line)
	}
	if r.Taken != "" {
		fmt.Fprintf(&text, "taken %s\n", r.Taken)
	}
	for _, line := range wrapped("run: ", joined(r.Settings)) {
		fmt.Fprintln(&text, line)
	}
	for _, section := range r.Sections {
		section.table(&text)
	}
	if bars := r.Bars(); len(bars) > 0 {
		tally := r.Tally()
		fmt.Fprintf(&text, "\n%d bars: %d met, %d MISSED, %d not run\n", len(bars), tally[Met], tally[Missed],
			tally[NotRun])
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func (s Section) table(text *strings.Builder) {
	fmt.Fprintf(text, "\n== %s\n", s.Name)
	for _, line := range wrapped("", strings.Fields(s.Note)) {
		fmt.Fprintln(text, line)
	}
	rows := s.figures()
	if len(rows) > 0 {
		columns(text, []string{"", "median", "spread", "unit", "better", "slices", "dropped"}, rows, 1, 2, 5, 6)
	}
	if len(s.Bars) > 0 {
		if len(rows) > 0 {
			fmt.Fprintln(text)
		}
		columns(text, []string{"bar", "", "measured", "spread", "unit", "prototype", "verdict"}, s.bars(), 1, 2, 3)
	}
}

func (s Section) figures() (rows [][]string) {
	row := func(name, unit, better string, dropped int, samples []float64) {
		median, spread := nothing, nothing
		if summary, kept := Summarize(samples); kept {
			median, spread = figure(summary.Median), summary.spread()
		}
		rows = append(rows, []string{clipped(name, nameWidth), median, spread, unit, better, strconv.Itoa(len(samples)),
			strconv.Itoa(dropped)})
	}
	for _, line := range s.Lines {
		row(line.Name, line.Unit, string(line.Better), line.Dropped, line.Samples)
	}
	for _, ratio := range s.Ratios {
		row(ratio.Name, ratioUnit, nothing, ratio.Dropped, ratio.Samples())
	}
	return rows
}

func (s Section) bars() (rows [][]string) {
	for _, bar := range s.Bars {
		measured, spread := bar.measured()
		rows = append(rows, []string{
			clipped(bar.What, nameWidth), bar.Op.sign() + " " + bound(bar.Value), measured, spread, bar.Unit,
			clipped(bar.Prototype, prototypeWidth), string(bar.Verdict()),
		})
	}
	return rows
}

func (b Bar) measured() (median, spread string) {
	summary, ran := b.Summary()
	if !ran {
		return nothing, nothing
	}
	return figure(summary.Median), summary.spread()
}

// columns writes a table whose columns named by number are aligned on the right.
func columns(text *strings.Builder, head []string, rows [][]string, numbers ...int) {
	rows = append([][]string{head}, rows...)
	for _, column := range numbers {
		right(rows, column)
	}
	var padded strings.Builder
	tw := tabwriter.NewWriter(&padded, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, "  "+strings.Join(row, "\t"))
	}
	_ = tw.Flush() // a strings.Builder refuses nothing
	for line := range strings.Lines(padded.String()) {
		fmt.Fprintln(text, strings.TrimRight(line, " \n"))
	}
}
