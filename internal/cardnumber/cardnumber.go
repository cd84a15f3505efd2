// Package cardnumber finds what looks like a payment card number in text, so that none is ever stored or logged: Payonce
// deals in PSP tokens alone, and who sends a card number has made a mistake that is better refused than kept.
//
// A find is 13 to 19 digits that pass the Luhn check (ISO/IEC 7812-1), written in one piece or in the groups printed on
// cards, with single spaces, hyphens or full stops between them. Groups of other sizes, or that go on in letters, do not count: they would
// make some random UUIDs look like cards.
package cardnumber

import "regexp"

var (
	inOnePiece = regexp.MustCompile(`[0-9]{13,}`)
	inGroups   = regexp.MustCompile(`[0-9]+(?:[ .-][0-9]+)+`)
	group      = regexp.MustCompile(`[0-9]+`)
	cardGroups = regexp.MustCompile(`^(?:[0-9]{4}[ .-]){3}[0-9]{1,7}$|^(?:[0-9]{4}[ .-]){4}[0-9]{1,3}$|^[0-9]{4}[ .-][0-9]{6}[ .-][0-9]{4,5}$`)
)

// In reports whether s holds a card number.
func In(s string) bool {
	for _, run := range inOnePiece.FindAllString(s, -1) {
		if len(run) <= 19 && luhn(run) {
			return true
		}
	}
	for _, at := range inGroups.FindAllStringIndex(s, -1) {
		if amongGroups(s, at[0], at[1]) {
			return true
		}
	}
	return false
}

// amongGroups reports whether any neighbours among the groups of s[from:to] make a card number: an expiry date, a security
// code or an order number may stand beside it.
func amongGroups(s string, from, to int) bool {
	groups := group.FindAllStringIndex(s[from:to], -1)
	for i := range groups {
		for j := i + 2; j < len(groups) && j < i+5; j++ {
			first, last := from+groups[i][0], from+groups[j][1]
			if run := s[first:last]; cardGroups.MatchString(run) && !touchesWord(s, first, last) && luhn(run) {
				return true
			}
		}
	}
	return false
}

// touchesWord reports whether s[from:to] goes on in letters, as the groups of a UUID do.
func touchesWord(s string, from, to int) bool {
	return from > 0 && isLetter(s[from-1]) || to < len(s) && isLetter(s[to])
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// luhn checks the digits of s and skips everything else.
func luhn(s string) bool {
	sum, double := 0, false
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] < '0' || s[i] > '9' {
			continue
		}
		d := int(s[i] - '0')
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		double = !double
	}
	return sum%10 == 0
}
