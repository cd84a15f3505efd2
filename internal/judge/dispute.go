package judge

import (
	"payonce/internal/gateway"
)

// judgeDispute is for a dispute of the payment. Its records arrive in any order, and a later status wins. If the PSP
// says that a dispute was lost, and also that it was not, the loss counts until an operator has the true record judged
// again.
func judgeDispute(s Seen, rep report, r gateway.Record) Step {
	step := Step{elsewhere: &r}
	status, known := r.Dispute.Status, gateway.DisputeStatus(s.Stored.Status)
	told := Stored{Status: string(status), AmountMinor: r.AmountMinor, Currency: r.Currency, Reason: r.Dispute.Reason,
		EvidenceDueBy: r.Dispute.EvidenceDueBy}
	switch {
	case s.Stored == told:
		step = Step{}
	case rep.source == SourceOperator:
		step.overrules = true
	case known.Final() && status.Final() && known.Takes() != status.Takes():
		contradiction := s.disagree(rep, "the PSP has told before that this dispute is "+string(known)+
			", and tells now that it is "+string(status))
		contradiction.elsewhere = &r
		return contradiction
	}
	return s.movedOutside(step, rep, r, status.Takes())
}
