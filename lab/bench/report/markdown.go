package report

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the bars of all sections as one table.
func (r Report) Markdown(w io.Writer) error {
	var text strings.Builder
	text.WriteString("| what | bar | measured | spread | prototype | verdict |\n|---|--:|--:|--:|---|---|\n")
	for _, bar := range r.Bars() {
		measured, spread := bar.measured()
		if bar.Unit != "" && measured != nothing {
			measured += " " + bar.Unit
		}
		cells := []string{bar.What, bar.Op.sign() + " " + bound(bar.Value), measured, spread, bar.Prototype,
			string(bar.Verdict())}
		for i, cell := range cells {
			cells[i] = cellText(cell)
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// cellText keeps text inside its cell.
func cellText(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
