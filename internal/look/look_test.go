package look_test

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"payonce/internal/look"
)

var (
	variable = regexp.MustCompile(`(?m)^\s*--([a-z-]+): (.+);$`)
	used     = regexp.MustCompile(`var\(--([a-z-]+)\)`)
)

// variables are those of the style, as they are written.
func variables() map[string]string {
	found := map[string]string{}
	for _, v := range variable.FindAllStringSubmatch(look.Base(), -1) {
		found[v[1]] = v[2]
	}
	return found
}

// What stands on what, in all pages. A text that is not on this list stands on a background of another text.
func TestEachTextCanBeReadInLightAndInDark(t *testing.T) {
	t.Parallel()
	pairs := [][2]string{
		{"card", "accent"}, {"card", "bad"}, // buttons
		{"good", "good-tint"}, {"warn", "warn-tint"}, {"bad", "bad-tint"}, {"accent", "accent-tint"}, // statuses
	}
	for _, background := range []string{"card", "ground", "inset"} {
		for _, text := range []string{"ink", "soft", "accent", "good", "warn", "bad"} {
			pairs = append(pairs, [2]string{text, background})
		}
	}
	for _, tint := range []string{"accent-tint", "good-tint", "warn-tint", "bad-tint"} { // notices
		pairs = append(pairs, [2]string{"ink", tint}, [2]string{"accent", tint})
	}
	for _, s := range []scheme{light, dark} {
		for _, pair := range pairs {
			text, background := s.colour(t, "var(--"+pair[0]+")"), s.colour(t, "var(--"+pair[1]+")")
			if got := contrast(text, background); got < 4.5 {
				t.Errorf("%s: --%s on --%s has a contrast of %.2f, want 4.5", s, pair[0], pair[1], got)
			}
		}
	}
}

// The value that has just changed is on a background that begins at a quarter of the accent.
func TestChangedValueCanBeReadFromTheStart(t *testing.T) {
	t.Parallel()
	background := regexp.MustCompile(`@keyframes changed \{ from \{ background-color: (.+?); \} \}`).
		FindStringSubmatch(look.Style())
	if background == nil {
		t.Fatal("the style has no such animation")
	}
	for _, s := range []scheme{light, dark} {
		if got := contrast(s.colour(t, "var(--ink)"), s.colour(t, background[1])); got < 4.5 {
			t.Errorf("%s: --ink has a contrast of %.2f, want 4.5", s, got)
		}
	}
}

