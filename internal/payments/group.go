package payments

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"payonce/internal/idempotency"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
)

// groups are the steps that payments which arrive together take in one transaction, one statement for each table: the two transactions of a charge, and
// a resolver's two. A refund takes them alone: it locks its payment, which the key of another refund locks, too.
type groups struct {
	reservations *postgres.Group[reservation, reserved]
	completions  *postgres.Group[completion, recorded]
	resolutions  *postgres.Group[resolution, recorded]
	lookups      *postgres.Group[idempotency.Due, looked]
}

func (s *Service) newGroups() groups {
	return groups{
		reservations: postgres.NewGroup(s.db, func(r reservation) string { return lockOrder(r.claim.Ref) }, s.sendReservations).
			ByTenant(func(r reservation) string { return r.claim.Ref.Tenant }),
		completions: postgres.NewGroup(s.db, func(c completion) string { return lockOrder(c.Lease.Ref()) }, s.sendCompletions).
			ByTenant(func(c completion) string { return c.Lease.Ref().Tenant }),
		resolutions: postgres.NewGroup(s.db, func(r resolution) string { return lockOrder(r.Execution.Ref) }, s.sendResolutions).
			ByTenant(func(r resolution) string { return r.Execution.Ref.Tenant }),
		lookups: postgres.NewGroup(s.db, func(d idempotency.Due) string { return lockOrder(d.Ref) }, s.sendLookups).
			ByTenant(func(d idempotency.Due) string { return d.Ref.Tenant }),
	}
}

// lockOrder is the order in which the members of a group lock their keys: tenant, operation, key. Neither a tenant's id nor a key has a space in
// it, so no two keys have the same place.
func lockOrder(ref idempotency.Ref) string {
	return ref.Tenant + " " + string(ref.Operation) + " " + ref.Key.String()
}

// reservation is a claim for a charge.
type reservation struct {
	claim  idempotency.Claim
	charge *charge // as it is wanted. Only its owner writes the payment to it
}

// reserved is what came of a reservation.
type reserved struct {
	decision idempotency.Decision // nil: read again
	payment  *Payment             // of a key that was won, unless an earlier try of the claim has written it
}

func (s *Service) sendReservations(ctx context.Context, members []reservation) ([]reserved, error) {
	claims := make([]idempotency.Claim, len(members))
	for i, m := range members {
		claims[i] = m.claim
	}
	var decisions []idempotency.Decision
	var begun []*Payment
	if err := s.db.GroupPipeline(ctx, len(members), s.keys.Reserve(claims, &decisions), s.beginPayments(members, &begun)); err != nil {
		return nil, err
	}
	out := make([]reserved, len(members))
	for i := range members {
		out[i] = reserved{decisions[i], begun[i]}
	}
	return out, nil
}

// beginPayments is the call that writes the payments which claims stand for, behind the reservation of their keys. It gives each, in order, and nil for one
// that is not written.
func (s *Service) beginPayments(members []reservation, out *[]*Payment) postgres.Call {
	var p dbsqlc.BeginPaymentsParams
	for _, m := range members {
		p.Ids = append(p.Ids, m.claim.Subject)
		p.TenantIds = append(p.TenantIds, m.claim.Ref.Tenant)
		p.Operations = append(p.Operations, string(m.claim.Ref.Operation))
		p.Keys = append(p.Keys, m.claim.Ref.Key.String())
		p.LeaseIds = append(p.LeaseIds, m.claim.LeaseID)
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
			(*out)[i] = written[m.claim.Subject]
		}
		return nil
	}
}

// completion is an owner's step to a final response, with the outcome of its charge.
type completion struct {
	idempotency.Completion
	outcome outcome
}

// resolution is the same by evidence.
type resolution struct {
	idempotency.Resolution
	outcome outcome
}

// recorded is what came of either.
type recorded struct {
	idempotency.Passage
	written bool // the payment's row, which follows its key
}

// commitTogether sends the completion of a charge in a group with others.
func (s *Service) commitTogether(ctx context.Context, g gathered, step Step, r ready) (applied Applied, written bool, err error) {
	o := outcome{g.seen.Key, step.Verdict, step.To}
	var came recorded
	if step.ByOwner {
		came, err = s.groups.completions.Do(ctx, completion{s.completionOf(g, step, r), o})
	} else {
		came, err = s.groups.resolutions.Do(ctx, resolution{s.resolutionOf(g, step, r), o})
	}
	applied = r.applied
	applied.Passage = came.Passage
	return applied, came.written, err
}

func (s *Service) completionOf(g gathered, step Step, r ready) idempotency.Completion {
	return idempotency.Completion{Lease: g.lease, Response: r.applied.Response, UnlessCharged: step.Verdict.status == Refused}
}

func (s *Service) resolutionOf(g gathered, step Step, r ready) idempotency.Resolution {
	return idempotency.Resolution{
		Execution: g.seen.Key, Seen: g.seen.Status, Note: step.note(), Response: r.applied.Response, UnlessCharged: step.Verdict.status == Refused,
	}
}

func (s *Service) sendCompletions(ctx context.Context, members []completion) ([]recorded, error) {
	keys, outcomes := make([]idempotency.Completion, len(members)), make([]outcome, len(members))
	for i, m := range members {
		keys[i], outcomes[i] = m.Completion, m.outcome
	}
	var passages []idempotency.Passage
	return s.sendOutcomes(ctx, s.keys.Complete(keys, &passages), &passages, outcomes)
}

func (s *Service) sendResolutions(ctx context.Context, members []resolution) ([]recorded, error) {
	keys, outcomes := make([]idempotency.Resolution, len(members)), make([]outcome, len(members))
	for i, m := range members {
		keys[i], outcomes[i] = m.Resolution, m.outcome
	}
	var passages []idempotency.Passage
	return s.sendOutcomes(ctx, s.keys.Resolve(keys, &passages), &passages, outcomes)
}

// sendOutcomes moves keys, and writes the outcomes of their payments behind.
func (s *Service) sendOutcomes(
	ctx context.Context, keys postgres.Call, passages *[]idempotency.Passage, outcomes []outcome,
) ([]recorded, error) {
	var written []bool
	if err := s.db.GroupPipeline(ctx, len(outcomes), keys, s.recordPayments(outcomes, &written)); err != nil {
		return nil, err
	}
	out := make([]recorded, len(outcomes))
	for i := range outcomes {
		out[i] = recorded{(*passages)[i], written[i]}
	}
	return out, nil
}

// recordPayments is the call that writes outcomes to payments, behind the transitions of their keys. It tells of each, in order, whether it is written.
func (s *Service) recordPayments(outcomes []outcome, out *[]bool) postgres.Call {
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

// looked is a key as a resolver sees it, with the movement that it stands for.
type looked struct {
	sight    idempotency.Sight
	movement movement
}

// sendLookups reads keys that are due. Of many at a time, the questions to the database would cost more than those to the PSP.
func (s *Service) sendLookups(ctx context.Context, members []idempotency.Due) ([]looked, error) {
	out := make([]looked, len(members))
	var calls []postgres.Call
	for i, due := range members {
		calls = append(calls, s.keys.LookIn(due.Ref, &out[i].sight), s.movementOf(due.Ref, &out[i].movement))
	}
	err := s.db.GroupPipeline(ctx, len(members), calls...)
	return out, err
}
