package payments

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
)

// unexplained returns those records of one page of an account's ledger that our books do not confirm exactly. A scan
// has to look into these. One query reads the books for the whole page.
func (s *Service) unexplained(
	ctx context.Context, o gateway.Object, account string, page []gateway.Record,
) ([]gateway.Record, error) {
	ids := make([]uuid.UUID, len(page))
	for i, r := range page {
		// Without a reference to a movement, it is zero. No movement has that id.
		ids[i], _ = payment.SubjectOf(r.Object, r.Reference)
	}
	rows, err := dbsqlc.New(s.db.Reader()).BookedMovements(ctx,
		dbsqlc.BookedMovementsParams{Ids: ids, Account: account, Object: string(o)})
	if err != nil {
		return nil, fmt.Errorf("read books: %w", err)
	}
	books := make(map[uuid.UUID]dbsqlc.BookedMovementsRow, len(rows))
	for _, row := range rows {
		books[row.ID] = row
	}
	var open []gateway.Record
	for i, r := range page {
		if book, found := books[ids[i]]; !found || r.Account != account || !confirms(book, r) {
			open = append(open, r)
		}
	}
	return open, nil
}

// confirms reports whether our books say of a movement what the PSP's record says.
func confirms(book dbsqlc.BookedMovementsRow, r gateway.Record) bool {
	key := execution("", "", book.IdempotencyKey, book.ID, book.Generation).PassThroughKey()
	return r.Key == key && r.ChargeID == book.ChargeID && r.AmountMinor == book.AmountMinor &&
		r.Currency == book.Currency && r.Status == book.Status && r.ID == book.PspID
}

// withoutForeign takes the records of other programs' charges out of a page, and counts them. One query asks for the
// whole page.
func (s *Service) withoutForeign(ctx context.Context, w walk, page gateway.Page) (gateway.Page, error) {
	if !s.psps.Of(w.psp).Traits().ForeignRecords {
		return page, nil
	}
	unmarked := func(r gateway.Record) bool { return r.ChargeID != "" && !r.Marked() }
	var charges []string
	for _, r := range page.Records {
		if unmarked(r) {
			charges = append(charges, r.ChargeID)
		}
	}
	if len(charges) == 0 {
		return page, nil
	}
	ours, err := dbsqlc.New(s.db.Reader()).MovementsByPSPID(ctx, dbsqlc.MovementsByPSPIDParams{PspIds: charges,
		Account: w.account, Object: string(gateway.ChargeObject)})
	if err != nil {
		return page, fmt.Errorf("find charges of ours: %w", err)
	}
	all := len(page.Records)
	page.Records = slices.DeleteFunc(slices.Clone(page.Records), func(r gateway.Record) bool {
		return unmarked(r) && !slices.ContainsFunc(ours,
			func(m dbsqlc.MovementsByPSPIDRow) bool { return m.PspID == r.ChargeID })
	})
	page.Foreign += all - len(page.Records)
	return page, nil
}

// accountsPage is how many accounts one query reads.
const accountsPage = 500

// Accounts calls each for the PSP account of every tenant.
func (s *Service) Accounts(ctx context.Context, each func(account string) error) error {
	after := ""
	for {
		accounts, err := dbsqlc.New(s.db.Reader()).ListAccounts(ctx,
			dbsqlc.ListAccountsParams{After: after, MaxRows: accountsPage})
		if err != nil {
			return fmt.Errorf("list accounts: %w", err)
		}
		for _, account := range accounts {
			if err := each(account); err != nil {
				return err
			}
			after = account
		}
		if len(accounts) < accountsPage {
			return nil
		}
	}
}
