package commands

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Widths of what is printed for a terminal, in characters.
const (
	terminalColumns = 120
	columnGap       = 2
	minLastColumn   = 20 // of the last one, whatever the others take
)

// printRows writes rows in columns, the first row is the header. The last column has what is left of 120 characters,
// and goes on below in as many lines as it takes: nothing is cut off.
func printRows(w io.Writer, rows [][]string) error {
	last := len(rows[0]) - 1
	widths := make([]int, last)
	for _, row := range rows {
		for i := range last {
			row[i] = plain(row[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	indent := 0
	for _, width := range widths {
		indent += width + columnGap
	}
	for _, row := range rows {
		line := ""
		for i, width := range widths {
			line += row[i] + strings.Repeat(" ", width-utf8.RuneCountInString(row[i])+columnGap)
		}
		text := strings.Join(wrapped(plain(row[last]), max(terminalColumns-indent, minLastColumn)), "\n"+
			strings.Repeat(" ", indent))
		if _, err := fmt.Fprintln(w, strings.TrimRight(line+text, " ")); err != nil {
			return err
		}
	}
	return nil
}

// wrapped breaks a text between words into lines of at most width characters. A longer word is broken itself.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		rest := []rune(word)
		for ; len(rest) > width; rest = rest[width:] {
			lines = append(lines, string(rest[:width]))
		}
		line = string(rest)
	}
	return append(lines, line)
}

// plain keeps a text from moving the cursor, or anything else that a terminal does when it is told: what others have
// written is shown here.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}
