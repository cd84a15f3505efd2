package operator

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payments"
)

// Entry is a dead letter with the payment or refund that it is about.
type Entry struct {
	deadletters.DeadLetter
	PaymentOrRefund *PaymentOrRefund // nil for a dead letter about nothing of ours
}

// PaymentOrRefund is what an operator is shown of a payment or a refund.
type PaymentOrRefund struct {
	Object string // "payment" or "refund"
	ID     string // in the public form
	Status payments.Status
}

const (
	paymentObject = "payment"
	refundObject  = "refund"
)

// Page is a part of the list, newest first. Next is the cursor of the next page, and nil on the last page.
type Page struct {
	Entries []Entry
	Next    *deadletters.Cursor
}

// List reads a page of dead letters.
func (d *Service) List(ctx context.Context, f deadletters.Filter) (Page, error) {
	deadLetters, err := deadletters.List(ctx, d.db, f)
	if err != nil {
		return Page{}, err
	}
	entries, err := d.entries(ctx, deadLetters.DeadLetters)
	if err != nil {
		return Page{}, err
	}
	return Page{Entries: entries, Next: deadLetters.Next}, nil
}

// entries finds what dead letters are about, in one query for all of them.
func (d *Service) entries(ctx context.Context, deadLetters []deadletters.DeadLetter) ([]Entry, error) {
	var asked dbsqlc.FindMovementsParams
	for _, l := range deadLetters {
		if l.About != nil && l.Subject != nil {
			asked.TenantIds, asked.Ids = append(asked.TenantIds, l.About.Tenant), append(asked.Ids, *l.Subject)
		}
	}
	rows, err := dbsqlc.New(d.db.Reader()).FindMovements(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("find payments of dead letters: %w", err)
	}
	movements := make(map[uuid.UUID]*PaymentOrRefund, len(rows))
	for _, r := range rows {
		movements[r.ID] = &PaymentOrRefund{Object: r.Object, ID: publicID(r.Object, r.ID),
			Status: payments.Status(r.Status)}
	}
	entries := make([]Entry, len(deadLetters))
	for i, l := range deadLetters {
		entries[i].DeadLetter = l
		if l.Subject != nil {
			entries[i].PaymentOrRefund = movements[*l.Subject]
		}
	}
	return entries, nil
}

func publicID(object string, id uuid.UUID) string {
	if object == refundObject {
		return payments.RefundID(id).String()
	}
	return payments.PaymentID(id).String()
}

// Case is everything that is known about a dead letter.
type Case struct {
	Entry
	// Key is the status of the dead letter's key. It is empty if the dead letter is about no key, or if the key stands
	// for something else by now.
	Key        idempotency.Status
	Timeline   []idempotency.Event      // the key's timeline, oldest first
	AuditTrail []deadletters.AuditEntry // the operators' decisions, oldest first
}

// Show reads a dead letter with all that belongs to it. It fails with deadletters.ErrNoDeadLetter.
func (d *Service) Show(ctx context.Context, id uuid.UUID) (Case, error) {
	deadLetter, err := deadletters.Get(ctx, d.db, id)
	if err != nil {
		return Case{}, err
	}
	entries, err := d.entries(ctx, []deadletters.DeadLetter{deadLetter})
	if err != nil {
		return Case{}, err
	}
	c := Case{Entry: entries[0]}
	if c.AuditTrail, err = deadletters.AuditTrail(ctx, d.db, id); err != nil {
		return Case{}, err
	}
	if deadLetter.About != nil {
		if c.Key, c.Timeline, err = d.history(ctx, deadLetter); err != nil {
			return Case{}, err
		}
	}
	return c, nil
}
