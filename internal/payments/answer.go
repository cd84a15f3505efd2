package payments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/postgres"
)

// Answer is the result of a keyed request: one of Final, Pending, InFlight, Mismatch, NotExecuted, Forgotten, Held.
//
//sumtype:decl
type Answer interface{ answer() }

// Final is a stored response. It tells the PSP's verdict, in the first answer and on every replay.
type Final struct {
	Response idempotency.Response
	Replayed bool
	Expires  time.Time
}

// Pending says that the outcome is not known yet. It is safe to ask again. It is not safe to pay again under another
// key.
type Pending struct {
	Resource payment.Resource
	Expires  time.Time
	// Recalled: another request has executed it. Otherwise this request has, and has lost its outcome.
	Recalled bool
}

// pendingFor answers for a movement whose key has no verdict yet, as far as we know. The movement's row may have been
// read later than the key, and may show a verdict. The answer does not show it: a body that says succeeded would
// contradict the status 202.
func pendingFor(m *movement, expires time.Time) Pending {
	return Pending{Resource: payment.Undecided(m.resource()), Expires: expires}
}

// InFlight says that another request with the key is being executed now.
type InFlight struct {
	Resource payment.Resource
	Expires  time.Time
}

// Mismatch says that the key was used for another request.
type Mismatch struct{ Expires time.Time }

// NotExecuted says that the PSP has executed nothing. The same key may be sent again. If the key was not even reserved,
// Resource is nil and Expires is zero.
type NotExecuted struct {
	Resource payment.Resource
	Expires  time.Time
}

// Forgotten says that the key was never executed, and is too old to be executed now. The PSP may have forgotten the
// key, so it would not notice that a request is a repetition.
type Forgotten struct{ Expires time.Time }

// Held says that an open dead letter says that money moved under the key. An operator has to close it before the key
// can be executed.
type Held struct{}

func (Final) answer()       {}
func (Pending) answer()     {}
func (InFlight) answer()    {}
func (Mismatch) answer()    {}
func (NotExecuted) answer() {}
func (Forgotten) answer()   {}
func (Held) answer()        {}

// These errors refuse a refund because of the state of its payment. The key is not consumed.
var (
	ErrPaymentNotFound      = errors.New("payment not found")
	ErrRefundNotFound       = errors.New("refund not found")
	ErrPaymentNotRefundable = errors.New("payment not refundable")
	ErrRefundExceedsPayment = errors.New("refund exceeds payment")
)

// refuse answers a request that may not be executed now: it breaks a rule, the state of its payment forbids it, or, if
// refusal is nil, the circuit breaker of its account is open. Each of these may be newer than the key, so what has
// become of the key is answered first. It reserves nothing.
func (s *Service) refuse(ctx context.Context, r idempotency.Reservation, m *movement, refusal error) (Answer, error) {
	decision, err := s.keys.Peek(ctx, r)
	if err != nil {
		s.metrics.StoreFailed("peek")
		return nil, err
	}
	failed, free := decision.(idempotency.Free)
	switch {
	case decision != nil && !free:
		return s.answerDecision(ctx, r.Ref, decision, m)
	case refusal != nil:
		return nil, refusal
	case !free:
		return NotExecuted{}, nil
	}
	if m, err = s.load(ctx, m, failed.Subject); err != nil {
		return nil, err
	}
	return NotExecuted{Resource: m.resource(), Expires: failed.Expires}, nil
}

// answerDecision answers a request that did not get the key.
func (s *Service) answerDecision(
	ctx context.Context, ref idempotency.Ref, decision idempotency.Decision, m *movement,
) (Answer, error) {
	switch d := decision.(type) {
	case idempotency.Replay:
		s.metrics.Reserved("replay")
		return Final{Response: d.Response, Replayed: true, Expires: d.Expires}, nil
	case idempotency.InProgress:
		s.metrics.Reserved("in_progress")
		return s.unfinished(ctx, m, d.KeyRow, inFlight)
	case idempotency.Mismatch:
		s.metrics.Reserved("key_misuse")
		// A client gives up for good because of it, so the row must be one that a failover does not undo.
		if _, err := s.keys.FindToTell(ctx, ref); err != nil {
			return nil, &postgres.UnavailableError{Op: "find key durably", Err: err}
		}
		return Mismatch{Expires: d.Expires}, nil
	case idempotency.Unknown:
		s.metrics.Reserved("unknown")
		return s.unfinished(ctx, m, d.KeyRow, recalled)
	case idempotency.Free:
		return Forgotten{Expires: d.Expires}, nil
	case idempotency.Held:
		s.metrics.Reserved("held")
		return Held{}, nil
	case idempotency.Execute:
	}
	return nil, fmt.Errorf("decision %T has no answer of its own", decision)
}

// unfinished answers for a key that had no final response when its row was read. The row of the payment is read after
// the key, and evidence may have arrived in between. Then the verdict is the answer: a body that says succeeded under a
// status that says pending would contradict itself.
func (s *Service) unfinished(
	ctx context.Context, m *movement, key idempotency.KeyRow, otherwise func(*movement, time.Time) Answer,
) (Answer, error) {
	m, err := s.load(ctx, m, key.Subject)
	if err != nil {
		return nil, err
	}
	switch m.rowVerdict().Status {
	case payment.Succeeded, payment.Declined:
		row, err := s.keys.Find(ctx, key.Ref)
		if err != nil {
			return nil, err
		}
		if row.Status == idempotency.CompletedStatus && row.Subject == key.Subject {
			return Final{Response: *row.Response, Replayed: true, Expires: row.Expires}, nil
		}
	case payment.Failed:
		return NotExecuted{Resource: m.resource(), Expires: key.Expires}, nil
	case payment.Processing:
	}
	return otherwise(m, key.Expires), nil
}

func inFlight(m *movement, expires time.Time) Answer {
	return InFlight{Resource: m.resource(), Expires: expires}
}

// recalled is the answer if another request has executed the key, and its outcome is not known.
func recalled(m *movement, expires time.Time) Answer {
	pending := pendingFor(m, expires)
	pending.Recalled = true
	return pending
}