func TestSixColoursAreWrittenDownAndTheRestAreMixed(t *testing.T) {
	t.Parallel()
	var written []string
	for _, v := range variable.FindAllStringSubmatch(look.Base(), -1) {
		if strings.HasPrefix(v[2], "light-dark(#") {
			written = append(written, v[1])
		}
	}
	if got := strings.Join(written, " "); got != "card ink accent good warn bad" {
		t.Errorf("the colours are %s", got)
	}
	parts := strings.TrimPrefix(look.Style(), look.Base())
	if found := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(`).FindString(parts); found != "" {
		t.Errorf("style.css has a colour of its own: %s", found)
	}
}

func TestEachVariableThatIsUsedIsDefined(t *testing.T) {
	t.Parallel()
	defined := variables()
	for _, name := range used.FindAllStringSubmatch(look.Style(), -1) {
		if defined[name[1]] == "" {
			t.Errorf("--%s is not defined", name[1])
		}
	}
	// A diagram of package sequence takes these from its page.
	for _, name := range []string{"ink", "soft", "line", "card", "accent", "bad"} {
		if defined[name] == "" {
			t.Errorf("--%s is not defined", name)
		}
	}
}

// Pages and their policies rely on this list.
func TestStyleHasTheClassesThatPagesUse(t *testing.T) {
	t.Parallel()
	for _, selector := range []string{
		".skip", ".visually-hidden", "header nav", "main.wide", ".lead", ".facts", ".cards", ".rows", ".grid", ".card",
		".figures", ".figure", ".notice", ".notice.good", ".notice.bad", ".picture", "svg.sequence", ".status",
		".status.completed", ".status.in_progress", ".status.unknown", ".status.failed_retryable", ".status.expired",
		".changed", ".scroll", "td.number", "td.fixed", "td.key", "td.long",
		"table.row", ".chart", ".timeline", ".steps", ".fields",
		"form.inline", "label.choice", "button.quiet", "button.danger",
		":focus-visible",
	} {
		if !strings.Contains(look.Style(), selector) {
			t.Errorf("the style has no %s", selector)
		}
	}
}

func TestStyleLoadsNothingAndStaysInItsElement(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"url(", "@import", "</", "//"} {
		if strings.Contains(look.Style(), part) {
			t.Errorf("the style has %q", part)
		}
	}
}

func TestSourceIsTheHashOfTheStyle(t *testing.T) {
	t.Parallel()
	hash := sha256.Sum256([]byte(look.Style()))
	if want := "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"; look.StyleSource() != want {
		t.Errorf("%s, want %s", look.StyleSource(), want)
	}
}

type scheme string

const (
	light scheme = "light"
	dark  scheme = "dark"
)

type colour struct{ red, green, blue float64 } // from 0 to 1, as sRGB has them

// colour evaluates what base.css is written in: #rrggbb, var(), light-dark() and color-mix() in sRGB.
func (s scheme) colour(t *testing.T, css string) colour {
	t.Helper()
	if hex, ok := strings.CutPrefix(css, "#"); ok {
		n, err := strconv.ParseUint(hex, 16, 32)
		if err != nil || len(hex) != 6 {
			t.Fatalf("colour %q", css)
		}
		return colour{float64(n>>16) / 255, float64(n>>8&255) / 255, float64(n&255) / 255}
	}
	name, rest, _ := strings.Cut(css, "(")
	parts := arguments(strings.TrimSuffix(rest, ")"))
	switch {
	case name == "var" && len(parts) == 1:
		return s.colour(t, variables()[strings.TrimPrefix(parts[0], "--")])
	case name == "light-dark" && len(parts) == 2 && s == light:
		return s.colour(t, parts[0])
	case name == "light-dark" && len(parts) == 2:
		return s.colour(t, parts[1])
	case name == "color-mix" && len(parts) == 3 && parts[0] == "in srgb":
		first, share, _ := strings.Cut(parts[1], " ")
		percent, err := strconv.ParseFloat(strings.TrimSuffix(share, "%"), 64)
		if err != nil {
			t.Fatalf("share %q", share)
		}
		return mixed(s.colour(t, first), s.colour(t, parts[2]), percent/100)
	}
	t.Fatalf("colour %q", css)
	return colour{}
}

// arguments splits at the commas that are in no brackets.
func arguments(list string) []string {
	var parts []string
	depth, start := 0, 0
	for i, c := range list {
		switch c {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				parts = append(parts, strings.TrimSpace(list[start:i]))
				start = i + 1
			}
		}
	}
	return append(parts, strings.TrimSpace(list[start:]))
}

func mixed(a, b colour, share float64) colour {
	return colour{a.red*share + b.red*(1-share), a.green*share + b.green*(1-share), a.blue*share + b.blue*(1-share)}
}

// contrast is the contrast ratio of WCAG 2.2.
func contrast(a, b colour) float64 {
	one, other := a.luminance(), b.luminance()
	return (max(one, other) + 0.05) / (min(one, other) + 0.05)
}

func (c colour) luminance() float64 {
	return 0.2126*linear(c.red) + 0.7152*linear(c.green) + 0.0722*linear(c.blue)
}

func linear(channel float64) float64 {
	if channel <= 0.04045 {
		return channel / 12.92
	}
	return math.Pow((channel+0.055)/1.055, 2.4)
}
