package sequence

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The layout of the text, in characters.
const (
	columnWidth = 12
	clockForm   = "15:04:05.000"
)

// Text writes the diagram for a terminal: one line for each step, the columns on the left, the label on the right.
func (d Diagram) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, d.Title)
	if len(d.Steps) > 0 {
		fmt.Fprintf(&b, "%s, times in UTC\n", d.Steps[0].At.UTC().Format("2006-01-02"))
	}
	heading := strings.Repeat(" ", len(clockForm)+2)
	for _, c := range d.columns() {
		heading += fmt.Sprintf("%-*s", columnWidth, d.Name(c))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.TrimRight(heading, " "))
	dashed := false
	for _, s := range d.Steps {
		dashed = dashed || s.Inferred
		fmt.Fprintf(&b, "%s  %s  %s\n", s.At.UTC().Format(clockForm), d.picture(s), clean(s.Label))
	}
	if len(d.Steps) == 0 {
		b.WriteString("Nothing is known of this key.\n")
	}
	if dashed {
		b.WriteString("\n- - >  Nobody has recorded this. It follows from the rest.\n")
	}
	for _, r := range d.Remarks {
		b.WriteString("\n" + clean(r) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// picture is one step: a bar for each of the participants, and an arrow between two of them.
func (d Diagram) picture(s Step) string {
	columns := d.columns()
	cells := []rune(strings.Repeat(" ", columnWidth*(len(columns)-1)+1))
	for i := range columns {
		cells[i*columnWidth] = '|'
	}
	if s.Note() {
		cells[d.place(s.From)*columnWidth] = '*'
		return string(cells)
	}
	left, right := d.place(min(s.From, s.To))*columnWidth, d.place(max(s.From, s.To))*columnWidth
	for i := left + 1; i < right; i++ {
		cells[i] = '-'
		if s.Inferred && (i-left)%2 == 0 {
			cells[i] = ' '
		}
	}
	head, at := '>', right-1
	if s.To < s.From {
		head, at = '<', left+1
	}
	if s.Lost {
		head = 'x'
	}
	cells[at] = head
	return string(cells)
}

// clean keeps text of strangers from moving the cursor or turning the line around: control characters and marks for
// the direction of writing become a replacement character.
func clean(label string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x200e && r <= 0x200f || r >= 0x2028 && r <= 0x202e ||
			r >= 0x2066 && r <= 0x2069 {
			return utf8.RuneError
		}
		return r
	}, label)
}
