package judge

import (
	"fmt"
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// What a lookup brings that has found no record.

// LookupPolicy says how often, and at which intervals, the PSP is asked about an unknown key.
type LookupPolicy struct {
	Budget  int32         // after so many lookups in a row without an answer, a dead letter is opened
	Base    time.Duration // the wait after the first lookup without an answer; it doubles with each further one
	Cap     time.Duration // the longest wait
	Recheck time.Duration // the wait between lookups of a key with a dead letter
	// Chance is a random number from [0, 1). It shortens a wait, so that keys that were lost together are not all
	// looked up again at the same moment.
	Chance float64
}

// backoff doubles with each failure, up to the cap.
func (p LookupPolicy) backoff(failures int32) time.Duration {
	wait := p.Base
	for ; failures > 0 && wait < p.Cap; failures-- {
		wait *= 2
	}
	return min(wait, p.Cap)
}

// shortened takes up to a half off a wait.
func (p LookupPolicy) shortened(wait time.Duration) time.Duration {
	return wait - time.Duration(p.Chance*float64(wait)/2)
}

// Nothing is a lookup that has found no record of the request. Final: the PSP has ended the request, so it will never
// execute it.
type Nothing struct {
	Final  bool
	Policy LookupPolicy
}

// Nothing is proof of non-execution if the PSP has ended the request, or, if it executes in one step, was asked after
// the grace period and still remembered the key. A key is released only so often, though.
func (e Nothing) judge(s Seen) Step {
	switch {
	case !s.ours() || s.Status != idempotency.UnknownStatus:
		return Step{}
	case s.Held:
		return Step{askAgain: &Wait{After: e.Policy.Recheck},
			note: lookupNote("the PSP has nothing; an operator has the case")}
	case s.GraceLeft > 0 && !e.Final:
		wait := max(min(s.GraceLeft, e.Policy.shortened(e.Policy.Cap)), time.Millisecond)
		return Step{askAgain: &Wait{After: wait}, note: lookupNote("the PSP has nothing, and could still execute it")}
	case s.MemoryOver && !e.Final:
		return Step{askAgain: &Wait{After: e.Policy.Recheck},
			note: lookupNote("the PSP may have forgotten the key; an operator has the case"),
			open: s.byKey(deadletters.PSPMemoryOver, "the PSP finds nothing, but the key is older than its memory",
				nil)}
	case s.charge().TwoSteps && !e.Final: // A confirmation may still be on its way.
		return NoAnswer{Reason: "the PSP has not ended it", Policy: e.Policy}.judge(s)
	case s.Key.Attempt >= MostAttempts:
		return lostTooOften(e.Policy, s)
	}
	step := Step{
		to: idempotency.FailedRetryableStatus, proof: idempotency.Proof{Final: e.Final},
		verdict: payment.Verdict{Status: payment.Failed},
		note:    lookupNote("the PSP has nothing after the grace period: not executed"),
	}
	if e.Final {
		step.note = lookupNote("the PSP has cancelled it: not executed")
	}
	return step
}

// Waiting is a lookup by which the PSP waits for the customer or a bank.
type Waiting struct {
	Reason string
	Policy LookupPolicy
}

// To wait is no failure of the PSP. When the grace period ends, the PSP is asked again, and a charge that waits for the
// customer is ended then. A bank may take days: its outcome comes as a webhook, and lookups are rare.
func (e Waiting) judge(s Seen) Step {
	if !s.ours() || s.Status != idempotency.UnknownStatus {
		return Step{}
	}
	wait := e.Policy.Recheck
	if s.GraceLeft > 0 && !s.Held {
		wait = max(min(s.GraceLeft, e.Policy.shortened(e.Policy.Cap)), time.Millisecond)
	}
	return Step{askAgain: &Wait{After: wait}, note: lookupNote("the PSP waits: " + e.Reason)}
}

// NoAnswer is a lookup without a usable answer. NotAsked: we did not send it.
type NoAnswer struct {
	Reason   string
	NotAsked bool
	Policy   LookupPolicy
}

// The wait until the next lookup doubles with each failure, up to a limit. When the budget of failures is spent, a dead
// letter asks an operator. If we did not ask, because we had too many requests in flight or the breaker was open, that
// is no failure of the PSP and takes nothing from the budget.
func (e NoAnswer) judge(s Seen) Step {
	if !s.ours() || s.Status != idempotency.UnknownStatus {
		return Step{}
	}
	reason, failures := "the PSP did not answer: "+e.Reason, s.Failures+1
	if e.NotAsked {
		reason, failures = "the PSP was not asked: "+e.Reason, s.Failures
	}
	step := Step{askAgain: &Wait{After: e.Policy.Recheck, Failures: failures}, note: lookupNote(reason)}
	switch {
	case s.Held:
	case e.NotAsked:
		step.askAgain.After = e.Policy.shortened(e.Policy.Base)
	case failures < e.Policy.Budget:
		step.askAgain.After = e.Policy.shortened(e.Policy.backoff(s.Failures))
	default:
		step.note = lookupNote(reason + "; an operator has the case")
		step.open = s.byKey(deadletters.LookupsExhausted,
			fmt.Sprintf("the PSP did not answer %d lookups in a row, at last: %s", failures, e.Reason), nil)
	}
	return step
}

// MostAttempts bounds how often a key is lost and released again. Attempts that were certainly not sent count as well:
// the key's row has no other count. Only a client that repeats its key again and again comes that far.
const MostAttempts = 20

// lostTooOften is for a lookup that proves that the last of MostAttempts was not executed. The key is not released:
// each further attempt would be one more request to the PSP, and no end. An operator finds out why it is lost each
// time, and may release it.
func lostTooOften(p LookupPolicy, s Seen) Step {
	reason := fmt.Sprintf("%d attempts, and the PSP has executed none", s.Key.Attempt)
	return Step{askAgain: &Wait{After: p.Recheck}, note: lookupNote(reason + "; an operator has the case"),
		open: s.byKey(deadletters.LookupsExhausted, reason, nil)}
}

// MayEnd says what a lookup may end. The key is unknown, so its owner does not execute it any more. Within the grace
// period, a charge that waits for the customer is left to the customer.
func MayEnd(s Seen) gateway.End {
	if s.GraceLeft > 0 {
		return gateway.EndUnsent
	}
	return gateway.EndWaiting
}

func lookupNote(reason string) idempotency.Note {
	return idempotency.Note{Actor: string(SourceLookup), Reason: deadletters.Clip(reason)}
}
