package payments

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/payments/internal/dbsqlc"
	"payonce/internal/postgres"
	"payonce/internal/tracing"
)

// groups are the transactions that payments share if they arrive together: the two transactions of a charge, and the
// first of a lookup. Each has one statement for each table. What must not share a transaction goes the same way alone.
type groups struct {
	reservations *postgres.Group[reservation, reserved]
	// The steps of owners, and those by evidence: each has a statement of its own.
	completions, resolutions *postgres.Group[sentStep, written]
	lookups                  *postgres.Group[lookup, looked]
}

func (s *Service) newGroups() groups {
	return groups{
		reservations: newGroup(s.db, s.sendReservations),
		completions:  newGroup(s.db, s.sendSteps), resolutions: newGroup(s.db, s.sendSteps),
		lookups: newGroup(s.db, s.sendLookups),
	}
}

// grouped is one who may share a transaction.
type grouped interface {
	ref() idempotency.Ref // of the key that it works on
	alone() bool          // it must not share one
	trace() tracing.Span
}

// newGroup is a group whose transactions are in the traces of their members.
func newGroup[In grouped, Out any](
	db *postgres.DB, send func(context.Context, []In) ([]Out, error),
) *postgres.Group[In, Out] {
	traced := func(ctx context.Context, members []In) ([]Out, error) {
		ctx, span := tracing.StartGroup(ctx, len(members), func(i int) tracing.Span { return members[i].trace() })
		defer span.End()
		return send(ctx, members)
	}
	return postgres.NewGroup(db, func(m In) string { return lockOrder(m.ref()) }, traced).Alone(In.alone)
}

// lockOrder is the order in which the members of a group lock their keys: tenant, operation, key. Neither a tenant's id
// nor a key has a space in it, so two keys never have the same place.
func lockOrder(ref idempotency.Ref) string {
	return ref.Tenant + " " + string(ref.Operation) + " " + ref.Key.String()
}

// reservation is a try to take the key of a movement.
type reservation struct {
	idempotency.Try
	movement *movement // of which the group reads what the client asks for
	span     tracing.Span
}

// alone: a refund locks the row of its payment, and another refund in the same group could lock the same row. rowsOf
// has no statement for several refunds.
func (r reservation) alone() bool          { return r.Alone || r.movement.isRefund() }
func (r reservation) ref() idempotency.Ref { return r.Ref }
func (r reservation) trace() tracing.Span  { return r.span }

// reserved is the result of a reservation.
type reserved struct {
	decision idempotency.Decision // nil if the key must be read again
	// The movement with the row that was written. It is nil if the key is not ours, or if an earlier try wrote the row.
	movement *movement
}

func (b *Books) sendReservations(ctx context.Context, members []reservation) ([]reserved, error) {
	tries := make([]idempotency.Try, len(members))
	for i, m := range members {
		tries[i] = m.Try
	}
	var decisions []idempotency.Decision
	out := make([]reserved, len(members))
	calls := b.keys.Calls(tries, &decisions, b.rowsOf(members, out)...)
	if err := b.db.GroupPipeline(ctx, len(members), calls...); err != nil {
		return nil, err
	}
	for i := range out {
		out[i].decision = decisions[i]
	}
	return out, nil
}

// rowsOf are the calls that write the rows of reservations. They write nothing unless the key's call has taken the key.
func (b *Books) rowsOf(members []reservation, out []reserved) []postgres.Call {
	switch first := members[0]; {
	case first.Begins && first.movement.isRefund():
		return beginRefund(first, &out[0])
	case first.Begins:
		return []postgres.Call{b.beginPayments(members, out)}
	case first.Resumes != uuid.UUID{} && first.movement.isRefund():
		return resumeRefund(first, &out[0])
	case first.Resumes != uuid.UUID{}:
		return []postgres.Call{resumePayment(first, &out[0])}
	case first.Loses != uuid.UUID{}:
		return tellLost(first.movement.told(first.Loses))
	}
	return nil
}

// beginPayments is the call that writes the payments of the members.
func (b *Books) beginPayments(members []reservation, out []reserved) postgres.Call {
	var p dbsqlc.BeginPaymentsParams
	for _, m := range members {
		p.Ids = append(p.Ids, m.Subject)
		p.TenantIds = append(p.TenantIds, m.Ref.Tenant)
		p.Operations = append(p.Operations, string(m.Ref.Operation))
		p.Keys = append(p.Keys, m.Ref.Key.String())
		p.LeaseIds = append(p.LeaseIds, m.LeaseID)
		wanted := m.movement.wanted
		p.CustomerIds = append(p.CustomerIds, wanted.CustomerID)
		p.AmountsMinor = append(p.AmountsMinor, int64(wanted.AmountCents))
		p.Currencies = append(p.Currencies, string(wanted.Currency))
		p.PaymentMethods = append(p.PaymentMethods, wanted.PaymentMethod)
		p.Descriptions = append(p.Descriptions, wanted.Description)
		p.Metadata = append(p.Metadata, m.movement.metadata)
		p.References = append(p.References, wanted.Reference)
	}
	return func(ctx context.Context, q postgres.Statement) error {
		rows, err := dbsqlc.New(q).BeginPayments(ctx, p)
		if err != nil {
			return err
		}
		for _, row := range rows {
			begun, err := paymentOf(row)
			if err != nil {
				return err
			}
			i := slices.Index(p.Ids, row.ID)
			out[i].movement = members[i].movement.withPayment(begun)
		}
		return nil
	}
}

