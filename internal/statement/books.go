package statement

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/statement/internal/dbsqlc"
)

// Book is a row of both books of an account's day, side by side. The sums are text, because they may be too large for
// an integer. They are signed: what leaves the balance is negative.
type Book struct {
	Currency string `json:"currency"`
	// Object is the kind of the lines, "net" for the sum of all but payouts, or "" for the unknown Type.
	Object string `json:"object"`
	Type   string `json:"type,omitzero"`
	Others bool   `json:"ofOthers,omitzero"` // whether the lines are about no payment of ours
	Lines  int64  `json:"lines"`             // booked in this currency
	// TheirsMinor is what customers have paid in this currency by the PSP's lines, and OursMinor by our books.
	TheirsMinor string `json:"theirsMinor"`
	OursMinor   string `json:"oursMinor"`
	Ours        int64  `json:"ours"` // how many movements OursMinor has
	// What was booked on the balance of this currency: gross less fee is net.
	GrossMinor string `json:"grossMinor"`
	FeeMinor   string `json:"feeMinor"`
	NetMinor   string `json:"netMinor"`
}

// Payout is a payout among the lines of a day.
type Payout struct {
	PayoutID    string `json:"payoutId"`
	Currency    string `json:"currency"`
	AmountMinor string `json:"amountMinor"`
	// Lines is how many lines it has paid, by the PSP. Of these, we have Known ones, whose net is KnownMinor.
	Lines      int64  `json:"lines"`
	Known      int64  `json:"known"`
	KnownMinor string `json:"knownMinor"`
}

// Name is what the row's lines are, for people.
func (b Book) Name() string {
	switch {
	case b.Object == "":
		return b.Type + " (unknown type)"
	case b.Others:
		return b.Object + " of others"
	}
	return b.Object
}

// Major is an amount of the row's currency for people.
func (b Book) Major(minor string) string { return majorOf(b.Currency, minor) }

// Amount is what was paid out, for people.
func (p Payout) Amount() string { return majorOf(p.Currency, p.AmountMinor) + " " + p.Currency }

// Paid says which lines the payout has paid.
func (p Payout) Paid() string {
	if p.Lines == 0 {
		return "the PSP has not told which lines it has paid"
	}
	return fmt.Sprintf("%d lines, of which we have %d with a net of %s %s", p.Lines, p.Known,
		majorOf(p.Currency, p.KnownMinor), p.Currency)
}

// Books are both books of an account's day.
type Books struct {
	Sums    []Book   `json:"sums"`
	Payouts []Payout `json:"payouts"`
}

// ReadBooks reads what the last run of an account's day has kept. Without a run, it is empty.
func ReadBooks(ctx context.Context, db *postgres.DB, account string, day time.Time) (b Books, err error) {
	q := dbsqlc.New(db.Reader())
	sums, err := q.Books(ctx, dbsqlc.BooksParams{Account: account, Day: dateOf(day)})
	if err != nil {
		return b, fmt.Errorf("read both books: %w", err)
	}
	payouts, err := q.Payouts(ctx, dbsqlc.PayoutsParams{Account: account, Day: dateOf(day)})
	if err != nil {
		return b, fmt.Errorf("read payouts: %w", err)
	}
	b = Books{make([]Book, len(sums)), make([]Payout, len(payouts))}
	for i, s := range sums {
		b.Sums[i] = Book(s)
	}
	for i, p := range payouts {
		b.Payouts[i] = Payout(p)
	}
	return b, nil
}

// linesShown is how many lines about a payment are shown.
const linesShown = 100

// BookedLine is a line about a payment of ours.
type BookedLine struct {
	BookedAt   time.Time
	Type       string // the PSP's word
	Currency   string // of the balance
	GrossMinor string
	FeeMinor   string
	NetMinor   string
	PayoutID   string // of the payout that has paid it, or ""
}

// Major is an amount of the line for people.
func (l BookedLine) Major(minor string) string { return majorOf(l.Currency, minor) + " " + l.Currency }

// BookedLines are the lines about a payment, the oldest first.
type BookedLines struct {
	Shown []BookedLine
	More  bool // whether there are newer ones
}

// LinesOf reads the lines about a payment.
func LinesOf(ctx context.Context, db *postgres.DB, id payment.ID) (BookedLines, error) {
	rows, err := dbsqlc.New(db.Reader()).LinesOfPayment(ctx, dbsqlc.LinesOfPaymentParams{
		Payment: uuid.UUID(id), MaxRows: linesShown + 1})
	if err != nil {
		return BookedLines{}, fmt.Errorf("read the lines of a payment: %w", err)
	}
	more := len(rows) > linesShown
	rows = rows[:min(len(rows), linesShown)]
	lines := make([]BookedLine, len(rows))
	for i, r := range rows {
		lines[i] = BookedLine(r)
		lines[i].BookedAt = r.BookedAt.UTC()
	}
	return BookedLines{lines, more}, nil
}
