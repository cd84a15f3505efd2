package payments

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/problem"
	"payonce/internal/tracing"
)

// Keyed is the part of a request that every movement of money has in addition to its body.
type Keyed struct {
	Merchant payment.Merchant
	Key      idempotency.Key
	// Subject is the id of the payment or refund, a UUIDv7, if the request creates one. If it is zero, one is made.
	Subject uuid.UUID
}

// InvalidError says what is wrong with a request by the rules of today. The key is not consumed.
type InvalidError struct{ Details []problem.Detail }

func (e *InvalidError) Error() string { return "request invalid" }

// unacceptable lists what the merchant's PSP can never take of a valid request: a token of another form, or an amount
// that it cannot count.
func (b *Books) unacceptable(m payment.Merchant, r gateway.Request) []problem.Detail {
	refuses := b.psps.Of(m.PSP).Traits().Refuses
	if refuses == nil {
		return nil
	}
	bad := refuses(r)
	if bad == nil {
		return nil
	}
	pointer := map[gateway.Member]string{
		gateway.AmountMember: "/amountCents", gateway.CurrencyMember: "/currency",
		gateway.TokenMember: "/paymentMethod",
	}[bad.Member]
	return []problem.Detail{problem.AtPointer(pointer, bad.Detail)}
}

// Create takes a payment, once for each key. It fails with an InvalidError if the request breaks a rule, unless the key
// stands for it already.
func (s *Service) Create(ctx context.Context, k Keyed, r payment.CreateRequest) (Answer, error) {
	bad := r.Validate()
	if bad == nil {
		bad = s.unacceptable(k.Merchant, gateway.Charge{
			AmountMinor: int64(r.AmountCents), Currency: string(r.Currency), PaymentMethod: r.PaymentMethod,
		})
	}
	fingerprint, err := idempotency.FingerprintOf(http.MethodPost, "/payments", r)
	if err != nil {
		return nil, fmt.Errorf("fingerprint request: %w", err)
	}
	ref := idempotency.Ref{Tenant: k.Merchant.Tenant, Operation: payment.CreateOperation, Key: k.Key}
	m, err := newCharge(s.psps.Of(k.Merchant.PSP), k.Merchant, r)
	if err != nil {
		return nil, err
	}
	if bad != nil {
		return s.refuse(ctx, idempotency.Reservation{Ref: ref, Fingerprint: fingerprint}, m, &InvalidError{bad})
	}
	return s.execute(ctx, ref, fingerprint, k.Subject, m)
}

// execute is the path of every charge and every refund. No other code asks the PSP to move money.
//
//	reserve  takes the key and writes the payment as processing    commit (tx 1)
//	send     passes the key to the PSP; no transaction is open (two steps at some PSPs: prepareAtPSP)
//	judge    makes a step of what the reply means for the key
//	apply    writes the step to the key and the payment            commit (tx 2)
//
// ctx belongs to the client. After the reservation has begun, a client that hangs up no longer stops the execution: an
// execution that stops in the middle has to be resolved later. An answer that nobody reads does no harm.
func (s *Service) execute(
	ctx context.Context, ref idempotency.Ref, f idempotency.Fingerprint, subject uuid.UUID, m *movement,
) (Answer, error) {
	leaseID, err := s.newID()
	if err == nil && subject == uuid.Nil {
		subject, err = s.newID()
	}
	if err != nil {
		return nil, fmt.Errorf("make id: %w", err)
	}
	reservation := s.keys.NewReservation(ref, f, leaseID, subject)
	if !m.psp.Ready(m.merchant.PSPAccount) {
		return s.refuse(ctx, reservation, m, nil)
	}
	if err := ctx.Err(); err != nil {
		return nil, err // The client has hung up before anything was written: window 1 without a crash.
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.deadline) // at most the lease
	defer cancel()

	// Crash window 1: nothing is sent.
	won, begun, answer, err := s.look(ctx, reservation, m)
	if won == nil {
		return answer, err
	}

	// Crash window 2: reserved, not sent.
	m, reply := s.send(ctx, *won, begun)

	// Crash window 3: sent, not written. The key is judged as it was reserved: nothing is read again. If somebody has
	// moved the key meanwhile, or has opened a dead letter about it, the WHERE of the statement in apply refuses the
	// step. The reply is not lost then: overtaken reads the key, and judges and applies the reply again.
	g := gatherReserved(*won, m)
	step := judge.Judge(g.Seen, reply)
	applied, err := s.Apply(ctx, g, step)
	if err != nil || !applied.Passed {
		return s.overtaken(ctx, g, reply, err)
	}
	return answerFor(g, step, applied), nil // Crash window 4: written, not answered.
}

