package judge

import (
	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// cameBack reports whether a record says that the money of a refund of ours has come back after it succeeded: the
// refund has failed at the customer's bank. The stored answer of its key stays, and the payment shows what was really
// returned. The outcome has been compared with the request already. Other ids are of other refunds.
func (s Seen) cameBack(v payment.Verdict) bool {
	_, refund := s.Request.(gateway.Refund)
	return refund && s.Row.Status == payment.Succeeded && v.Status == payment.Declined && v.PSPID != "" &&
		(v.PSPID == s.Row.PSPID || payment.OperatorPSPID+v.PSPID == s.Row.PSPID)
}

// reverse gives the share of a refund back to the payment, so that it can be refunded again under a new key.
func (s Seen) reverse(rep report, v payment.Verdict) Step {
	v.Status = payment.Reversed
	step := Step{reversal: &v}
	if s.ours() {
		step.note = idempotency.Note{Actor: string(rep.source), Evidence: rep.record,
			Reason: "the PSP says that the money came back: the refund has failed"}
	}
	return step
}

// judgeReversed is for a record about a refund whose money has come back. A record of its success is older, or a line
// of the statement of an earlier day. Only the PSP's ledger, which says how things are now, contradicts the return.
func judgeReversed(s Seen, rep report, v payment.Verdict) (_ Step, is bool) {
	same := s.Row.Status == payment.Reversed && v.PSPID == s.Row.PSPID
	if same && v.Status == payment.Succeeded && rep.source == SourceScan {
		return Step{open: s.foundRecord(deadletters.ContradictsCompleted, rep,
			"the PSP has told that this refund came back, and its ledger says that it did not")}, true
	}
	return Step{}, same
}
