package payments

import (
	"fmt"
	"time"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
)

// How judge reads a lookup that says nothing final: the PSP waits for somebody else, or gives no usable answer.

// judgeWaiting is for a lookup by which the PSP waits for the customer or a bank. That is no failure of the PSP. When
// the grace period ends, the PSP is asked again, and a charge that waits for the customer is ended then. A bank may
// take days: its outcome comes as a webhook, and lookups are rare.
func judgeWaiting(p LookupPolicy, s Seen, e Waiting) Step {
	if !s.ours() || s.Status != idempotency.UnknownStatus {
		return Step{}
	}
	wait := p.Recheck
	if s.GraceLeft > 0 && !s.Held {
		wait = max(min(s.GraceLeft, shortened(p.Cap, e.Chance)), time.Millisecond)
	}
	return Step{AskAgain: &Wait{After: wait}, Note: lookupNote("the PSP waits: " + e.Reason)}
}

// judgeNoAnswer is for a lookup without an answer. The wait until the next lookup doubles with each failure, up to a
// limit. When the budget of failures is spent, a dead letter asks an operator. If we did not ask because we had too
// many requests in flight ourselves, that is no failure of the PSP and takes nothing from the budget.
func judgeNoAnswer(p LookupPolicy, s Seen, e NoAnswer) Step {
	if !s.ours() || s.Status != idempotency.UnknownStatus {
		return Step{}
	}
	reason, failures := "the PSP did not answer: "+e.Reason, s.Failures+1
	if e.NotAsked {
		reason, failures = "the PSP was not asked: "+e.Reason, s.Failures
	}
	switch {
	case s.Held:
		return Step{AskAgain: &Wait{After: p.Recheck, Failures: failures}, Note: lookupNote(reason)}
	case e.NotAsked:
		return Step{AskAgain: &Wait{After: shortened(p.Base, e.Chance), Failures: failures}, Note: lookupNote(reason)}
	case failures < p.Budget:
		return Step{AskAgain: &Wait{After: shortened(p.backoff(s.Failures), e.Chance), Failures: failures},
			Note: lookupNote(reason)}
	}
	return Step{
		AskAgain: &Wait{After: p.Recheck, Failures: failures}, Note: lookupNote(reason + "; an operator has the case"),
		Open: s.byKey(deadletters.LookupsExhausted, exhausted(failures, e.Reason), nil),
	}
}

// mostAttempts bounds how often a key is lost and released again. Attempts that were certainly not sent count as well:
// the key's row has no other count. Only a client that repeats its key again and again comes that far.
const mostAttempts = 20

// lostTooOften is for a lookup that proves that the last of mostAttempts was not executed. The key is not released:
// each further attempt would be one more request to the PSP, and no end. An operator finds out why it is lost each
// time, and may release it.
func lostTooOften(p LookupPolicy, s Seen) Step {
	reason := fmt.Sprintf("%d attempts, and the PSP has executed none", s.Key.Attempt)
	return Step{AskAgain: &Wait{After: p.Recheck}, Note: lookupNote(reason + "; an operator has the case"),
		Open: s.byKey(deadletters.LookupsExhausted, reason, nil)}
}

func exhausted(failures int32, reason string) string {
	return fmt.Sprintf("the PSP did not answer %d lookups in a row, at last: %s", failures, reason)
}
