package payments

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
	"payonce/internal/tracing"
)

// groups are the transactions that payments share if they arrive together: the two transactions of a charge, and the
// two of a lookup. All but the first of a lookup have one statement for each table. The writes of a refund run alone. A
// refund locks the row of its payment, and another refund in the same group could lock the same row.
type groups struct {
	reservations *postgres.Group[chargeReservation, reserved]
	completions  *postgres.Group[completion, recorded]
	resolutions  *postgres.Group[resolution, recorded]
	lookups      *postgres.Group[idempotency.Due, looked]
}

func (s *Service) newGroups() groups {
	return groups{
		reservations: postgres.NewGroup(s.db, func(r chargeReservation) string { return lockOrder(r.reservation.Ref) },
			s.sendReservations).
			ByTenant(func(r chargeReservation) string { return r.reservation.Ref.Tenant }),
		completions: postgres.NewGroup(s.db, func(c completion) string { return lockOrder(c.Lease.Ref()) },
			s.sendCompletions).
			ByTenant(func(c completion) string { return c.Lease.Ref().Tenant }),
		resolutions: postgres.NewGroup(s.db, func(r resolution) string { return lockOrder(r.Execution.Ref) },
			s.sendResolutions).
			ByTenant(func(r resolution) string { return r.Execution.Ref.Tenant }),
		lookups: postgres.NewGroup(s.db, func(d idempotency.Due) string { return lockOrder(d.Ref) }, s.sendLookups).
			ByTenant(func(d idempotency.Due) string { return d.Ref.Tenant }),
	}
}

// lockOrder is the order in which the members of a group lock their keys: tenant, operation, key. Neither a tenant's id
// nor a key has a space in it, so two keys never have the same place.
func lockOrder(ref idempotency.Ref) string {
	return ref.Tenant + " " + string(ref.Operation) + " " + ref.Key.String()
}

// chargeReservation is the reservation of a key for a charge.
type chargeReservation struct {
	reservation idempotency.Reservation
	charge      *charge // what the client asks for; the group reads it and does not change it
	span        tracing.Span
}

// reserved is the result of a chargeReservation.
type reserved struct {
	decision idempotency.Decision // nil if the key must be read again
	payment  *Payment             // nil if the key is not ours, or if an earlier try has written the payment
}

func (s *Service) sendReservations(ctx context.Context, members []chargeReservation) ([]reserved, error) {
	reservations := make([]idempotency.Reservation, len(members))
	for i, m := range members {
		reservations[i] = m.reservation
	}
	ctx, span := tracing.StartGroup(ctx, len(members), func(i int) tracing.Span { return members[i].span })
	defer span.End()
	var decisions []idempotency.Decision
	var begun []*Payment
	if err := s.db.GroupPipeline(ctx, len(members), s.keys.Reserve(reservations, &decisions),
		s.beginPayments(members, &begun)); err != nil {
		return nil, err
	}
	out := make([]reserved, len(members))
	for i := range members {
		out[i] = reserved{decisions[i], begun[i]}
	}
	return out, nil
}

// beginPayments is the call that writes the payments after the statement that reserves their keys. out gets them in the
// order of the members, with nil for a payment that is not written.
func (s *Service) beginPayments(members []chargeReservation, out *[]*Payment) postgres.Call {
	var p dbsqlc.BeginPaymentsParams
	for _, m := range members {
		p.Ids = append(p.Ids, m.reservation.Subject)
		p.TenantIds = append(p.TenantIds, m.reservation.Ref.Tenant)
		p.Operations = append(p.Operations, string(m.reservation.Ref.Operation))
		p.Keys = append(p.Keys, m.reservation.Ref.Key.String())
		p.LeaseIds = append(p.LeaseIds, m.reservation.LeaseID)
		wanted := m.charge.wanted
		p.CustomerIds = append(p.CustomerIds, wanted.CustomerID)
		p.AmountsMinor = append(p.AmountsMinor, int64(wanted.AmountCents))
		p.Currencies = append(p.Currencies, string(wanted.Currency))
		p.PaymentMethods = append(p.PaymentMethods, wanted.PaymentMethod)
		p.Descriptions = append(p.Descriptions, wanted.Description)
		p.Metadata = append(p.Metadata, m.charge.metadata)
	}
	p.OnlyTenant = s.db.OnlyTenant(p.TenantIds)
	return func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).BeginPayments(ctx, p)
		if err != nil {
			return err
		}
		written := make(map[uuid.UUID]*Payment, len(rows))
		for _, row := range rows {
			payment, err := paymentOf(row)
			if err != nil {
				return err
			}
			written[row.ID] = &payment
		}
		*out = make([]*Payment, len(members))
		for i, m := range members {
			(*out)[i] = written[m.reservation.Subject]
		}
		return nil
	}
}

// completion is the owner's step to a final response, with the outcome of its charge.
type completion struct {
	idempotency.Completion
	outcome rowUpdate
	span    tracing.Span
}

// resolution is a step to a final response by evidence, with the outcome of its charge.
type resolution struct {
	idempotency.Resolution
	outcome rowUpdate
	span    tracing.Span
}

// recorded is the result of a completion or a resolution.
type recorded struct {
	idempotency.GuardResult
	written bool // whether the payment's row is written
}

