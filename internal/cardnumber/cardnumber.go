// Package cardnumber finds what looks like a payment card number in text, so that none is ever stored or logged: Payonce
// deals in PSP tokens alone, and who sends a card number has made a mistake that is better refused than kept.
//
// A find is 13 to 19 digits that pass the Luhn check (ISO/IEC 7812-1), written in one piece or in the groups printed on
// cards, with single spaces, hyphens or full stops between them. Groups of other sizes, or that go on in letters, do not count: they would
// make some random UUIDs look like cards.
//
// Every text of every request is looked through, so it is read once, byte by byte; regular expressions took thirty times as long.
package cardnumber

import "slices"

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
		if n := len(neighbours); n > 0 && !beside(s, neighbours[n-1], g) {
			neighbours = neighbours[:0]
		} else if n == cap(neighbours) {
			neighbours = slices.Delete(neighbours, 0, 1)
		}
		neighbours = append(neighbours, g)
		if g.size() >= fewest && g.size() <= most && luhn(s[g.from:g.to]) || endInCard(s, neighbours) {
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

// beside reports whether one separator, and nothing else, is between two groups.
func beside(s string, a, b group) bool {
	return b.from == a.to+1 && (s[a.to] == ' ' || s[a.to] == '.' || s[a.to] == '-')
}

// endInCard reports whether the last few of some neighbours make a card number: an expiry date, a security code or an order
// number may stand beside it.
func endInCard(s string, neighbours []group) bool {
	for n := 3; n <= len(neighbours); n++ {
		groups := neighbours[len(neighbours)-n:]
		from, to := groups[0].from, groups[n-1].to
		if printedOnCards(groups) && !touchesWord(s, from, to) && luhn(s[from:to]) {
			return true
		}
	}
	return false
}

// printedOnCards reports whether 3 to 5 groups have the sizes of those on cards: 4-6-5 and 4-6-4, or fours with a rest.
func printedOnCards(groups []group) bool {
	first, last := groups[:len(groups)-1], groups[len(groups)-1].size()
	if len(groups) == 3 {
		return first[0].size() == 4 && first[1].size() == 6 && (last == 4 || last == 5)
	}
	if slices.ContainsFunc(first, func(g group) bool { return g.size() != 4 }) {
		return false
	}
	return len(groups) == 4 && last <= 7 || len(groups) == 5 && last <= 3
}

// touchesWord reports whether s[from:to] goes on in letters, as the groups of a UUID do.
func touchesWord(s string, from, to int) bool {
	return from > 0 && isLetter(s[from-1]) || to < len(s) && isLetter(s[to])
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// luhn checks the digits of s and skips everything else.
func luhn(s string) bool {
	sum, double := 0, false
	for i := len(s) - 1; i >= 0; i-- {
		if !isDigit(s[i]) {
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
