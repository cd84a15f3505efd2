package sequence

import (
	"fmt"
	"html"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"
)

// The layout of the SVG, in its own units.
const (
	svgLeft   = 140 // of the first column; the times stand before it
	svgColumn = 150
	svgRow    = 34
	svgTop    = 76
	svgRight  = 130

	svgTimeAt    = 8  // where the times and the remarks begin
	svgTimeWidth = 8  // of a character of theirs, at most
	svgLine      = 18 // of the remarks
)

// paper is behind an image that stands alone: its ink is dark, and the page around it may be dark, too.
const paper = `<rect width="100%" height="100%" fill="#fff"/>` + "\n"

// SVG writes the diagram as an image that needs no script and no other file.
func (d Diagram) SVG(w io.Writer) error { return d.writeSVG(w, "<style>"+Style+"</style>\n"+paper) }

// PlainSVG writes the diagram for a page that has Style in its own style sheet, and shows the remarks itself.
func (d Diagram) PlainSVG(w io.Writer) error {
	d.Remarks = nil
	return d.writeSVG(w, "")
}

// HTML is the plain image for a template: the labels in it are escaped.
func (d Diagram) HTML() template.HTML {
	var svg strings.Builder
	_ = d.PlainSVG(&svg)               // A strings.Builder takes everything.
	return template.HTML(svg.String()) //nolint:gosec // see above
}

// What an answer with an image has as its Content-Type and as its Content-Security-Policy: it brings its own style.
const (
	SVGType   = "image/svg+xml"
	SVGPolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
)

func (d Diagram) writeSVG(w io.Writer, style string) error {
	width, height := d.size()
	remarks := wrapped(d.Remarks, (width-svgTimeAt)/svgTimeWidth)
	height += svgLine * len(remarks)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="sequence" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+
		"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(clean(d.Title)))
	b.WriteString(style)
	if len(d.Steps) > 0 {
		fmt.Fprintf(&b, `<text class="time" x="%d" y="16">%s</text>`+"\n", svgTimeAt, d.heading())
	}
	for _, c := range d.columns() {
		fmt.Fprintf(&b, `<text class="who" x="%d" y="44">%s</text><path class="life" d="M%d 56V%d"/>`+"\n",
			d.x(c), html.EscapeString(d.Name(c)), d.x(c), svgTop+svgRow*len(d.Steps)+8)
	}
	for i, s := range d.Steps {
		b.WriteString(d.svg(s, svgTop+svgRow*i))
	}
	for i, line := range remarks {
		fmt.Fprintf(&b, `<text class="time" x="%d" y="%d">%s</text>`+"\n", svgTimeAt,
			svgTop+svgRow*(len(d.Steps)+1)+svgLine*i, html.EscapeString(line))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// size is that of the image without its remarks.
func (d Diagram) size() (width, height int) {
	return svgLeft + svgColumn*(len(d.columns())-1) + svgRight, svgTop + svgRow*(len(d.Steps)+1)
}

// wrapped breaks the remarks into lines of at most so many characters. A longer word has a line of its own.
func wrapped(remarks []string, room int) (lines []string) {
	for _, r := range remarks {
		line := ""
		for _, word := range strings.Fields(clean(r)) {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
				lines, line = append(lines, line), ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// Style is the style sheet of the image. Its colours are the CSS variables of the page (--ink, --soft, --line, --card,
// --accent, --bad) with defaults, so that the image also stands alone.
const Style = `
.sequence .who{font:600 14px system-ui,sans-serif;fill:var(--ink,#1b2330);text-anchor:middle}
.sequence .time{font:12px ui-monospace,monospace;fill:var(--soft,#5a6678)}
.sequence .label{font:12px system-ui,sans-serif;fill:var(--ink,#1b2330);text-anchor:middle;paint-order:stroke;stroke:var(--card,#fff);stroke-width:3px}
.sequence .life{stroke:var(--line,#dde2ea);stroke-width:2}
.sequence .arrow{stroke:var(--accent,#0b63ce);stroke-width:1.5;fill:none}
.sequence .inferred{stroke-dasharray:5 4}
.sequence .lost{stroke:var(--bad,#a32020)}
.sequence .dot{fill:var(--accent,#0b63ce)}
`

func (d Diagram) x(c Column) int { return svgLeft + svgColumn*d.place(c) }

// svg is one step at height y: its time, its label above its arrow, and a head or a cross at its end.
func (d Diagram) svg(s Step, y int) string {
	var b strings.Builder
	whole := html.EscapeString(clean(s.Label)) // the label above the arrow may be cut
	fmt.Fprintf(&b, `<g><title>%s, %s</title><text class="time" x="%d" y="%d">%s</text>`,
		s.At.UTC().Format(fullForm), whole, svgTimeAt, y+svgRow-10, d.Time(s.At))
	from, to := d.x(s.From), d.x(s.To)
	fmt.Fprintf(&b, `<text class="label" x="%d" y="%d">%s</text>`, (from+to)/2, y+svgRow-16,
		html.EscapeString(d.drawn(s)))
	line := y + svgRow - 10
	if s.Note() {
		fmt.Fprintf(&b, `<circle class="dot" cx="%d" cy="%d" r="4"/></g>`+"\n", from, line)
		return b.String()
	}
	class, head, back := "arrow", "arrow", 7
	if s.Inferred {
		class += " inferred"
	}
	if s.Lost || s.Unusable {
		class, head = class+" lost", "arrow lost"
	}
	if to < from {
		back = -back
	}
	if s.Lost {
		to = (from+to)/2 - 2*back // not on the line of a participant in the middle
	}
	fmt.Fprintf(&b, `<path class="%s" d="M%d %dH%d"/>`, class, from, line, to)
	if s.Lost {
		fmt.Fprintf(&b, `<path class="%s" d="M%d %dl8 8m0-8l-8 8"/></g>`+"\n", head, to-4, line-4)
		return b.String()
	}
	fmt.Fprintf(&b, `<path class="%s" d="M%d %dL%d %dL%d %d"/></g>`+"\n", head, to-back, line-4, to, line, to-back,
		line+4)
	return b.String()
}

// room is how many characters of a label stand above an arrow without touching its neighbours.
func (d Diagram) room(s Step) int {
	columns := d.place(max(s.From, s.To)) - d.place(min(s.From, s.To))
	if s.Note() {
		columns = 2 // it stands in the middle of two
	}
	return columns * svgColumn / 6 //nolint:mnd // a character is about six units wide
}

// drawn is the label above the arrow: the whole one, the short one, or a part.
func (d Diagram) drawn(s Step) string {
	label, room := clean(s.Label), d.room(s)
	if s.Short != "" && utf8.RuneCountInString(label) > room {
		label = clean(s.Short)
	}
	if r := []rune(label); len(r) > room {
		return string(r[:room-1]) + "…"
	}
	return label
}
