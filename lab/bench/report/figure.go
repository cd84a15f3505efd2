package report

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// figure writes a number with three digits at least, and thousands apart.
func figure(value float64) string {
	size := math.Abs(value)
	if value == 0 || !(size >= 0.0995 && size <= math.MaxInt64) { // tiny, huge, or no number at all
		return strconv.FormatFloat(value, 'g', 3, 64)
	}
	decimals := 0
	for ; decimals < 3 && size < 99.95; size *= 10 {
		decimals++
	}
	return grouped(strconv.FormatFloat(value, 'f', decimals, 64))
}

// bound writes the value of a bar, which somebody chose, without decimals that they did not write.
func bound(value float64) string { return grouped(strconv.FormatFloat(value, 'f', -1, 64)) }

// grouped sets blanks between thousands: 12 345.
func grouped(number string) string {
	whole, fraction, found := strings.Cut(number, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	if found {
		return sign + whole + "." + fraction
	}
	return sign + whole
}

// spread is lowest to highest.
func (s Summary) spread() string { return figure(s.Low) + " – " + figure(s.High) }

// right aligns the column of a table: tabwriter aligns all columns alike, and names belong on the left.
func right(rows [][]string, column int) {
	width := 0
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row[column]))
	}
	for _, row := range rows {
		row[column] = strings.Repeat(" ", width-utf8.RuneCountInString(row[column])) + row[column]
	}
}

// clipped keeps a line of the table a line.
func clipped(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
