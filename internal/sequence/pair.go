package sequence

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// Part is one of the diagrams of an image, with what it shows.
type Part struct {
	Diagram Diagram
	Caption string
	Good    bool
}

// pairTop is the room for the title and the caption of a part.
const pairTop = 76

// pairStyle is for the headings. In a dark browser, it has the ink for a dark page.
const pairStyle = `
.head{font:600 18px system-ui,sans-serif;fill:var(--ink,#1b2330)}
.good{font:16px system-ui,sans-serif;fill:var(--good,#1a7f4b)}
.bad{font:16px system-ui,sans-serif;fill:var(--bad,#a32020)}
@media (prefers-color-scheme:dark){svg{--ink:#e6ebf2;--soft:#a3afc0;--line:#3a4657;--card:#161d27;--accent:#6cb2ff;` +
	`--bad:#ff8a80;--good:#6fd39a}}
`

// Pair writes several diagrams as one image, which needs no script and no other file.
func Pair(w io.Writer, title string, parts []Part) error {
	var b strings.Builder
	width, height := 0, 0
	for _, p := range parts {
		class := "bad"
		if p.Good {
			class = "good"
		}
		fmt.Fprintf(&b, `<text class="head" x="%d" y="34">%s</text><text class="%s" x="%d" y="60">%s</text>`+"\n",
			width+svgTimeAt, html.EscapeString(p.Diagram.Title), class, width+svgTimeAt, html.EscapeString(p.Caption))
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", width, pairTop)
		if err := p.Diagram.PlainSVG(&b); err != nil {
			return err
		}
		b.WriteString("</g>\n")
		wide, high := p.Diagram.size()
		width, height = width+wide, max(height, pairTop+high)
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title>
<style>%s%s</style>
<rect width="100%%" height="100%%" fill="var(--card,#fff)"/>
%s</svg>
`, width, height, width, height, html.EscapeString(clean(title)), Style, pairStyle, b.String())
	return err
}
