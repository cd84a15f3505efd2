package judge

import (
	"fmt"

	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/internal/problem"
)

// The grounds of refusals.
const (
	// Conflict: the dead letter, or its key, has changed since the operator has seen it.
	Conflict = problem.DeadLetterConflict
	// ContradictsPSP: the PSP says the opposite.
	ContradictsPSP = problem.OperatorContradictsPSP
	// NoFreshProof: the decision needs the PSP's answer, and the PSP does not answer.
	NoFreshProof = problem.PSPUnavailable
	// GraceOpen: the PSP finds nothing, but the grace period is not over. The request may still arrive at the PSP.
	GraceOpen = problem.GracePeriodOpen
	// NeedsDecision: the key has no final state yet, so its dead letter cannot be dismissed.
	NeedsDecision = problem.DeadLetterNeedsDecision
	// NotApplicable: the action is not possible for this dead letter.
	NotApplicable = problem.ActionNotApplicable
)

func refuse(g problem.Code, format string, args ...any) Step {
	return Step{refuse: &Refusal{Ground: g, Detail: fmt.Sprintf(format, args...)}}
}

// Does says what a step of an operator's decision does, for the operator.
func (s Step) Does() string {
	switch {
	case s.to == idempotency.CompletedStatus && s.verdict.Status == payment.Declined:
		return "Complete the key as declined."
	case s.to == idempotency.CompletedStatus:
		return "Complete the key as succeeded, as " + s.verdict.PSPID + "."
	case s.cancels:
		return "Have the PSP cancel it, if it still can. Then release the key, so that the client may try again."
	case s.to == idempotency.FailedRetryableStatus:
		return "Release the key, so that the client may try again."
	case s.askAgain != nil:
		return "Ask the PSP about the key again, at once."
	case s.again != nil && s.again.EventID != "":
		return "Process the webhook " + s.again.EventID + " again."
	case s.again != nil && s.again.JobID != 0:
		return fmt.Sprintf("Run the job %d again.", s.again.JobID)
	case s.again != nil:
		return "Judge the PSP's record again."
	case s.forget != "":
		return "Close the dead letter, and give up the webhook " + s.forget + "."
	}
	return "Close the dead letter. Nothing else is changed."
}
