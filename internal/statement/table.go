package statement

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"payonce/internal/gateway"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// The widths of the columns are fixed, so each line can be written at once. Together they are 120 characters. A
// reference of ours has 30, an id of the mock PSP's 29, and 17 are enough for the largest amount that Payonce takes.
// The other formats do not cut anything off.
const (
	maxReference = 30
	maxPSPID     = 29
	maxMoney     = 17
	maxAccount   = 40 // in the list of what was read
	maxNoted     = 60 // for an id in the notes
	breakFormat  = "%-13s  %-30s  %-29s  %17s  %17s  %4s\n"
)

// tableWriter writes a table for people: the statements that were read, the breaks of each account's day, and totals.
type tableWriter struct {
	out     *bufio.Writer
	totals  []Total
	account string // the account of the last break
	day     time.Time
	lines   int64
}

func (w *tableWriter) begin(report Report, totals []Total) error {
	w.totals = totals
	fmt.Fprintf(w.out, "Statements of %s (UTC)\n\n", report.Day.Format(time.DateOnly))
	tw := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ACCOUNT\tDAY\tLINES\tBREAKS\tNEW\tGONE\tPENDING\t")
	for _, s := range report.Runs {
		note := ""
		if s.Partial {
			note = "the day is not over: OURS lacks its last minutes"
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n", shown(s.Account, maxAccount),
			s.Day.Format(time.DateOnly), s.Lines, s.Breaks, s.New, s.Gone, s.Pending, note)
	}
	return tw.Flush()
}

func (w *tableWriter) add(b Break) error {
	if w.lines == 0 || b.Account != w.account || !b.Day.Equal(w.day) {
		w.account, w.day = b.Account, b.Day
		fmt.Fprintf(w.out, "\nBreaks of %s, %s\n", b.Account, b.Day.Format(time.DateOnly))
		fmt.Fprintf(w.out, breakFormat, "KIND", "REFERENCE", "PSP ID", "THEIRS", "OURS", "AGE")
	}
	w.lines++
	theirs, n := money(b.Theirs), notes(b)
	if len(theirs) > maxMoney { // An amount is never cut off.
		theirs, n = "see below", append(n, "theirs is "+theirs)
	}
	_, err := fmt.Fprintf(w.out, breakFormat, b.Kind, shown(b.Reference, maxReference), shown(b.PSPID, maxPSPID),
		theirs, money(b.Ours), wholeDays(b.AgeSeconds)+"d")
	if len(n) > 0 {
		_, err = fmt.Fprintf(w.out, "  %s\n", strings.Join(n, "; "))
	}
	return err
}

func (w *tableWriter) endBreaks() error {
	if w.lines == 0 {
		fmt.Fprintln(w.out, "\nNo breaks.")
		return nil
	}
	fmt.Fprintln(w.out)
	tw := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "KIND\tCURRENCY\tBREAKS\tAT STAKE\t0-1 d\t1-7 d\t> 7 d\tOLDEST MOVED\t")
	for _, t := range w.totals {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%s d\t\n", t.Kind, t.Currency, t.Breaks,
			majorOf(t.Currency, t.AtStakeMinor), t.Ages.ToOneDay, t.Ages.ToSevenDays, t.Ages.Older,
			wholeDays(t.OldestMovementSeconds))
	}
	return tw.Flush()
}

func (w *tableWriter) books(s Summary, both Books) error {
	fmt.Fprintf(w.out, "\nBooks of %s, %s: their lines, and what customers paid by both books, gross to net\n",
		shown(s.Account, maxAccount), s.Day.Format(time.DateOnly))
	tw := tabwriter.NewWriter(w.out, 0, 0, 1, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "BOOKED\tLINES\tTHEIRS\tOURS\tGROSS\tFEE\tNET\t")
	for _, b := range both.Sums {
		fmt.Fprintf(tw, "%s %s\t%d", shown(b.Name(), maxNoted), b.Currency, b.Lines)
		for _, minor := range []string{b.TheirsMinor, b.OursMinor, b.GrossMinor, b.FeeMinor, b.NetMinor} {
			fmt.Fprintf(tw, "\t%s", b.Major(minor))
		}
		fmt.Fprintln(tw, "\t")
	}
	err := tw.Flush()
	for _, p := range both.Payouts {
		fmt.Fprintf(w.out, "Payout %s of %s: %s\n", shown(p.PayoutID, maxNoted), p.Amount(), p.Paid())
	}
	return err
}

func (w *tableWriter) end() error { return w.out.Flush() }

// notes are what the columns do not say. They are on a line of their own.
func notes(b Break) []string {
	var all []string
	if b.Object != gateway.ChargeObject && b.Object != "" {
		all = append(all, "a "+string(b.Object))
	}
	if b.MovementAgeSeconds-b.AgeSeconds > daySeconds {
		all = append(all, "moved "+wholeDays(b.MovementAgeSeconds)+" days ago")
	}
	switch b.Kind {
	case judge.BreakMissingHere:
		if b.OtherTenant {
			all = append(all, "the reference is another tenant's")
		}
		if b.Changed != "" {
			all = append(all, "of our "+b.Changed+", made by others")
		}
	case judge.BreakDuplicate:
		all = append(all, strconv.FormatInt(b.Lines, 10)+" × this id")
	case judge.BreakStatus:
		all = append(all, "ours is "+b.Ours.Status)
	case judge.BreakPSPID:
		if b.Ours.PSPID == b.PSPID {
			all = append(all, "ours has another reference")
		} else {
			all = append(all, "ours has "+shown(b.Ours.PSPID, maxNoted))
		}
	case judge.BreakMissingThere, judge.BreakAmount, judge.BreakCurrency:
	}
	return all
}

func money(s *judge.Side) string {
	if s == nil {
		return "-"
	}
	return majorOf(s.Currency, strconv.FormatInt(s.AmountMinor, 10)) + " " + s.Currency
}

// majorOf writes an amount in the major unit. If the currency is not in use, or a sum does not fit into 64 bits, it is
// in the minor unit.
func majorOf(currency, minor string) string {
	digits, negative := strings.CutPrefix(minor, "-")
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil:
		return minor
	case negative:
		return "-" + payment.Currency(currency).Decimal(payment.AmountMinor(n))
	}
	return payment.Currency(currency).Decimal(payment.AmountMinor(n))
}

// shown is a text that we have not written, as one line of a terminal. Control characters are replaced, because a
// terminal obeys them. The line has at most width characters.
func shown(s string, width int) string {
	s = strings.Map(func(c rune) rune {
		if !unicode.IsGraphic(c) || (unicode.IsSpace(c) && c != ' ') {
			return '?'
		}
		return c
	}, s)
	if utf8.RuneCountInString(s) > width {
		s = string([]rune(s)[:width-1]) + "…"
	}
	return s
}
