package payments

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

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
