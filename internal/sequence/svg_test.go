package sequence

import (
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
	if got := strings.Join(lines, " "); got != remark+"a second remark" {
		t.Errorf("the remarks are %q", got)
	}
	if long := wrapped([]string{strings.Repeat("x", 2*room)}, room); len(long) != 1 {
		t.Error("a long word is broken, or has an empty line before it")
	}
}
