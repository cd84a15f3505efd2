package payments

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
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

func (b *Books) newGroups() groups {
	return groups{
		reservations: groupBy(b.db, func(r chargeReservation) idempotency.Ref { return r.reservation.Ref },
			b.sendReservations),
		completions: groupBy(b.db, func(c completion) idempotency.Ref { return c.key.Ref },
			sendConclusions(b, b.keys.Complete)),
		resolutions: groupBy(b.db, func(c resolution) idempotency.Ref { return c.key.Ref },
			sendConclusions(b, b.keys.Resolve)),
		lookups: groupBy(b.db, func(d idempotency.Due) idempotency.Ref { return d.Ref }, b.sendLookups),
	}
}

// groupBy is a group whose members each work on the key that ref gives.
func groupBy[In, Out any](
	db *postgres.DB, ref func(In) idempotency.Ref, send func(context.Context, []In) ([]Out, error),
) *postgres.Group[In, Out] {
	return postgres.NewGroup(db, func(m In) string { return lockOrder(ref(m)) }, send).
		ByTenant(func(m In) string { return ref(m).Tenant })
}

// lockOrder is the order in which the members of a group lock their keys: tenant, operation, key. Neither a tenant's id
// nor a key has a space in it, so two keys never have the same place.
func lockOrder(ref idempotency.Ref) string {
	return ref.Tenant + " " + string(ref.Operation) + " " + ref.Key.String()
}

// chargeReservation is the reservation of a key for a charge.
type chargeReservation struct {
	reservation idempotency.Reservation
	movement    *movement // what the client asks for; the group reads it and does not change it
	span        tracing.Span
}

// reserved is the result of a chargeReservation.
type reserved struct {
	decision idempotency.Decision // nil if the key must be read again
	payment  *payment.Payment     // nil if the key is not ours, or if an earlier try has written the payment
}

func (b *Books) sendReservations(ctx context.Context, members []chargeReservation) ([]reserved, error) {
	reservations := make([]idempotency.Reservation, len(members))
	for i, m := range members {
		reservations[i] = m.reservation
	}
	ctx, span := tracing.StartGroup(ctx, len(members), func(i int) tracing.Span { return members[i].span })
	defer span.End()
	var decisions []idempotency.Decision
	var begun []*payment.Payment
	if err := b.db.GroupPipeline(ctx, len(members), b.keys.Reserve(reservations, &decisions),
		b.beginPayments(members, &begun)); err != nil {
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
func (b *Books) beginPayments(members []chargeReservation, out *[]*payment.Payment) postgres.Call {
	var p dbsqlc.BeginPaymentsParams
	for _, m := range members {
		p.Ids = append(p.Ids, m.reservation.Subject)
		p.TenantIds = append(p.TenantIds, m.reservation.Ref.Tenant)
		p.Operations = append(p.Operations, string(m.reservation.Ref.Operation))
		p.Keys = append(p.Keys, m.reservation.Ref.Key.String())
		p.LeaseIds = append(p.LeaseIds, m.reservation.LeaseID)
		wanted := m.movement.wanted
		p.CustomerIds = append(p.CustomerIds, wanted.CustomerID)
		p.AmountsMinor = append(p.AmountsMinor, int64(wanted.AmountCents))
		p.Currencies = append(p.Currencies, string(wanted.Currency))
		p.PaymentMethods = append(p.PaymentMethods, wanted.PaymentMethod)
		p.Descriptions = append(p.Descriptions, wanted.Description)
		p.Metadata = append(p.Metadata, m.movement.metadata)
	}
	p.OnlyTenant = b.db.OnlyTenant(p.TenantIds)
	return func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).BeginPayments(ctx, p)
		if err != nil {
			return err
		}
		written := make(map[uuid.UUID]*payment.Payment, len(rows))
		for _, row := range rows {
			payment, err := paymentOf(row)
			if err != nil {
				return err
			}
			written[row.ID] = &payment
		}
		*out = make([]*payment.Payment, len(members))
		for i, m := range members {
			(*out)[i] = written[m.reservation.Subject]
		}
		return nil
	}
}

// conclusion is a step to a final response, with the outcome of its charge. The step is the owner's completion, or a
// resolution by evidence.
type (
	conclusion[Step any] struct {
		rowUpdate
		step Step
		span tracing.Span
	}
	completion = conclusion[idempotency.Completion]
	resolution = conclusion[idempotency.Resolution]
)

// recorded is the result of a conclusion.
type recorded struct {
	idempotency.GuardResult
	written bool // whether the payment's row is written
}

