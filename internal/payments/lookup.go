package payments

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
)

// LookupResult is the result of a lookup, as the metric names it.
type LookupResult string

// The results of a lookup.
const (
	Resolved   LookupResult = "resolved"  // the key is completed, or free to be executed again
	Scheduled  LookupResult = "scheduled" // the key will be looked up again
	ToOperator LookupResult = "failed"    // a dead letter is open
	Moot       LookupResult = "moot"      // the key is not unknown any more, or somebody else has changed it
)

// LookUpDue asks the PSP once about an unknown key, and writes what the answer proves. It may run again at any time and
// any number of times, because each write depends on the state that was read before the PSP was asked.
func (s *Service) LookUpDue(ctx context.Context, due idempotency.Due, p judge.LookupPolicy) (LookupResult, error) {
	g, err := s.gatherDue(ctx, due)
	switch {
	case errors.Is(err, idempotency.ErrNoKey):
		return Moot, nil
	case err != nil:
		return "", err
	case g.seen.Status != idempotency.UnknownStatus:
		return Moot, nil
	}
	ctx, span := s.tracer.Later(ctx, string(judge.SourceLookup), g.seen.Own.Subject)
	defer span.End()
	// Crash window 13: seen, not asked.
	answer, _, _, err := s.ask(ctx, g, judge.MayEnd(g.seen))
	if err != nil {
		return "", err
	}
	switch l := answer.(type) { // Crash window 14: asked, not written.
	case gateway.Found:
		return s.found(ctx, g, l.Records, p)
	case gateway.NotFound: // Crash window 30: cancelled, not released. The next lookup finds that it is cancelled.
		return s.once(ctx, g, judge.Nothing{Final: l.Final, Policy: p})
	case gateway.Waiting:
		return s.once(ctx, g, judge.Waiting{Reason: l.Reason, Policy: p})
	case gateway.LookupFailed:
		return s.once(ctx, g, judge.NoAnswer{Reason: l.Reason, NotAsked: l.NotAsked, Policy: p})
	default:
		return "", fmt.Errorf("lookup %T is not known", l)
	}
}

// ask looks the key up at the PSP, under the tenant's own account. A record may refer to an earlier payment that had
// the same key. Such a record says nothing about this movement: it is returned in others, and is not in the answer.
// Every other record is in the answer, even if its reference is empty or unknown, because money may have moved.
// unbooked are those of the others by which money has moved, and our books do not say so. end says what the PSP may end
// for that, if it can.
func (b *Books) ask(
	ctx context.Context, g gathered, end gateway.End,
) (answer gateway.Lookup, others, unbooked []gateway.Record, err error) {
	answer = b.psps.Of(g.seen.PSP).Lookup(ctx, g.seen.Request, end)
	found, ok := answer.(gateway.Found)
	if !ok {
		return answer, nil, nil, nil
	}
	var ids []uuid.UUID // Our ids in the records' references, without the movement that the key stands for.
	for _, r := range found.Records {
		if id, ours := payment.SubjectOf(r.Object, r.Reference); ours && id != g.seen.Own.Subject {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return answer, nil, nil, nil
	}
	booked, err := b.otherSubjects(ctx, g, ids)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("read earlier payments of key: %w", err)
	}
	var about []gateway.Record
	for _, r := range found.Records {
		id, _ := payment.SubjectOf(r.Object, r.Reference)
		known, other := booked[id]
		switch {
		case !other:
			about = append(about, r)
			continue
		case r.Executed() && !known:
			unbooked = append(unbooked, r)
		}
		others = append(others, r)
	}
	if len(about) == 0 {
		return gateway.NotFound{}, others, unbooked, nil
	}
	return gateway.Found{Records: about}, others, unbooked, nil
}

// otherSubjects returns those of the ids that had the key in the same generation and are not the movement of the key
// now, and for each whether our books say that it was executed.
func (b *Books) otherSubjects(ctx context.Context, g gathered, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	rows, err := dbsqlc.New(b.db.Reader()).OtherMovementsOfKey(ctx, dbsqlc.OtherMovementsOfKeyParams{
		Ids: ids, Subject: g.seen.Own.Subject, TenantID: g.seen.Tenant, Key: g.seen.Own.Ref.Key.String(),
		Generation: g.seen.Own.Generation,
		Object:     string(g.movement.object),
	})
	booked := make(map[uuid.UUID]bool, len(rows))
	for _, row := range rows {
		booked[row.ID] = row.Booked
	}
	return booked, err
}

// found judges each record under the key. There should be one. Each further record is evidence that the PSP
// has executed the request twice. Executed records come first: nobody may be told of a decline if money has moved.
func (s *Service) found(
	ctx context.Context, g gathered, records []gateway.Record, p judge.LookupPolicy,
) (LookupResult, error) {
	result := Moot
	for _, record := range executedFirst(records) {
		last, step, _, err := s.judgeAndApply(ctx, g,
			judge.Record{Source: judge.SourceLookup, PSP: g.seen.PSP, Record: record, Policy: p})
		if err != nil {
			return "", err
		}
		// The next record is judged by the state after this one. A step that postpones the key has written its row. The
		// row is read again: otherwise the next step would take our own write for somebody else's.
		if g = last; step.AskAgain() != nil {
			if g, err = s.gather(ctx, g.seen.Own); err != nil {
				return "", err
			}
		} else {
			g.seen = g.seen.After(step)
		}
		switch {
		case step.Open() != nil:
			result = ToOperator
		case step.To() == idempotency.CompletedStatus && result == Moot:
			result = Resolved
		}
	}
	return result, nil // Crash window 15: written, the job not done. Its next run finds that the key is not unknown.
}

// executedFirst puts executed records before the others. Otherwise it keeps the PSP's order.
func executedFirst(records []gateway.Record) []gateway.Record {
	executed := func(r gateway.Record) int {
		if r.Executed() {
			return 0
		}
		return 1
	}
	sorted := slices.Clone(records)
	slices.SortStableFunc(sorted, func(a, b gateway.Record) int { return executed(a) - executed(b) })
	return sorted
}

// once judges an answer without a record, and writes the step. It judges by the state before the PSP was asked, and
// does not read the key again if the key has moved: "not found" is proof only if the PSP was asked after the grace
// period.
func (s *Service) once(ctx context.Context, g gathered, e judge.Evidence) (LookupResult, error) {
	step := judge.Judge(g.seen, e)
	applied, err := s.apply(ctx, g, step)
	switch {
	case err != nil:
		return "", fmt.Errorf("write what the lookup proves: %w", err)
	case applied.Doubt:
		return "", errors.New("write what the lookup proves: the acknowledgement was lost; the next lookup will tell")
	case !applied.Passed:
		return Moot, nil // The key has moved, or somebody has opened a dead letter about it.
	case step.To() != "":
		return Resolved, nil
	case step.Open() != nil || g.seen.Held:
		return ToOperator, nil
	}
	return Scheduled, nil
}
