package cardnumber

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The definition of the package's prose, in regular expressions.
var (
	inOnePiece = regexp.MustCompile(`[0-9]{13,}`)
	inGroups   = regexp.MustCompile(`[0-9]+(?:[ .-][0-9]+)+`)
	digits     = regexp.MustCompile(`[0-9]+`)
	cardGroups = regexp.MustCompile(`^(?:[0-9]{4}[ .-]){3}[0-9]{1,7}$|^(?:[0-9]{4}[ .-]){4}[0-9]{1,3}$|^[0-9]{4}[ .-][0-9]{6}[ .-][0-9]{4,5}$`)
)

func defined(s string) bool {
	for _, run := range inOnePiece.FindAllString(s, -1) {
		if len(run) <= 19 && luhn(run) {
			return true
		}
	}
	for _, at := range inGroups.FindAllStringIndex(s, -1) {
		groups := digits.FindAllStringIndex(s[at[0]:at[1]], -1)
		for i := range groups {
			for j := i; j < len(groups); j++ {
				first, last := at[0]+groups[i][0], at[0]+groups[j][1]
				if run := s[first:last]; cardGroups.MatchString(run) && !touchesWord(s, first, last) && luhn(run) {
					return true
				}
			}
		}
	}
	return false
}

func TestFindsAreThoseOfTheDefinition(t *testing.T) {
	t.Parallel()
	groups := rapid.Custom(func(t *rapid.T) string {
		size := rapid.SampledFrom([]int{4, 4, 4, 4, 4, 6, 5, 3, 7, 8, 13, 20}).Draw(t, "size")
		if rapid.Bool().Draw(t, "zeros") { // nothing but zeros passes Luhn
			return strings.Repeat("0", size)
		}
		return rapid.StringOfN(rapid.RuneFrom([]rune("0123456789")), size, size, -1).Draw(t, "digits")
	})
	separators := rapid.SampledFrom([]string{"-", "-", "-", "-", "-", " ", ".", "", "--", "a", "/"})
	finds := 0
	rapid.Check(t, func(t *rapid.T) {
		var s strings.Builder
		s.WriteString(rapid.SampledFrom([]string{"", "", "x", "\u00e9", "-"}).Draw(t, "before"))
		for _, g := range rapid.SliceOfN(groups, 1, 8).Draw(t, "groups") {
			s.WriteString(g + separators.Draw(t, "separator"))
		}
		want := defined(s.String())
		if In(s.String()) != want {
			t.Fatalf("In(%q) = %t", s.String(), !want)
		}
		if want {
			finds++
		}
	})
	if finds == 0 {
		t.Fatal("no card number was drawn")
	}
}

func FuzzIn(f *testing.F) {
	for _, s := range []string{"4242-4242-4242-4242", "3782 822463 10005", "x4111111111111111y", "6304 0000 0000 0000 000", "1 4111.1111.1111.1111a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if want := defined(s); In(s) != want {
			t.Fatalf("In(%q) = %t", s, !want)
		}
	})
}
