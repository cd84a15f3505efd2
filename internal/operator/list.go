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

// Entry is a letter with the payment or refund that it is about.
type Entry struct {
	deadletters.Letter
	Movement *Movement // nil for a letter about nothing of ours
}

// Movement is a payment or a refund, as far as a desk has to know it.
type Movement struct {
	Object string // "payment" or "refund"
	ID     string // in the form that clients know
	Status payments.Status
}

const (
	paymentObject = "payment"
	refundObject  = "refund"
)

// Page is a part of the list, newest first. Next is the cursor of the following part, nil on the last.
type Page struct {
	Entries []Entry
	Next    *deadletters.Cursor
}

// List reads a page of letters.
func (d *Desk) List(ctx context.Context, f deadletters.Filter) (Page, error) {
	letters, err := deadletters.List(ctx, d.db, f)
	if err != nil {
		return Page{}, err
	}
	entries, err := d.entries(ctx, letters.Letters)
	if err != nil {
		return Page{}, err
	}
	return Page{Entries: entries, Next: letters.Next}, nil
}

// entries finds what letters are about, in one reading for all of them.
func (d *Desk) entries(ctx context.Context, letters []deadletters.Letter) ([]Entry, error) {
	var asked dbsqlc.FindMovementsParams
	for _, l := range letters {
		if l.About != nil && l.Subject != nil {
			asked.TenantIds, asked.Ids = append(asked.TenantIds, l.About.Tenant), append(asked.Ids, *l.Subject)
		}
	}
	rows, err := dbsqlc.New(d.db.Reader()).FindMovements(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("find payments of dead letters: %w", err)
	}
	movements := make(map[uuid.UUID]*Movement, len(rows))
	for _, r := range rows {
		movements[r.ID] = &Movement{Object: r.Object, ID: publicID(r.Object, r.ID), Status: payments.Status(r.Status)}
	}
	entries := make([]Entry, len(letters))
	for i, l := range letters {
		entries[i].Letter = l
		if l.Subject != nil {
			entries[i].Movement = movements[*l.Subject]
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

// Case is everything that is known about a letter.
type Case struct {
	Entry
	// Key is where the letter's key stands. It is empty for a letter about none, and when the key stands for something else by now.
	Key      idempotency.Status
	Timeline []idempotency.Event // of the key, oldest first
	Trail    []deadletters.Deed  // what operators did, oldest first
}

// Show reads a letter with all that belongs to it, or fails with deadletters.ErrNoLetter.
func (d *Desk) Show(ctx context.Context, id uuid.UUID) (Case, error) {
	letter, err := deadletters.Get(ctx, d.db, id)
	if err != nil {
		return Case{}, err
	}
	entries, err := d.entries(ctx, []deadletters.Letter{letter})
	if err != nil {
		return Case{}, err
	}
	c := Case{Entry: entries[0]}
	if c.Trail, err = deadletters.Trail(ctx, d.db, id); err != nil {
		return Case{}, err
	}
	if letter.About != nil {
		if c.Key, c.Timeline, err = d.history(ctx, letter); err != nil {
			return Case{}, err
		}
	}
	return c, nil
}
