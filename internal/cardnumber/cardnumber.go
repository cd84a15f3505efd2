// Package cardnumber finds what looks like a payment card number in text, so that none is ever stored or logged:
// Payonce deals in PSP tokens alone, and who sends a card number has made a mistake that is better refused than kept.
//
// A find is a number that stands alone, has the first digits and the length of an issuer's numbers, and passes the Luhn
// check (ISO/IEC 7812-1). It is written in one piece or in the groups printed on cards, with single spaces, hyphens or
// full stops between them. A number that goes on in letters does not stand alone. Nine of ten random numbers fail Luhn,
// which is not enough: good keys are UUIDs and timestamps, and hardly one of a million may be refused. A UUID has no
// card's groups, and without hyphens it has letters in it. Unix time in milliseconds, microseconds or nanoseconds
// begins with 1 until 2033, as no card does.
//
// Every text of every request is looked through, so it is read once, byte by byte; regular expressions took thirty
// times as long.
package cardnumber

import (
	"slices"
	"strings"
)

const (
	fewest = 13 // digits of a card number
	most   = 19
)

// In reports whether s holds a card number.
func In(s string) bool {
	if len(s) < fewest {
		return false
	}
	neighbours := make([]group, 0, 5) // no card has more groups
	for i := 0; i < len(s); i++ {
		if !isDigit(s[i]) {
			continue
		}
		g := groupAt(s, i)
		i = g.to
		if n := len(neighbours); n > 0 && !adjoins(s, neighbours[n-1], g) {
			neighbours = neighbours[:0]
		} else if n == cap(neighbours) {
			neighbours = slices.Delete(neighbours, 0, 1)
		}
		neighbours = append(neighbours, g)
		if endInCard(s, neighbours) {
			return true
		}
	}
	return false
}

// group is s[from:to]: digits, with none before and behind them.
type group struct{ from, to int }

func (g group) size() int { return g.to - g.from }

func groupAt(s string, from int) group {
	to := from
	for to < len(s) && isDigit(s[to]) {
		to++
	}
	return group{from, to}
}

// adjoins reports whether one separator, and nothing else, is between two groups.
func adjoins(s string, a, b group) bool {
	return b.from == a.to+1 && strings.IndexByte(separators, s[a.to]) >= 0
}

const separators = " .-"

// endInCard reports whether the last few of some neighbours make a card number: an expiry date, a security code or an
// order number may stand next to it.
func endInCard(s string, neighbours []group) bool {
	for n := 1; n <= len(neighbours); n++ {
		groups := neighbours[len(neighbours)-n:]
		from, to := groups[0].from, groups[n-1].to
		if printedOnCards(groups) && standsAlone(s, from, to) && isCard(digitsOf(s[from:to])) {
			return true
		}
	}
	return false
}

// printedOnCards reports whether groups have the sizes of those on cards: one piece, 4-6-5 and 4-6-4, or fours with a
// rest.
func printedOnCards(groups []group) bool {
	n := len(groups)
	first, last := groups[:n-1], groups[n-1].size()
	switch n {
	case 1:
		return fewest <= last && last <= most
	case 3:
		return first[0].size() == 4 && first[1].size() == 6 && (last == 4 || last == 5)
	case 4, 5:
		return last <= 4 && 4*len(first)+last <= most &&
			!slices.ContainsFunc(first, func(g group) bool { return g.size() != 4 })
	}
	return false
}

// standsAlone reports whether s[from:to] does not go on in letters, as the groups of a UUID do.
func standsAlone(s string, from, to int) bool {
	return (from == 0 || !isLetter(s[from-1])) && (to == len(s) || !isLetter(s[to]))
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func digitsOf(s string) string {
	return strings.Map(func(c rune) rune {
		if '0' <= c && c <= '9' {
			return c
		}
		return -1
	}, s)
}

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
