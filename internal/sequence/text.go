package sequence

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// columnWidth is that of the text, in characters.
const columnWidth = 12

// Text writes the diagram for a terminal: one line for each step, the columns on the left, the label on the right.
func (d Diagram) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, d.Title)
	if len(d.Steps) > 0 {
		fmt.Fprintln(&b, d.heading())
	}
	room := 0 // for the times
	for _, s := range d.Steps {
		room = max(room, len(d.Time(s.At)))
	}
	heading := strings.Repeat(" ", room+2)
	for _, c := range d.columns() {
		heading += fmt.Sprintf("%-*s", columnWidth, d.Name(c))
	}
	fmt.Fprintf(&b, "\n%s\n", strings.TrimRight(heading, " "))
	dashed, lost := false, false
	for _, s := range d.Steps {
		dashed, lost = dashed || s.Inferred && !s.Note(), lost || s.Lost
		label := clean(s.Label)
		if s.Unusable {
			label += " (not usable)"
		}
		fmt.Fprintf(&b, "%*s  %s  %s\n", room, d.Time(s.At), d.picture(s), label)
	}
	if len(d.Steps) == 0 {
		b.WriteString("Nothing is known of this key.\n")
	}
	if dashed {
		b.WriteString("\n- - >  Nobody has recorded this. It follows from the rest.\n")
	}
	if lost {
		b.WriteString("\n---x   This has not arrived, as far as is known.\n")
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
	half := (right-left)/2 - 1 // not on the bar of a participant in the middle
	switch {
	case s.Lost && s.From < s.To:
		right = left + half
	case s.Lost:
		left = right - half
	}
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
