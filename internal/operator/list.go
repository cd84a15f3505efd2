package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payments"
	"payonce/internal/problem"
	"payonce/internal/query"
)

// Entry is a dead letter with what it is about.
type Entry struct {
	deadletters.DeadLetter
	PaymentOrRefund *PaymentOrRefund // nil for a dead letter about nothing of ours
	// Key is the status of the dead letter's key. It is empty if the dead letter is about no key, or if the key stands
	// for something else by now.
	Key idempotency.Status
}

// PaymentOrRefund is what an operator is shown of a payment or a refund.
type PaymentOrRefund struct {
	Object FoundType // FoundPayment or FoundRefund
	ID     string    // in the public form
	Status payments.Status
}

// DeadLetters lists dead letters, newest first. Without a status, it lists the open ones.
func (d *Service) DeadLetters() Listing[deadletters.Filter, Entry] {
	return Listing[deadletters.Filter, Entry]{Parameters: []string{"status", "kind", "tenant", "age", "openedAfter",
		"openedBefore", "limit", "cursor"}, Filter: deadLetterFilterOf, Read: d.List}
}

func deadLetterFilterOf(values url.Values) (deadletters.Filter, []problem.Detail) {
	q := &query.Query{Values: values}
	f := deadletters.Filter{
		Status: query.OneOf(q, "status", deadletters.OpenStatus, deadletters.ResolvedStatus),
		Limit:  q.Limit(), Before: query.CursorOf(q, parsePosition),
	}
	if f.Status == "" {
		f.Status = deadletters.OpenStatus
	}
	selectDeadLetters(q, &f)
	return f, q.Bad
}

// selectDeadLetters reads the parameters that select several dead letters, in a list or for one decision.
func selectDeadLetters(q *query.Query, f *deadletters.Filter) {
	f.Kind, f.Tenant = query.OneOf(q, "kind", deadletters.Kinds()...), q.Text("tenant")
	f.OpenedAfter, f.OpenedBefore = q.Instant("openedAfter"), q.Instant("openedBefore")
	q.Order("openedAfter", "openedBefore", f.OpenedAfter, f.OpenedBefore)
	if q.Values.Has("age") {
		const most = 10 * 365 * 24 * 60 * 60
		seconds, err := strconv.Atoi(q.Values.Get("age"))
		if err != nil || seconds < 0 || seconds > most {
			q.Refuse("age", fmt.Sprintf("must be a number of seconds from 0 to %d", most))
		}
		f.Age = time.Duration(seconds) * time.Second
	}
}

// List reads a page of dead letters.
func (d *Service) List(ctx context.Context, f deadletters.Filter) (query.List[Entry], error) {
	deadLetters, err := deadletters.List(ctx, d.db, f)
	if err != nil {
		return query.List[Entry]{}, err
	}
	entries, err := d.entries(ctx, deadLetters.DeadLetters)
	if err != nil {
		return query.List[Entry]{}, err
	}
	page := query.List[Entry]{Rows: entries}
	if deadLetters.Next != nil {
		page.Next = cursor{false, deadLetters.Next.Opened, deadLetters.Next.ID.String()}.String()
	}
	return page, nil
}

// entries finds what dead letters are about, in two queries for all of them.
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
		movements[r.ID] = &PaymentOrRefund{Object: FoundType(r.Object),
			ID: payments.ReferenceOf(gateway.Object(r.Object), r.ID), Status: payments.Status(r.Status)}
	}
	keys, err := d.keyStatuses(ctx, deadLetters)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(deadLetters))
	for i, l := range deadLetters {
		entries[i].DeadLetter, entries[i].Key = l, keys[l.ID]
		if l.Subject != nil {
			entries[i].PaymentOrRefund = movements[*l.Subject]
		}
	}
	return entries, nil
}

// keyStatuses are the statuses of the keys that dead letters are about, by the ids of the dead letters.
func (d *Service) keyStatuses(
	ctx context.Context, deadLetters []deadletters.DeadLetter,
) (map[uuid.UUID]idempotency.Status, error) {
	var p dbsqlc.FindKeyStatusesParams
	for _, l := range deadLetters {
		if l.About == nil {
			continue
		}
		subject := uuid.Nil // any
		if l.Subject != nil {
			subject = *l.Subject
		}
		p.DeadLetterIds, p.Subjects = append(p.DeadLetterIds, l.ID), append(p.Subjects, subject)
		p.TenantIds, p.Operations = append(p.TenantIds, l.About.Tenant), append(p.Operations, l.About.Operation)
		p.Keys, p.Generations = append(p.Keys, l.About.Key), append(p.Generations, l.About.Generation)
	}
	rows, err := dbsqlc.New(d.db.Reader()).FindKeyStatuses(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("find keys of dead letters: %w", err)
	}
	statuses := make(map[uuid.UUID]idempotency.Status, len(rows))
	for _, r := range rows {
		statuses[r.DeadLetterID] = idempotency.Status(r.Status)
	}
	return statuses, nil
}

// Case is everything that is known about a dead letter.
type Case struct {
	Entry
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
		if c.Timeline, err = d.history(ctx, *deadLetter.About); err != nil {
			return Case{}, err
		}
	}
	return c, nil
}

// history reads the timeline of a dead letter's key, with all generations.
func (d *Service) history(ctx context.Context, about deadletters.About) ([]idempotency.Event, error) {
	ref := idempotency.StoredRef(about.Tenant, about.Operation, about.Key)
	events, err := d.keys.Events(ctx, ref)
	if err != nil {
		return nil, err
	}
	key, err := d.keys.Find(ctx, ref)
	if errors.Is(err, idempotency.ErrNoKey) {
		return events, nil
	}
	return key.Timeline(events), err
}
