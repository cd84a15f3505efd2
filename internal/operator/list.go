package operator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/operator/internal/dbsqlc"
	"payonce/internal/payment"
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
	Status payment.Status
}

// DeadLetters lists dead letters, newest first. Without a status, it lists the open ones.
func (s *Service) DeadLetters(q *query.Query) Page[Entry] {
	status := query.OneOf(q, "status", deadletters.OpenStatus, deadletters.ResolvedStatus)
	f := deadLettersOf(q)
	if f.Limit, f.Before = q.Limit(), query.CursorOf(q, parsePosition); status != "" {
		f.Status = status
	}
	return func(ctx context.Context) (query.List[Entry], error) { return s.listDeadLetters(ctx, f) }
}

// deadLettersOf reads the parameters that select several open dead letters, in a list or for one decision.
func deadLettersOf(q *query.Query) deadletters.Filter {
	f := deadletters.Filter{Status: deadletters.OpenStatus, Kind: query.OneOf(q, "kind", deadletters.Kinds()...),
		Tenant: q.Text("tenant")}
	if age, given := q.Get("age"); given {
		const most = 10 * 365 * 24 * 60 * 60
		seconds, err := strconv.Atoi(age)
		if err != nil || seconds < 0 || seconds > most {
			q.Refuse("age", fmt.Sprintf("must be a number of seconds from 0 to %d", most))
		}
		f.Age = time.Duration(seconds) * time.Second
	}
	f.OpenedAfter, f.OpenedBefore = q.Between("openedAfter", "openedBefore")
	return f
}

func (s *Service) listDeadLetters(ctx context.Context, f deadletters.Filter) (query.List[Entry], error) {
	deadLetters, err := deadletters.List(ctx, s.config.DB, f)
	if err != nil {
		return query.List[Entry]{}, err
	}
	entries, err := entries(ctx, s.config.DB.Reader(), deadLetters.DeadLetters)
	if err != nil {
		return query.List[Entry]{}, err
	}
	page := query.List[Entry]{Rows: entries}
	if deadLetters.Next != nil {
		page.Next = cursor{false, deadLetters.Next.Opened, deadLetters.Next.ID.String()}.String()
	}
	return page, nil
}

// entries finds what dead letters are about, in one query for all of them.
func entries(ctx context.Context, db dbsqlc.DBTX, deadLetters []deadletters.DeadLetter) ([]Entry, error) {
	found := make([]Entry, len(deadLetters))
	byID := map[uuid.UUID]*Entry{}
	var p dbsqlc.FindSubjectsParams
	for i, l := range deadLetters {
		found[i].DeadLetter = l
		if l.About == nil {
			continue
		}
		byID[l.ID] = &found[i]
		subject := uuid.Nil // any
		if l.Subject != nil {
			subject = *l.Subject
		}
		p.DeadLetterIds, p.Subjects = append(p.DeadLetterIds, l.ID), append(p.Subjects, subject)
		p.TenantIds, p.Operations = append(p.TenantIds, l.About.Tenant), append(p.Operations, l.About.Operation)
		p.Keys, p.Generations = append(p.Keys, l.About.Key), append(p.Generations, l.About.Generation)
	}
	rows, err := dbsqlc.New(db).FindSubjects(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("find what dead letters are about: %w", err)
	}
	for _, r := range rows {
		e, object := byID[r.DeadLetterID], FoundType(r.Object)
		if object == FoundKey {
			e.Key = idempotency.Status(r.Status)
			continue
		}
		e.PaymentOrRefund = &PaymentOrRefund{Object: object, Status: payment.Status(r.Status).Shown(),
			ID: payment.ReferenceOf(gateway.Object(object), *e.Subject)}
	}
	return found, nil
}

// Case is everything that is known about a dead letter.
type Case struct {
	Entry
	Timeline   []idempotency.Event      // the key's timeline, oldest first
	AuditTrail []deadletters.AuditEntry // the operators' decisions, oldest first
}

// Show reads a dead letter with all that belongs to it. It fails with deadletters.ErrNoDeadLetter.
func (s *Service) Show(ctx context.Context, id uuid.UUID) (Case, error) {
	deadLetter, err := deadletters.Get(ctx, s.config.DB.Reader(), id)
	if err != nil {
		return Case{}, err
	}
	entries, err := entries(ctx, s.config.DB.Reader(), []deadletters.DeadLetter{deadLetter})
	if err != nil {
		return Case{}, err
	}
	c := Case{Entry: entries[0]}
	if c.AuditTrail, err = deadletters.AuditTrail(ctx, s.config.DB, id); err != nil {
		return Case{}, err
	}
	if deadLetter.About != nil {
		if c.Timeline, err = s.history(ctx, *deadLetter.About); err != nil {
			return Case{}, err
		}
	}
	return c, nil
}

// history reads the timeline of a dead letter's key, with all generations.
func (s *Service) history(ctx context.Context, about deadletters.About) ([]idempotency.Event, error) {
	ref := idempotency.StoredRef(about.Tenant, about.Operation, about.Key)
	events, err := s.config.Keys.Events(ctx, ref)
	if err != nil {
		return nil, err
	}
	key, err := s.config.Keys.Find(ctx, ref)
	if errors.Is(err, idempotency.ErrNoKey) {
		return events, nil
	}
	return key.Timeline(events), err
}
