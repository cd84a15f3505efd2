// Package cardnumber finds what looks like a payment card number in text, so that none is ever stored or logged:
// Payonce deals in PSP tokens alone, and who sends a card number has made a mistake that is better refused than kept.
//
// A find is a number that stands alone, has the first digits and the length of an issuer's numbers, and passes the Luhn
// check (ISO/IEC 7812-1). It is written in one piece or in the groups printed on cards, with single spaces, hyphens or
// full stops between them. A number that goes on in letters does not stand alone. Nine of ten random numbers fail Luhn,
// which is not enough: good keys are UUIDs and timestamps, and hardly one of a million may be refused. A UUID has no
// card's groups, and without hyphens it has letters in it. Unix time in milliseconds, microseconds or nanoseconds
// begins with 1 until 2033, as no card does.
package cardnumber

import (
	"regexp"
	"strings"
)

// forms are the ways to write a card number at the beginning of a text: in one piece, in fours with a rest, and as
// 4-6-5 or 4-6-4. No digit and no letter follows.
var forms = []*regexp.Regexp{
	regexp.MustCompile(`^([0-9]{13,19})(?:[^0-9A-Za-z]|$)`),
	regexp.MustCompile(`^((?:[0-9]{4}[ .-]){3}[0-9]{1,4})(?:[^0-9A-Za-z]|$)`),
	regexp.MustCompile(`^((?:[0-9]{4}[ .-]){4}[0-9]{1,3})(?:[^0-9A-Za-z]|$)`),
	regexp.MustCompile(`^([0-9]{4}[ .-][0-9]{6}[ .-][0-9]{4,5})(?:[^0-9A-Za-z]|$)`),
}

var withoutSeparators = strings.NewReplacer(" ", "", ".", "", "-", "")

// In reports whether s holds a card number. It tries each place where a number may begin: an expiry date, a security
// code or an order number may stand next to a card number.
func In(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) || i > 0 && (isDigit(s[i-1]) || isLetter(s[i-1])) {
			continue
		}
		for _, form := range forms {
			m := form.FindStringSubmatch(s[i:])
			if m != nil && isCard(withoutSeparators.Replace(m[1])) {
				return true
			}
		}
	}
	return false
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isCard(digits string) bool { return luhn(digits) && issued(digits) && !dayFirst(digits) }

func luhn(digits string) bool {
	sum, double := 0, false
	for i := len(digits) - 1; i >= 0; i-- {
		d := int(digits[i] - '0')
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
