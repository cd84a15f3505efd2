package payments

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
)

// execute is the path of every movement of money, and the only one that moves any:
//
//	reserve  the key, and write the row as processing           commit (tx 1)
//	send     the key to the PSP; no transaction is open
//	judge    what its reply means for the key
//	apply    the step to the key and the row                    commit (tx 2)
//
// ctx is the client's. Once the reservation is on its way, its end no longer stops anything: half an execution is worse
// than one that nobody waits for.
func (s *Service) execute(
	ctx context.Context, ref idempotency.Ref, f idempotency.Fingerprint, subject uuid.UUID, m movement,
) (Answer, error) {
	leaseID, err := s.newID()
	if err != nil {
		return nil, fmt.Errorf("make lease id: %w", err)
	}
	claim := s.keys.NewClaim(ref, f, leaseID, subject)
	if !s.psp.Ready(m.onBehalfOf().PSPAccount) {
		return s.withoutPSP(ctx, claim, m)
	}
	if err := ctx.Err(); err != nil {
		return nil, err // the client has gone: crash window 1 without a crash
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.deadline)
	defer cancel()

	// Crash window 1: nothing is sent.
	decision, err := s.reserve(ctx, claim, m)
	if err != nil {
		return nil, err
	}
	won, ours := decision.(idempotency.Execute)
	if !ours {
		return s.answer(ctx, ref, decision, m)
	}
	defer s.flights.begin(ref)()

	// Crash window 2: reserved, not sent.
	reply := s.send(ctx, won.Lease, m)

	// Crash window 3: sent, not written.
	g := gatherReserved(won.Lease, m)
	step := judge(Patience{}, g.seen, reply)
	applied, err := s.apply(ctx, g, step, false)
	if err != nil || !applied.Through {
		return s.overtaken(ctx, g, reply, err)
	}
	return told(g, step, applied), nil // Crash window 4: written, not answered.
}

// withoutPSP answers while the account's breaker is open: from what is stored where that is an answer, and otherwise without
// reserving anything.
func (s *Service) withoutPSP(ctx context.Context, c idempotency.Claim, m movement) (Answer, error) {
	decision, err := s.keys.Peek(ctx, c)
	if err != nil {
		s.metrics.StoreFailed("peek")
		return nil, err
	}
	switch d := decision.(type) {
	case nil, idempotency.Execute:
		return NotExecuted{}, nil
	case idempotency.Retake:
		if d.Renews() {
			return NotExecuted{}, nil
		}
		if err := m.load(ctx, d.Subject()); err != nil {
			return nil, err
		}
		return NotExecuted{Resource: m.resource(), Expires: d.Expires()}, nil
	case idempotency.LeaseOver:
		return s.pending(ctx, c.Ref, m, d.Subject(), d.Expires())
	case idempotency.Replay, idempotency.InProgress, idempotency.Misuse, idempotency.Unknown:
	}
	return s.answer(ctx, c.Ref, decision, m)
}

// answer does what a decision asks for.
func (s *Service) answer(ctx context.Context, ref idempotency.Ref, decision idempotency.Decision, m movement) (Answer, error) {
	switch d := decision.(type) {
	case idempotency.Replay:
		s.metrics.Reserved("replay")
		return Final{Response: d.Response, Replayed: true, Expires: d.Expires}, nil
	case idempotency.InProgress:
		s.metrics.Reserved("in_progress")
		return s.unfinished(ctx, ref, m, d.Subject, d.Expires, func() Answer { return InFlight{Resource: m.resource(), Expires: d.Expires} })
	case idempotency.Misuse:
		s.metrics.Reserved("key_misuse")
		return Mismatch{Expires: d.Expires}, nil
	case idempotency.Unknown:
		s.metrics.Reserved("unknown")
		return s.pending(ctx, ref, m, d.Subject, d.Expires)
	case idempotency.Retake:
		return Forgotten{Expires: d.Expires()}, nil
	case idempotency.LeaseOver:
		return s.pending(ctx, ref, m, d.Subject(), d.Expires())
	case idempotency.Execute:
	}
	return nil, fmt.Errorf("decision %T has no answer of its own", decision)
}

// send asks the PSP to move the money, once.
func (s *Service) send(ctx context.Context, l idempotency.Lease, m movement) Reply {
	reply := Reply{Attempt: l.Attempt()}
	if s.keys.Paused(l) {
		// The lease may be over before the PSP would answer, and others may have acted on that.
		reply.Outcome = gateway.NotExecuted{Reason: "owner was paused"}
	} else {
		reply.Outcome = m.send(ctx, l.PassThroughKey())
	}
	return reply
}

// pending answers for a subject whose outcome is not known.
func (s *Service) pending(
	ctx context.Context, ref idempotency.Ref, m movement, subject uuid.UUID, expires time.Time,
) (Answer, error) {
	return s.unfinished(ctx, ref, m, subject, expires, func() Answer { return pendingFor(m, expires) })
}

// unfinished answers for a key that was not finished when it was read. The row is read after it, and may say that evidence has arrived in
// between: then that is the answer, and not one that contradicts itself.
func (s *Service) unfinished(
	ctx context.Context, ref idempotency.Ref, m movement, subject uuid.UUID, expires time.Time, otherwise func() Answer,
) (Answer, error) {
	if err := m.load(ctx, subject); err != nil {
		return nil, err
	}
	switch m.standing().status {
	case Success, Refused:
		row, err := s.keys.Find(ctx, ref)
		if err != nil {
			return nil, err
		}
		if row.Status == idempotency.CompletedStatus && row.Subject == subject {
			return Final{Response: *row.Response, Replayed: true, Expires: row.Expires}, nil
		}
	case Failed:
		return NotExecuted{Resource: m.resource(), Expires: expires}, nil
	case Processing:
	}
	return otherwise(), nil
}
