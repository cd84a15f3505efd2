package payments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// Unexplained takes the records that need no look out of one page of an account's ledger: those that our books confirm
// exactly, and those of other programs' charges, which it counts. One query asks for the whole page.
func (b *Books) Unexplained(
	ctx context.Context, psp string, o gateway.Object, account string, page gateway.Page,
) (gateway.Page, error) {
	page, err := b.withoutForeign(ctx, psp, account, page)
	if err != nil {
		return page, err
	}
	ids := make([]uuid.UUID, len(page.Records))
	for i, r := range page.Records {
		// Without a reference to a movement, it is zero. No movement has that id.
		ids[i], _ = payment.SubjectOf(r.Object, r.Reference)
	}
	rows, err := dbsqlc.New(b.db.Reader()).BookedMovements(ctx,
		dbsqlc.BookedMovementsParams{Ids: ids, Account: account, Object: string(o)})
	if err != nil {
		return page, fmt.Errorf("read books: %w", err)
	}
	books := make(map[uuid.UUID]dbsqlc.BookedMovementsRow, len(rows))
	for _, row := range rows {
		books[row.ID] = row
	}
	records := page.Records
	page.Records = nil
	for i, r := range records {
		if book, found := books[ids[i]]; !found || r.Account != account || !confirms(book, r) {
			page.Records = append(page.Records, r)
		}
	}
	return page, nil
}

// OldestOpenDispute is when the oldest dispute of an account was opened that is not over. It is nil if there is none.
func (b *Books) OldestOpenDispute(ctx context.Context, account string) (*time.Time, error) {
	q := dbsqlc.New(b.db.Reader())
	tenant, err := q.TenantOfAccount(ctx, account)
	if err != nil {
		return nil, fmt.Errorf("find tenant of account: %w", err)
	}
	at, err := q.OldestOpenDispute(ctx, tenant.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the oldest open dispute: %w", err)
	}
	return &at, nil
}

// confirms reports whether our books say of a movement what a record says, but for a declined refund: see counting.
func confirms(book dbsqlc.BookedMovementsRow, r gateway.Record) bool {
	key := execution("", "", book.IdempotencyKey, book.ID, book.Generation).PassThroughKey()
	return r.Key == key && r.ChargeID == book.ChargeID && r.AmountMinor == book.AmountMinor &&
		r.Currency == book.Currency && r.Status == book.Status && r.ID == book.PspID &&
		(r.Object != gateway.RefundObject || r.Status != gateway.StatusDeclined)
}

// withoutForeign takes the records of other programs' charges out of a page, and counts them.
func (b *Books) withoutForeign(
	ctx context.Context, psp, account string, page gateway.Page,
) (gateway.Page, error) {
	if !b.psps.Of(psp).Traits().ForeignRecords {
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
	ours, err := dbsqlc.New(b.db.Reader()).ChargesByPSPID(ctx,
		dbsqlc.ChargesByPSPIDParams{PspIds: charges, Account: account})
	if err != nil {
		return page, fmt.Errorf("find charges of ours: %w", err)
	}
	all := len(page.Records)
	page.Records = slices.DeleteFunc(slices.Clone(page.Records), func(r gateway.Record) bool {
		return unmarked(r) && !slices.ContainsFunc(ours,
			func(m dbsqlc.ChargesByPSPIDRow) bool { return m.PspID == r.ChargeID })
	})
	page.Foreign += all - len(page.Records)
	return page, nil
}

// disputesOf reads the disputes of a payment, as the database writes them.
func disputesOf(raw []byte) (disputes []payment.Dispute, err error) {
	var rows []struct {
		PSPID         string                `json:"psp_id"`
		AmountMinor   payment.AmountMinor   `json:"amount_minor"`
		Currency      payment.Currency      `json:"currency"`
		Reason        string                `json:"reason"`
		Status        gateway.DisputeStatus `json:"status"`
		EvidenceDueBy time.Time             `json:"evidence_due_by"`
		OpenedAt      time.Time             `json:"opened_at"`
		UpdatedAt     time.Time             `json:"updated_at"`
	}
	err = json.Unmarshal(raw, &rows)
	for _, d := range rows {
		disputes = append(disputes, payment.Dispute{
			PSPID: d.PSPID, Amount: d.AmountMinor, Currency: d.Currency, Reason: d.Reason, Status: d.Status,
			EvidenceDueBy: d.EvidenceDueBy, Opened: d.OpenedAt, Updated: d.UpdatedAt,
		})
	}
	return disputes, err
}

// withLives adds what became of payments after their charge, which are their disputes. A payment was last changed when
// its totals were, when its key was finished, or when one of its disputes was changed.
func withLives(ctx context.Context, db *postgres.DB, tenant string, shown ...*payment.Payment) error {
	asked := dbsqlc.ReadLivesParams{TenantID: tenant}
	for _, p := range shown {
		asked.Ids, asked.Keys = append(asked.Ids, uuid.UUID(p.ID)), append(asked.Keys, p.Key)
	}
	if len(shown) == 0 {
		return nil
	}
	var lives []dbsqlc.ReadLivesRow
	err := db.ReadNow(ctx, func(ctx context.Context, q postgres.DBTX) (err error) {
		lives, err = dbsqlc.New(q).ReadLives(ctx, asked)
		return err
	})
	if err != nil {
		return fmt.Errorf("read disputes: %w", err)
	}
	of := make(map[uuid.UUID]dbsqlc.ReadLivesRow, len(lives))
	for _, l := range lives {
		of[l.ID] = l
	}
	for _, p := range shown {
		life := of[uuid.UUID(p.ID)]
		if p.Disputes, err = disputesOf(life.Disputes); err != nil {
			return fmt.Errorf("read disputes: %w", err)
		}
		changes := []time.Time{p.Updated}
		if p.Status != payment.Processing { // Its key may have been finished after its row was read.
			changes = append(changes, life.FinishedAt)
		}
		for _, d := range p.Disputes {
			changes = append(changes, d.Updated)
		}
		p.Updated = slices.MaxFunc(changes, time.Time.Compare)
	}
	return nil
}

func (p Page) all() (all []*payment.Payment) {
	for i := range p.Payments {
		all = append(all, &p.Payments[i])
	}
	return all
}
