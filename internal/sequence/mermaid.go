package sequence

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Mermaid writes the diagram as mermaid (https://mermaid.js.org/syntax/sequenceDiagram.html), which GitHub draws in
// Markdown.
func (d Diagram) Mermaid(w io.Writer) error {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for _, c := range Columns() {
		if d.has(c) {
			fmt.Fprintf(&b, "    participant %s as %s\n", c.initial(), c)
		}
	}
	for _, s := range d.Steps {
		label := s.At.UTC().Format(clockForm) + " " + escapeMermaid(s.Label)
		if s.Note() {
			fmt.Fprintf(&b, "    Note over %s: %s\n", s.From.initial(), label)
			continue
		}
		fmt.Fprintf(&b, "    %s%s%s: %s\n", s.From.initial(), s.arrow(), s.To.initial(), label)
	}
	for _, r := range d.Remarks {
		fmt.Fprintf(&b, "    Note over C,D: %s\n", escapeMermaid(r))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Step) arrow() string {
	switch {
	case s.Lost && s.Dashed():
		return "--x"
	case s.Lost:
		return "-x"
	case s.Dashed():
		return "-->>"
	}
	return "->>"
}

func (c Column) initial() string { return [...]string{"C", "A", "D", "P", "R", "O"}[c] }

// has reports whether a step begins or ends at the participant.
func (d Diagram) has(c Column) bool {
	return slices.ContainsFunc(d.Steps, func(s Step) bool { return s.From == c || s.To == c })
}

// escapeMermaid writes the characters that mean something to mermaid as its numbered entities.
func escapeMermaid(label string) string {
	return strings.NewReplacer("#", "#35;", ";", "#59;", "<", "#60;", ">", "#62;", "\n", " ").Replace(clean(label))
}
