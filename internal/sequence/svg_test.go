package sequence

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// An image that stands alone is shown on pages of any colour, and cannot be scrolled.
func TestImageHasAGroundAndEachRemarkFits(t *testing.T) {
	t.Parallel()
	remark := strings.Repeat("of the requests that another process has answered ", 9)
	d := Diagram{Title: "a key", Steps: []Step{{At: time.Now(), From: Client, To: API, Label: "charge"}},
		Remarks: []string{remark, "a second remark"}}
	var image, part strings.Builder
	if err := d.SVG(&image); err != nil {
		t.Fatal(err)
	}
	if err := d.PlainSVG(&part); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(image.String(), paper) || strings.Contains(part.String(), paper) {
		t.Error("only an image that stands alone has a ground")
	}
	room := (svgLeft + svgColumn*(len(d.columns())-1) + svgRight - svgTimeAt) / svgTimeWidth
	var lines []string
	for _, found := range regexp.MustCompile(`(?m)^<text class="time"[^>]*>([^<]*)</text>$`).
		FindAllStringSubmatch(image.String(), -1) {
		lines = append(lines, found[1])
		if n := utf8.RuneCountInString(found[1]); n > room {
			t.Errorf("a line has %d characters, and there is room for %d: %s", n, room, found[1])
		}
	}
	if got := strings.Join(lines[1:], " "); got != remark+"a second remark" {
		t.Errorf("the remarks are %q", got)
	}
	if long := wrapped([]string{strings.Repeat("x", 2*room)}, room); len(long) != 1 {
		t.Error("a long word is broken, or has an empty line before it")
	}
}

// Two diagrams in one image have the participants that they name, and nothing of a stranger's text.
func TestDiagramsOfAPair(t *testing.T) {
	t.Parallel()
	side := Diagram{Title: "<left>", Columns: []Column{Client, API, PSP}, Names: map[Column]string{API: "a & b"},
		Steps: []Step{{At: time.Now(), From: API, To: PSP, Label: "charge"}}}
	var image strings.Builder
	if err := Pair(&image, "<title>", []Part{{side, "twice", false}, {side, "once", true}}); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(image.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	from := svgLeft + svgColumn
	arrow := fmt.Sprintf(`<path class="arrow" d="M%d %dH%d"/>`, from, svgTop+svgRow-10, from+svgColumn)
	wide, _ := side.size()
	second := fmt.Sprintf(`class="good" x="%d" y="60">once</text>
<g transform="translate(%d `, wide+svgTimeAt, wide)
	for _, want := range []string{arrow, `class="bad" x="8" y="60">twice`, second, "a &amp; b", "&lt;left&gt;"} {
		if !strings.Contains(image.String(), want) {
			t.Errorf("no %s in %s", want, image.String())
		}
	}
	if strings.Contains(image.String(), "database") {
		t.Error("a participant is drawn that was not asked for")
	}
}
