package statement

import (
	"encoding/csv"
	"strconv"
	"strings"
	"time"

	"payonce/internal/judge"
)

// csvWriter writes one line for each break, and neither totals nor books: RFC 4180 with a header.
type csvWriter struct{ csv *csv.Writer }

func (w *csvWriter) begin(Report, []Total) error {
	return w.csv.Write([]string{
		"day", "account", "kind", "object", "reference", "pspId", "lines", "theirAmountMinor", "theirCurrency",
		"ourAmountMinor",
		"ourCurrency", "ourStatus", "ourPspId", "otherTenant", "movedAt", "movementAgeDays", "firstSeen", "ageDays",
		"changedPaymentId",
	})
}

func (w *csvWriter) add(b Break) error {
	theirAmount, theirs := sideOf(b.Theirs)
	ourAmount, ours := sideOf(b.Ours)
	return w.csv.Write([]string{
		b.Day.Format(time.DateOnly), inert(b.Account), string(b.Kind), string(b.Object), inert(b.Reference),
		inert(b.PSPID),
		strconv.FormatInt(b.Lines, 10), theirAmount, theirs.Currency, ourAmount, ours.Currency, ours.Status,
		inert(ours.PSPID),
		strconv.FormatBool(b.OtherTenant), b.Moved.Format(time.RFC3339), wholeDays(b.MovementAgeSeconds),
		b.FirstSeen.Format(time.RFC3339), wholeDays(b.AgeSeconds), b.Changed,
	})
}

func (w *csvWriter) endBreaks() error { return nil }

func (w *csvWriter) books(Summary, Books) error { return nil }

func (w *csvWriter) end() error {
	w.csv.Flush()
	return w.csv.Error()
}

// sideOf returns a side, and its amount as text. Both are empty if there is no side.
func sideOf(s *judge.Side) (amount string, side judge.Side) {
	if s == nil {
		return "", judge.Side{}
	}
	return strconv.FormatInt(s.AmountMinor, 10), *s
}

// inert puts a quote before a text that a spreadsheet would read as a formula. A client may have chosen the text.
// Source: OWASP, CSV Injection.
func inert(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n", rune(s[0])) {
		return "'" + s
	}
	return s
}

func wholeDays(seconds int64) string { return strconv.FormatInt(seconds/daySeconds, 10) }