// commitTogether sends the completion of a charge in a group with others.
func (s *Service) commitTogether(
	ctx context.Context, g Gathered, step judge.Step, p payload,
) (applied Applied, written bool, err error) {
	o, span := rowUpdate{g.Seen.Key, step.Verdict(), step.To()}, tracing.Current(ctx)
	var came recorded
	if step.ByOwner() {
		came, err = s.groups.completions.Do(ctx, completion{o, completionOf(g, step, p), span})
	} else {
		came, err = s.groups.resolutions.Do(ctx, resolution{o, resolutionOf(g, step, p), span})
	}
	applied = p.applied
	applied.GuardResult = came.GuardResult
	return applied, came.written, err
}

func completionOf(g Gathered, step judge.Step, p payload) idempotency.Completion {
	return idempotency.Completion{Lease: g.lease, Response: p.applied.Response,
		UnlessCharged: step.Verdict().Status == payment.Declined}
}

func resolutionOf(g Gathered, step judge.Step, p payload) idempotency.Resolution {
	return idempotency.Resolution{
		Execution: g.Seen.Key, Seen: g.Seen.Status, Note: step.Note(), Response: p.applied.Response,
		UnlessCharged: step.Verdict().Status == payment.Declined,
	}
}

// sendConclusions completes keys, and then writes the outcomes of their payments, in one transaction.
func sendConclusions[Step any](
	b *Books, complete func([]Step, *[]idempotency.GuardResult) postgres.Call,
) func(context.Context, []conclusion[Step]) ([]recorded, error) {
	return func(ctx context.Context, members []conclusion[Step]) ([]recorded, error) {
		steps, outcomes := make([]Step, len(members)), make([]rowUpdate, len(members))
		for i, m := range members {
			steps[i], outcomes[i] = m.step, m.rowUpdate
		}
		ctx, span := tracing.StartGroup(ctx, len(members), func(i int) tracing.Span { return members[i].span })
		defer span.End()
		var guardResults []idempotency.GuardResult
		var written []bool
		if err := b.db.GroupPipeline(ctx, len(members), complete(steps, &guardResults),
			b.recordPayments(outcomes, &written)); err != nil {
			return nil, err
		}
		out := make([]recorded, len(members))
		for i := range members {
			out[i] = recorded{guardResults[i], written[i]}
		}
		return out, nil
	}
}

// recordPayments is the call that writes outcomes to payments, after the statement that moves their keys. out says for
// each outcome, in order, whether it is written.
func (b *Books) recordPayments(outcomes []rowUpdate, out *[]bool) postgres.Call {
	var p dbsqlc.RecordPaymentsParams
	for _, o := range outcomes {
		p.Ids = append(p.Ids, o.key.Subject)
		p.Statuses = append(p.Statuses, string(o.verdict.Status))
		p.PspChargeIds = append(p.PspChargeIds, o.verdict.PSPID)
		p.DeclineCodes = append(p.DeclineCodes, o.verdict.Code)
		p.TenantIds = append(p.TenantIds, o.key.Ref.Tenant)
		p.Operations = append(p.Operations, string(o.key.Ref.Operation))
		p.Keys = append(p.Keys, o.key.Ref.Key.String())
		p.Generations = append(p.Generations, o.key.Generation)
		p.Attempts = append(p.Attempts, o.key.Attempt)
		p.KeyStatuses = append(p.KeyStatuses, string(o.to))
	}
	p.OnlyTenant = b.db.OnlyTenant(p.TenantIds)
	return func(ctx context.Context, q postgres.Statement) error {
		ids, err := dbsqlc.New(q).RecordPayments(ctx, p)
		if err != nil {
			return err
		}
		*out = make([]bool, len(outcomes))
		for i, o := range outcomes {
			(*out)[i] = slices.Contains(ids, o.key.Subject)
		}
		return nil
	}
}

// looked is a key as a lookup reads it, with the movement that the key stands for.
type looked struct {
	view     idempotency.KeyView
	movement *movement
}

// sendLookups reads keys that are due, many in one round trip. Read one by one, they would cost more time in the
// database than at the PSP.
func (b *Books) sendLookups(ctx context.Context, members []idempotency.Due) ([]looked, error) {
	out := make([]looked, len(members))
	var calls []postgres.Call
	for i, due := range members {
		calls = append(calls, b.keys.LookIn(due.Ref, &out[i].view), b.findMovement(due.Ref, nil, &out[i].movement))
	}
	err := b.db.GroupPipeline(ctx, len(members), calls...)
	return out, err
}
