package statement

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/payments"
	"payonce/internal/statement/internal/dbsqlc"
)

// maxShown is the longest text of others that the table shows, in characters. The other formats have all of it.
const maxShown = 40

// tableWriter writes for people: what was read, the breaks, their sums. The width of a column is known before its first
// line, so that no line waits for the last one.
type tableWriter struct {
	out    *bufio.Writer
	format string
	totals []Total
	lines  int64
}

func (r *Reconciler) newTable(ctx context.Context, w io.Writer, report Report) (*tableWriter, error) {
	var widths dbsqlc.WidthsRow
	err := r.config.DB.Read(ctx, func(ctx context.Context, c *pgxpool.Conn) (err error) {
		widths, err = dbsqlc.New(c).Widths(ctx, report.runIDs())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("measure breaks: %w", err)
	}
	account := len("ACCOUNT")
	for _, s := range report.Runs {
		account = max(account, len(s.Account))
	}
	// What is missing there has a reference that we write ourselves, 30 characters long.
	reference := min(max(int(widths.Reference), 30), maxShown)
	psp := min(max(int(widths.PspID), len("PSP ID")), maxShown)
	return &tableWriter{
		out: bufio.NewWriter(w),
		format: "%-10s  %-" + strconv.Itoa(account) + "s  %-13s  %-6s  %-" + strconv.Itoa(reference) + "s  %-" + strconv.Itoa(psp) +
			"s  %20s  %20s  %6s  %6s  %s\n",
	}, nil
}

func (w *tableWriter) begin(report Report, totals []Total) error {
	w.totals = totals
	fmt.Fprintf(w.out, "Statements of %s (UTC)\n\n", report.Day.Format(time.DateOnly))
	tw := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ACCOUNT\tDAY\tLINES\tBREAKS\tNEW\tGONE\tPENDING\t")
	for _, s := range report.Runs {
		note := ""
		if s.Partial {
			note = "the day is not over"
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\n",
			s.Account, s.Day.Format(time.DateOnly), s.Lines, s.Breaks, s.New, s.Gone, s.Pending, note)
	}
	return tw.Flush()
}

func (w *tableWriter) add(b Break) error {
	if w.lines == 0 {
		fmt.Fprintf(w.out, "\n"+w.format,
			"DAY", "ACCOUNT", "KIND", "OBJECT", "REFERENCE", "PSP ID", "THEIRS", "OURS", "AGE", "MOVED", "NOTE")
	}
	w.lines++
	_, err := fmt.Fprintf(w.out, w.format, b.Day.Format(time.DateOnly), b.Account, b.Kind, b.Object, shown(b.Reference),
		shown(b.PSPID), money(b.Theirs), money(b.Ours), wholeDays(b.Age)+" d", wholeDays(b.MovementAge)+" d", note(b))
	return err
}

func (w *tableWriter) end() error {
	if w.lines == 0 {
		fmt.Fprintln(w.out, "\nNo breaks.")
		return w.out.Flush()
	}
	fmt.Fprintln(w.out)
	tw := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "KIND\tCURRENCY\tBREAKS\tAT STAKE\t0-1 d\t1-7 d\t> 7 d\tOLDEST MOVED\t")
	for _, t := range w.totals {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%s d\t\n", t.Kind, t.Currency, t.Breaks, majorOf(t.Currency, t.AtStakeMinor),
			t.ToOneDay, t.ToSevenDays, t.Older, wholeDays(t.OldestMovement))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return w.out.Flush()
}

// note says what the columns do not.
func note(b Break) string {
	switch b.Kind {
	case MissingHere:
		if b.OtherTenant {
			return "the reference is another tenant's"
		}
	case Duplicate:
		return strconv.FormatInt(b.Lines, 10) + " × this id"
	case Status:
		return "ours is " + b.Ours.Status
	case PSPID:
		if b.Ours.PSPID == b.PSPID {
			return "ours has another reference"
		}
		return "ours has " + shown(b.Ours.PSPID)
	case MissingThere, Amount, Currency:
	}
	return ""
}

func money(s *Side) string {
	if s == nil {
		return "-"
	}
	return majorOf(s.Currency, strconv.FormatInt(s.AmountMinor, 10)) + " " + s.Currency
}

// majorOf writes an amount in the major unit. A currency that is not in use has none.
func majorOf(currency, minor string) string {
	n, err := strconv.ParseInt(minor, 10, 64)
	if _, known := payments.Currency(currency).MinorDigits(); err != nil || !known {
		return minor
	}
	return payments.Currency(currency).Decimal(payments.AmountMinor(n))
}

// shown is a text of others as one line of a terminal, which obeys control characters.
func shown(s string) string {
	s = strings.Map(func(c rune) rune {
		if !unicode.IsGraphic(c) || (unicode.IsSpace(c) && c != ' ') {
			return '?'
		}
		return c
	}, s)
	if utf8.RuneCountInString(s) > maxShown {
		s = string([]rune(s)[:maxShown-1]) + "…"
	}
	return s
}