// take is the first transaction; look calls it as reserve (observe.go). It takes the key and writes the row of the
// payment or refund, and returns the movement with its row. If it cannot take the key, it returns why.
func (s *Service) take(
	ctx context.Context, r idempotency.Reservation, m *movement,
) (_ idempotency.Decision, begun *movement, _ error) {
	decision, err := s.keys.Take(ctx, r, func(ctx context.Context, t idempotency.Try) (idempotency.Decision, error) {
		came, err := s.groups.reservations.Do(ctx, reservation{t, m, tracing.Current(ctx)})
		begun = came.movement // that of an earlier try may have been rolled back
		s.countLost(err)
		return came.decision, err
	})
	switch {
	case postgres.RolledBack(err) && exceedsPayment(err):
		// The rest may be held by a refund that a failover undoes. A client gives up because of this answer.
		if _, err := s.readPayment(ctx, r.Ref.Tenant, m.payment.ID, s.readDurably); err != nil {
			return nil, nil, err
		}
		return nil, nil, ErrRefundExceedsPayment
	case err != nil:
		return nil, nil, fmt.Errorf("reserve key: %w", err)
	}
	won, ours := decision.(idempotency.Execute)
	if ours && begun == nil { // The acknowledgement was lost, and the row that the statement returned was lost with it.
		if begun, err = s.load(ctx, m, won.Lease.Subject); err != nil {
			return nil, nil, fmt.Errorf("load what was reserved: %w", err)
		}
	}
	return decision, begun, nil
}

// exceedsPayment reports whether a constraint has refused a refund, because it is for more than is left of its payment.
func exceedsPayment(err error) bool {
	return postgres.Violates(err, "payments_refunds_within_amount") || postgres.Violates(err, "refunds_amount_positive")
}

// send asks the PSP to move the money, once. It sends nothing if this process was paused for so long that the lease may
// be over before the PSP answers: somebody else may have acted on the end of the lease. A pause after this check is not
// noticed. Then only the PSP prevents a second charge: it recognises the pass-through key, or it refuses to execute an
// object that was cancelled meanwhile. It returns the movement as it was sent.
func (s *Service) send(ctx context.Context, l idempotency.Lease, m *movement) (*movement, judge.Reply) {
	m, outcome := s.prepareAtPSP(ctx, l, m)
	switch {
	case outcome != nil:
	case s.keys.Paused(l):
		outcome = gateway.NotExecuted{Reason: "owner was paused"}
	default:
		outcome = m.send(ctx, l.Execution())
	}
	return m, judge.Reply{Attempt: l.Attempt, Outcome: outcome}
}

// gatherReserved is for a request that has just reserved its key. The request knows the key's state, so nothing is
// read. What matters for an unknown key alone (GraceLeft, MemoryOver, Failures) stays zero.
func gatherReserved(l idempotency.Lease, m *movement) Gathered {
	return Gathered{
		movement: m, lease: l,
		Seen: seenOf(m, l.Execution(), idempotency.KeyView{Status: idempotency.InProgressStatus,
			Execution: l.Execution()}),
	}
}

// answerFor is the answer to a request whose own step was written.
func answerFor(g Gathered, step judge.Step, applied Applied) Answer {
	switch step.To() {
	case idempotency.CompletedStatus:
		return Final{Response: applied.Response, Expires: applied.Expires}
	case idempotency.FailedRetryableStatus:
		return NotExecuted{Resource: g.movement.resource(), Expires: applied.Expires}
	case idempotency.InProgressStatus, idempotency.UnknownStatus, idempotency.ExpiredStatus:
	}
	return pendingFor(g.movement, applied.Expires)
}
