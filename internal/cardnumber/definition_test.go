package cardnumber

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The definition of the package's prose, in regular expressions.
var (
	inPieces   = regexp.MustCompile(`[0-9]+(?:[ .-][0-9]+)*`)
	digits     = regexp.MustCompile(`[0-9]+`)
	cardGroups = regexp.MustCompile(`^[0-9]{13,19}$|^(?:[0-9]{4}[ .-]){3}[0-9]{1,4}$|^(?:[0-9]{4}[ .-]){4}[0-9]{1,3}$|^[0-9]{4}[ .-][0-9]{6}[ .-][0-9]{4,5}$`)
	ofIssuers  = regexp.MustCompile(`^(?:4(?:.{12}|.{15}|.{18})|(?:5[1-5]..|222[1-9]|22[3-9].|2[3-6]..|27[01].|2720|220[0-4]|9792).{12}|3[47].{13}|` +
		`(?:30[0-5].|3095|36..|3[89]..)(?:.{10}|.{12}|.{15})|(?:352[89]|35[3-8].|6[0245]..|8[12]..).{12,15}|(?:50|5[678]|6[37]).{11,17})$`)
	onThe30th = regexp.MustCompile(`^30(?:0[13-9]|1[012])(?:19[7-9].|20..)(?:[01].|2[0-3])[0-5].[0-5].$`)
)

func defined(s string) bool {
	for _, at := range inPieces.FindAllStringIndex(s, -1) {
		groups := digits.FindAllStringIndex(s[at[0]:at[1]], -1)
		for i := range groups {
			for j := i; j < len(groups); j++ {
				first, last := at[0]+groups[i][0], at[0]+groups[j][1]
				number := strings.Join(digits.FindAllString(s[first:last], -1), "")
				if cardGroups.MatchString(s[first:last]) && standsAlone(s, first, last) &&
					luhn(number) && ofIssuers.MatchString(number) && !onThe30th.MatchString(number) {
					return true
				}
			}
		}
	}
	return false
}

// pieces are digits that make up numbers of cards, or nearly.
var pieces = rapid.Custom(func(t *rapid.T) string {
	if rapid.Bool().Draw(t, "random") {
		size := rapid.SampledFrom([]int{1, 3, 4, 4, 4, 5, 6, 7, 8, 13, 16, 20}).Draw(t, "size")
		return rapid.StringOfN(rapid.RuneFrom([]rune("0123456789")), size, size, -1).Draw(t, "digits")
	}
	first := rapid.SampledFrom([]string{
		"4", "51", "55", "56", "2220", "2221", "2720", "2721", "2204", "34", "37", "300", "305", "306", "3095", "36",
		"39", "3527", "3528", "3589",
		"60", "61", "62", "65", "66", "81", "83", "50", "63", "67", "9792", "1", "20", "301120261542",
	}).Draw(t, "first")
	number := filled(first, rapid.IntRange(13, 19).Draw(t, "length"))
	sizes := rapid.SampledFrom([][]int{{19}, {4}, {4, 6, 5}, {4, 6, 4}, {8}, {4, 4, 4, 7}, {3, 4}, {4, 4, 5}}).Draw(t,
		"sizes")
	return inGroups(number, rapid.SampledFrom([]string{" ", "-", "."}).Draw(t, "in it"), sizes...)
})

func TestFindsAreThoseOfTheDefinition(t *testing.T) {
	t.Parallel()
	separators := rapid.SampledFrom([]string{"-", "-", "-", "-", "-", " ", ".", "", "--", "a", "/", "_"})
	drawn, finds := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var s strings.Builder
		s.WriteString(rapid.SampledFrom([]string{"", "", "x", "\u00e9", "-"}).Draw(t, "before"))
		for _, g := range rapid.SliceOfN(pieces, 1, 4).Draw(t, "pieces") {
			s.WriteString(g + separators.Draw(t, "separator"))
		}
		want := defined(s.String())
		drawn++
		if In(s.String()) != want {
			t.Fatalf("In(%q) = %t", s.String(), !want)
		}
		if want {
			finds++
		}
	})
	if drawn >= 100 && finds == 0 { // in a short run, none may be drawn
		t.Fatal("no card number was drawn")
	}
}

func FuzzIn(f *testing.F) {
	for _, s := range []string{"4242-4242-4242-4242", "3782 822463 10005", "x4111111111111111y",
		"6304 0000 0000 0000 000", "1 4111.1111.1111.1111a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if want := defined(s); In(s) != want {
			t.Fatalf("In(%q) = %t", s, !want)
		}
	})
}