// resumePayment is the call that brings a failed payment back to processing.
func resumePayment(r reservation, out *reserved) postgres.Call {
	return func(ctx context.Context, q postgres.Statement) error {
		row, err := dbsqlc.New(q).ResumePayment(ctx, r.resumes())
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		resumed, err := paymentOf(row)
		out.movement = r.movement.withPayment(resumed)
		return err
	}
}

func (r reservation) resumes() dbsqlc.ResumePaymentParams {
	return dbsqlc.ResumePaymentParams{ID: r.Resumes, TenantID: r.Ref.Tenant, Operation: string(r.Ref.Operation),
		Key: r.Ref.Key.String(), LeaseID: r.LeaseID}
}

// sentStep is a step with what it stores.
type sentStep struct {
	gathered Gathered
	step     judge.Step
	payload  payload
	span     tracing.Span
}

// alone: only the completion of a charge shares its transaction, for which alone writeSteps has a statement. A step
// with a dead letter does not: two keys may have the same finding, and then both would lock the same row.
func (m sentStep) alone() bool {
	return m.step.To() != idempotency.CompletedStatus || m.gathered.movement.isRefund() || m.step.Open() != nil ||
		m.gathered.alone
}

func (m sentStep) ref() idempotency.Ref { return m.gathered.Seen.Key.Ref }
func (m sentStep) trace() tracing.Span  { return m.span }

func (m sentStep) completion() idempotency.Completion {
	return idempotency.Completion{Lease: m.gathered.lease, Response: m.payload.applied.Response,
		UnlessCharged: m.step.Verdict().Status == payment.Declined, Tells: m.tells()}
}

func (m sentStep) resolution() idempotency.Resolution {
	return idempotency.Resolution{
		Execution: m.gathered.Seen.Key, Seen: m.gathered.Seen.Status, Note: m.step.Note(),
		Response: m.payload.applied.Response, UnlessCharged: m.step.Verdict().Status == payment.Declined,
	}
}

// written is the result of a step.
type written struct {
	idempotency.GuardResult
	opened bool // its dead letter is new
	row    bool // the row of the payment or refund is written, or there is none to write
}

func (s *Service) sendSteps(ctx context.Context, members []sentStep) ([]written, error) {
	return s.writeSteps(ctx, members, func(ctx context.Context, calls ...postgres.Call) error {
		return s.db.GroupPipeline(ctx, len(members), calls...)
	})
}

// rowUpdate is a verdict that is written to a movement's row, and the status that its key has moved to.
type rowUpdate struct {
	key     idempotency.Execution
	verdict payment.Verdict
	to      idempotency.Status
	tells   bool // the statement that writes it tells of it, too
}

func (m sentStep) rowUpdate() rowUpdate {
	return rowUpdate{m.gathered.Seen.Key, m.step.Verdict(), m.step.To(), m.tellsWithRow()}
}

// recordPayments is the call that writes verdicts to payments, and tells of those that tell.
func (b *Books) recordPayments(updates []rowUpdate, out []written) postgres.Call {
	var p dbsqlc.RecordAndTellParams
	for _, u := range updates {
		p.Ids = append(p.Ids, u.key.Subject)
		p.Statuses = append(p.Statuses, string(u.verdict.Status))
		p.PspChargeIds = append(p.PspChargeIds, u.verdict.PSPID)
		p.DeclineCodes = append(p.DeclineCodes, u.verdict.Code)
		p.TenantIds = append(p.TenantIds, u.key.Ref.Tenant)
		p.Operations = append(p.Operations, string(u.key.Ref.Operation))
		p.Keys = append(p.Keys, u.key.Ref.Key.String())
		p.Generations = append(p.Generations, u.key.Generation)
		p.Attempts = append(p.Attempts, u.key.Attempt)
		p.KeyStatuses = append(p.KeyStatuses, string(u.to))
		p.Tells = append(p.Tells, u.tells)
	}
	return func(ctx context.Context, q postgres.Statement) (err error) {
		var ids []uuid.UUID
		if slices.Contains(p.Tells, true) {
			ids, err = dbsqlc.New(q).RecordAndTell(ctx, p)
		} else {
			ids, err = dbsqlc.New(q).RecordPayments(ctx, dbsqlc.RecordPaymentsParams{Ids: p.Ids, Statuses: p.Statuses,
				PspChargeIds: p.PspChargeIds, DeclineCodes: p.DeclineCodes, TenantIds: p.TenantIds,
				Operations: p.Operations, Keys: p.Keys, Generations: p.Generations, Attempts: p.Attempts,
				KeyStatuses: p.KeyStatuses})
		}
		for i, u := range updates {
			out[i].row = slices.Contains(ids, u.key.Subject)
		}
		return err
	}
}

// lookup is a key that is due.
type lookup idempotency.Due

func (l lookup) ref() idempotency.Ref { return l.Ref }
func (lookup) alone() bool            { return false }
func (lookup) trace() tracing.Span    { return tracing.Span{} }

// looked is a key as a lookup reads it, with the movement that the key stands for.
type looked struct {
	view     idempotency.KeyView
	movement *movement
}

// sendLookups reads keys that are due, many in one round trip. Read one by one, they would cost more time in the
// database than at the PSP.
func (b *Books) sendLookups(ctx context.Context, members []lookup) ([]looked, error) {
	out := make([]looked, len(members))
	var calls []postgres.Call
	for i, due := range members {
		calls = append(calls, b.keys.LookIn(due.Ref, &out[i].view), b.findMovement(due.Ref, nil, &out[i].movement))
	}
	err := b.db.GroupPipeline(ctx, len(members), calls...)
	return out, err
}
