package statement

import (
	"context"
	"fmt"

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

// Paid says which lines the payout has paid.
func (p Payout) Paid() string {
	if p.Lines == 0 {
		return "the PSP does not tell which lines it has paid"
	}
	return fmt.Sprintf("%d lines, of which we have %d with a net of %s %s", p.Lines, p.Known,
		majorOf(p.Currency, p.KnownMinor), p.Currency)
}

// writeBooks writes both books of a run's day.
func (r *Reconciler) writeBooks(ctx context.Context, out writer, s Summary) error {
	q := dbsqlc.New(r.config.DB.Reader())
	rows, err := q.Books(ctx, dbsqlc.BooksParams{Account: s.Account, Day: dateOf(s.Day)})
	if err != nil {
		return fmt.Errorf("read both books: %w", err)
	}
	paid, err := q.Payouts(ctx, dbsqlc.PayoutsParams{Account: s.Account, Day: dateOf(s.Day)})
	if err != nil {
		return fmt.Errorf("read payouts: %w", err)
	}
	books, payouts := make([]Book, len(rows)), make([]Payout, len(paid))
	for i, b := range rows {
		books[i] = Book(b)
	}
	for i, p := range paid {
		payouts[i] = Payout(p)
	}
	return out.books(s, books, payouts)
}
