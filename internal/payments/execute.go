package payments

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
)

// execute is the path of every charge and every refund. No other code asks the PSP to move money.
//
//	reserve  takes the key and writes the payment as processing    commit (tx 1)
//	send     passes the key to the PSP; no transaction is open (a PSP that executes in two steps: prepare.go)
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
	if !s.psps.Of(m.merchant.PSP).Ready(m.merchant.PSPAccount) {
		return s.answerWithoutPSP(ctx, reservation, m)
	}
	if err := ctx.Err(); err != nil {
		return nil, err // The client has hung up before anything was written: window 1 without a crash.
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.deadline) // at most the lease
	defer cancel()

	// Crash window 1: nothing is sent.
	decision, err := s.reserve(ctx, reservation, m)
	if err != nil {
		return nil, err
	}
	won, ours := decision.(idempotency.Execute)
	if !ours {
		return s.answerDecision(ctx, ref, decision, m)
	}

	// Crash window 2: reserved, not sent.
	reply := s.send(ctx, won.Lease, m)

	// Crash window 3: sent, not written. The key is judged as it was reserved: nothing is read again. If somebody has
	// moved the key meanwhile, or has opened a dead letter about it, the WHERE of the statement in apply refuses the
	// step. The reply is not lost then: overtaken reads the key, and judges and applies the reply again.
	g := gatherReserved(won.Lease, m)
	step := judge.Judge(g.Seen, reply)
	applied, err := s.Apply(ctx, g, step)
	if err != nil || !applied.Passed {
		return s.overtaken(ctx, g, reply, err)
	}
	return answerFor(g, step, applied), nil // Crash window 4: written, not answered.
}

// send asks the PSP to move the money, once. It sends nothing if this process was paused for so long that the lease may
// be over before the PSP answers: somebody else may have acted on the end of the lease. A pause after this check is not
// noticed. Then only the PSP prevents a second charge: it recognises the pass-through key, or it refuses to execute an
// object that was cancelled meanwhile.
func (s *Service) send(ctx context.Context, l idempotency.Lease, m *movement) judge.Reply {
	outcome := s.prepareAtPSP(ctx, l, m)
	switch {
	case outcome != nil:
	case s.keys.Paused(l):
		outcome = gateway.NotExecuted{Reason: "owner was paused"}
	default:
		outcome = m.send(ctx, l.Execution())
	}
	return judge.Reply{Attempt: l.Attempt, Outcome: outcome}
}
