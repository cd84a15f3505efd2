package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// width of a note, of what is measured, and of the whole table.
const (
	noteWidth = 110
	row       = "  %-58s %9s  %-19s  %-10s  %6s  %-8s %s"
)

// Table writes all sections, below lines about the machine and the run.
func Table(w io.Writer, head []string, sections []Section) error {
	var text strings.Builder
	line := func(format string, args ...any) {
		text.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
	}
	for _, each := range head {
		line("%s", each)
	}
	tally := map[string]int{}
	for _, s := range sections {
		line("\n== %s", s.Name)
		for _, each := range wrapped(s.Note) {
			line("%s", each)
		}
		line(row, "", "median", "spread", "unit", "slices", "bar", "verdict")
		for _, f := range s.Figures {
			median, spread, bar, summary := "—", "—", "", f.Summary()
			if summary.Kept > 0 {
				median, spread = number(summary.Median), number(summary.Low)+" – "+number(summary.High)
			}
			if verdict := f.Verdict(); verdict != "" {
				bar = f.Bar.side + " " + grouped(strconv.FormatFloat(f.Bar.value, 'f', -1, 64))
				tally[verdict]++
			}
			line(row, f.What, median, spread, f.Unit, fmt.Sprintf("%d/%d", summary.Kept, len(f.Rounds)), bar,
				f.Verdict())
		}
	}
	line("\nbars: %d met, %d MISSED, %d not run", tally["met"], tally["MISSED"], tally["not run"])
	_, err := io.WriteString(w, text.String())
	return err
}

// wrapped breaks a note into lines.
func wrapped(note string) (lines []string) {
	for _, word := range strings.Fields(note) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= noteWidth {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// number writes a figure with three digits at least, and thousands apart.
func number(value float64) string {
	size := math.Abs(value)
	if value == 0 || !(size >= 0.0995 && size <= math.MaxInt64) {
		return strconv.FormatFloat(value, 'g', 3, 64)
	}
	decimals := 0
	for ; decimals < 3 && size < 99.95; size *= 10 {
		decimals++
	}
	return grouped(strconv.FormatFloat(value, 'f', decimals, 64))
}

// grouped sets blanks between thousands: 12 345.
func grouped(number string) string {
	whole, fraction, found := strings.Cut(number, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	if found {
		return whole + "." + fraction
	}
	return whole
}
