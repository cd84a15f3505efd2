package cardnumber

import (
	"slices"
	"time"
)

// issuer is a range of first digits, from to to, and how many digits the numbers have that begin so.
type issuer struct {
	from, to string // of equal length
	lengths  []int
}

var sixteenToNineteen = []int{16, 17, 18, 19}

// issuers are the ranges in use, by the issuers' public lists. None begins with 0, 1 or 20, as timestamps do.
var issuers = []issuer{
	{"4", "4", []int{13, 16, 19}},                   // Visa
	{"51", "55", []int{16}},                         // Mastercard
	{"2221", "2720", []int{16}},                     // Mastercard
	{"2200", "2204", []int{16}},                     // Mir
	{"34", "34", []int{15}},                         // American Express
	{"37", "37", []int{15}},                         // American Express
	{"300", "305", []int{14, 16, 19}},               // Diners Club
	{"3095", "3095", []int{14, 16, 19}},             // Diners Club
	{"36", "36", []int{14, 16, 19}},                 // Diners Club
	{"38", "39", []int{14, 16, 19}},                 // Diners Club
	{"3528", "3589", sixteenToNineteen},             // JCB
	{"60", "60", sixteenToNineteen},                 // Discover, RuPay, Hipercard
	{"62", "62", sixteenToNineteen},                 // UnionPay
	{"64", "65", sixteenToNineteen},                 // Discover, Elo
	{"81", "82", sixteenToNineteen},                 // UnionPay, RuPay
	{"50", "50", []int{13, 14, 15, 16, 17, 18, 19}}, // Maestro, Elo, Verve
	{"56", "58", []int{13, 14, 15, 16, 17, 18, 19}}, // Maestro
	{"63", "63", []int{13, 14, 15, 16, 17, 18, 19}}, // Maestro, Elo
	{"67", "67", []int{13, 14, 15, 16, 17, 18, 19}}, // Maestro
	{"9792", "9792", []int{16}},                     // Troy
}

func issued(digits string) bool {
	return slices.ContainsFunc(issuers, func(i issuer) bool {
		first := digits[:len(i.from)]
		return i.from <= first && first <= i.to && slices.Contains(i.lengths, len(digits))
	})
}

// dayFirst reports whether the digits are a day of these decades and a time of it, the day first. On the 30th of each
// month, these begin as the numbers of Diners Club do.
func dayFirst(digits string) bool {
	at, err := time.Parse("02012006150405", digits)
	return err == nil && at.Year() >= 1970 && at.Year() < 2100
}