// commitTogether sends the completion of a charge in a group with others.
func (s *Service) commitTogether(
	ctx context.Context, g gathered, step Step, p prepared,
) (applied Applied, written bool, err error) {
	o, span := rowUpdate{g.seen.Key, step.Verdict, step.To}, tracing.Current(ctx)
	var came recorded
	if step.ByOwner {
		came, err = s.groups.completions.Do(ctx, completion{s.completionOf(g, step, p), o, span})
	} else {
		came, err = s.groups.resolutions.Do(ctx, resolution{s.resolutionOf(g, step, p), o, span})
	}
	applied = p.applied
	applied.GuardResult = came.GuardResult
	return applied, came.written, err
}

func (s *Service) completionOf(g gathered, step Step, p prepared) idempotency.Completion {
	return idempotency.Completion{Lease: g.lease, Response: p.applied.Response,
		UnlessCharged: step.Verdict.status == Declined}
}

func (s *Service) resolutionOf(g gathered, step Step, p prepared) idempotency.Resolution {
	return idempotency.Resolution{
		Execution: g.seen.Key, Seen: g.seen.Status, Note: step.note(), Response: p.applied.Response,
		UnlessCharged: step.Verdict.status == Declined,
	}
}

func (s *Service) sendCompletions(ctx context.Context, members []completion) ([]recorded, error) {
	keys, outcomes := make([]idempotency.Completion, len(members)), make([]rowUpdate, len(members))
	for i, m := range members {
		keys[i], outcomes[i] = m.Completion, m.outcome
	}
	ctx, span := tracing.StartGroup(ctx, len(members), func(i int) tracing.Span { return members[i].span })
	defer span.End()
	var guardResults []idempotency.GuardResult
	return s.sendOutcomes(ctx, s.keys.Complete(keys, &guardResults), &guardResults, outcomes)
}

func (s *Service) sendResolutions(ctx context.Context, members []resolution) ([]recorded, error) {
	keys, outcomes := make([]idempotency.Resolution, len(members)), make([]rowUpdate, len(members))
	for i, m := range members {
		keys[i], outcomes[i] = m.Resolution, m.outcome
	}
	ctx, span := tracing.StartGroup(ctx, len(members), func(i int) tracing.Span { return members[i].span })
	defer span.End()
	var guardResults []idempotency.GuardResult
	return s.sendOutcomes(ctx, s.keys.Resolve(keys, &guardResults), &guardResults, outcomes)
}

// sendOutcomes completes keys, and then writes the outcomes of their payments, in one transaction.
func (s *Service) sendOutcomes(
	ctx context.Context, keys postgres.Call, guardResults *[]idempotency.GuardResult, outcomes []rowUpdate,
) ([]recorded, error) {
	var written []bool
	if err := s.db.GroupPipeline(ctx, len(outcomes), keys, s.recordPayments(outcomes, &written)); err != nil {
		return nil, err
	}
	out := make([]recorded, len(outcomes))
	for i := range outcomes {
		out[i] = recorded{(*guardResults)[i], written[i]}
	}
	return out, nil
}

// recordPayments is the call that writes outcomes to payments, after the statement that moves their keys. out says for
// each outcome, in order, whether it is written.
func (s *Service) recordPayments(outcomes []rowUpdate, out *[]bool) postgres.Call {
	var p dbsqlc.RecordPaymentsParams
	for _, o := range outcomes {
		p.Ids = append(p.Ids, o.own.Subject)
		p.Statuses = append(p.Statuses, string(o.verdict.status))
		p.PspChargeIds = append(p.PspChargeIds, o.verdict.pspID)
		p.DeclineCodes = append(p.DeclineCodes, o.verdict.code)
		p.TenantIds = append(p.TenantIds, o.own.Ref.Tenant)
		p.Operations = append(p.Operations, string(o.own.Ref.Operation))
		p.Keys = append(p.Keys, o.own.Ref.Key.String())
		p.Generations = append(p.Generations, o.own.Generation)
		p.Attempts = append(p.Attempts, o.own.Attempt)
		p.KeyStatuses = append(p.KeyStatuses, string(o.to))
	}
	p.OnlyTenant = s.db.OnlyTenant(p.TenantIds)
	return func(ctx context.Context, q postgres.Statement) error {
		ids, err := dbsqlc.New(q).RecordPayments(ctx, p)
		if err != nil {
			return err
		}
		*out = make([]bool, len(outcomes))
		for i, o := range outcomes {
			(*out)[i] = slices.Contains(ids, o.own.Subject)
		}
		return nil
	}
}

// looked is a key as a lookup reads it, with the movement that the key stands for.
type looked struct {
	view     idempotency.KeyView
	movement movement
}

// sendLookups reads keys that are due, many in one round trip. Read one by one, they would cost more time in the
// database than at the PSP.
func (s *Service) sendLookups(ctx context.Context, members []idempotency.Due) ([]looked, error) {
	out := make([]looked, len(members))
	var calls []postgres.Call
	for i, due := range members {
		calls = append(calls, s.keys.LookIn(due.Ref, &out[i].view), s.findMovement(due.Ref, nil, &out[i].movement))
	}
	err := s.db.GroupPipeline(ctx, len(members), calls...)
	return out, err
}
