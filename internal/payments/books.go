package payments

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// booked is what our books say about one movement, in the words of the PSP's records.
type booked struct {
	account, key, chargeID, currency, status, pspID string
	amount                                          int64
}

// Unexplained returns those records of one page of an account's ledger that our books do not confirm exactly. A scan
// has to look into these. One query reads the books for the whole page.
func (s *Service) Unexplained(
	ctx context.Context, o gateway.Object, account string, page []gateway.Record,
) ([]gateway.Record, error) {
	ids := make([]uuid.UUID, len(page))
	for i, r := range page {
		ids[i], _ = subjectOf(r) // Without a reference to a movement, it is zero. No movement has that id.
	}
	books, err := s.booked(ctx, o, account, ids)
	if err != nil {
		return nil, fmt.Errorf("read books: %w", err)
	}
	var open []gateway.Record
	for i, r := range page {
		want := booked{
			account: r.Account, key: r.Key, chargeID: r.ChargeID, currency: r.Currency, status: r.Status, pspID: r.ID,
			amount: r.AmountMinor,
		}
		if book, found := books[ids[i]]; !found || book != want {
			open = append(open, r)
		}
	}
	return open, nil
}

func (s *Service) booked(
	ctx context.Context, o gateway.Object, account string, ids []uuid.UUID,
) (map[uuid.UUID]booked, error) {
	q := dbsqlc.New(s.db.Reader())
	books := make(map[uuid.UUID]booked, len(ids))
	if o == gateway.RefundObject {
		rows, err := q.BookedRefunds(ctx, dbsqlc.BookedRefundsParams{Ids: ids, Account: account})
		for _, r := range rows {
			key := execution("", RefundOperation, r.IdempotencyKey, r.ID, r.Generation).PassThroughKey()
			books[r.ID] = booked{r.PspAccount, key, postgres.Text(r.PspChargeID), r.Currency, r.Status,
				postgres.Text(r.PspRefundID), r.AmountMinor}
		}
		return books, err
	}
	rows, err := q.BookedPayments(ctx, dbsqlc.BookedPaymentsParams{Ids: ids, Account: account})
	for _, r := range rows {
		key := execution("", CreateOperation, r.IdempotencyKey, r.ID, r.Generation).PassThroughKey()
		books[r.ID] = booked{r.PspAccount, key, "", r.Currency, r.Status, postgres.Text(r.PspChargeID), r.AmountMinor}
	}
	return books, err
}

// withoutForeign takes the records of other programs' charges out of a page, and counts them. One query asks for the
// whole page.
func (s *Service) withoutForeign(ctx context.Context, w walk, page gateway.Page) (gateway.Page, error) {
	if !s.psps.Of(w.psp).Traits().ForeignRecords {
		return page, nil
	}
	var charges []string
	for _, r := range page.Records {
		if r.ChargeID != "" && !r.Marked() {
			charges = append(charges, r.ChargeID)
		}
	}
	if len(charges) == 0 {
		return page, nil
	}
	ours, err := dbsqlc.New(s.db.Reader()).ChargesOfOurs(ctx,
		dbsqlc.ChargesOfOursParams{ChargeIds: charges, Account: w.account})
	if err != nil {
		return page, fmt.Errorf("find charges of ours: %w", err)
	}
	all := len(page.Records)
	page.Records = slices.DeleteFunc(slices.Clone(page.Records), func(r gateway.Record) bool {
		return r.ChargeID != "" && !r.Marked() && !slices.Contains(ours, r.ChargeID)
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
			if err := each(account.PspAccount); err != nil {
				return err
			}
			after = account.PspAccount
		}
		if len(accounts) < accountsPage {
			return nil
		}
	}
}
