package judge

import (
	"time"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

func processing() payment.Verdict { return payment.Verdict{Status: payment.Processing} }

func neverRun() payment.Verdict { return payment.Verdict{Status: payment.Failed} }

func paidAs(id string) payment.Verdict {
	return payment.Verdict{Status: payment.Succeeded, PSPID: id}
}

func refusedAs(id string) payment.Verdict {
	return payment.Verdict{Status: payment.Declined, PSPID: id, Code: "no_money"}
}

// keyIs gives a Seen of our own key.
func keyIs(status idempotency.Status, row payment.Verdict, more ...func(*Seen)) Seen {
	s := seenWith(status, true, row, 0)
	for _, m := range more {
		m(&s)
	}
	return s
}

func isHeld(s *Seen) { s.Held = true }

func isCharged(s *Seen) { s.Held, s.Charged = true, true }

func isTaken(s *Seen) { s.IDTaken = true }

func isGone(s *Seen) { s.ShareGone = true }

func inGrace(s *Seen) { s.GraceLeft = 30 * time.Second }

func isOld(s *Seen) { s.MemoryOver = true }

func isWornOut(s *Seen) { s.Key.Attempt, s.Own.Attempt = MostAttempts, MostAttempts }

func isSpent(s *Seen) { s.Failures = 3 }

func otherHolds(s *Seen) {
	s.OtherHeld = "another"
}

// inTwoSteps: the PSP executes only the object that was made for this attempt.
func inTwoSteps(s *Seen) {
	charge := askedForOwn()
	charge.TwoSteps, charge.ObjectID = true, "psp_1"
	s.Request = charge
}

// unmade: the PSP has made no object for the charge, or its id was lost.
func unmade(s *Seen) {
	charge := s.charge()
	charge.ObjectID = ""
	s.Request = charge
}

func sayRecord(source Source, id, status string, amount int64) Evidence {
	return Record{Source: source, Record: recordOfOwn(id, status, amount)}
}

func anInProgress() Seen { return keyIs(idempotency.InProgressStatus, processing()) }

func anUnknown() Seen { return keyIs(idempotency.UnknownStatus, processing()) }

func mine(o gateway.Outcome) Reply { return Reply{Attempt: 2, Outcome: o} }

func earlier(o gateway.Outcome) Reply { return Reply{Attempt: 1, Outcome: o} }

func goneFrom(row payment.Verdict) Seen { return keyIs(idempotency.ExpiredStatus, row) }

func done(row payment.Verdict, more ...func(*Seen)) Seen {
	return keyIs(idempotency.CompletedStatus, row, more...)
}

func yes() gateway.Succeeded { return gateway.Succeeded{ID: "psp_1"} }

func no() gateway.Declined { return gateway.Declined{ID: "psp_1", Code: "no_money"} }

func noWithoutID() gateway.Declined {
	return gateway.Declined{Code: "no_money"}
}

func contradicting() gateway.Indeterminate {
	return gateway.Indeterminate{Reason: "answer has another amount", Contradiction: true, ID: "psp_2",
		Evidence: []byte(`{}`)}
}

func underAnotherAccount() Evidence {
	r := recordOfOwn("psp_1", "succeeded", 12000)
	r.Account = "globex"
	return Record{Source: SourceWebhook, Record: r}
}

// byOthers is what others have done to a charge.
func byOthers(o gateway.Object, charge, id, status string, amount int64) gateway.Record {
	return gateway.Record{
		Object: o, ID: id, Account: "acme", ChargeID: charge, AmountMinor: amount, Currency: "USD", Status: status,
	}
}

// refundIs is a Seen of a refund of ours.
func refundIs(row payment.Verdict) Seen {
	s := done(row)
	s.Request = gateway.Refund{Account: "acme", Key: s.Own.PassThroughKey(), Reference: "re_ours",
		ChargeID: "psp_1", AmountMinor: 500, Currency: "USD"}
	s.Own.Ref = idempotency.StoredRef("acme", string(payment.RefundOperation), "refund-0000000001")
	s.Key = s.Own
	return s
}

// refundOfOwn is a record under the marks of the refund that refundIs has asked for.
func refundOfOwn(id, status string) gateway.Record {
	r := byOthers(gateway.RefundObject, "psp_1", id, status, 500)
	if r.Key, r.Reference = own().PassThroughKey(), "re_ours"; status == "declined" {
		r.DeclineCode = "expired_card"
	}
	return r
}

// storedAs: our books have the object of a record about others already.
func storedAs[S ~string](status S, amount int64, reason string) Seen {
	s := done(paidAs("psp_1"))
	s.Stored = Stored{Status: string(status), AmountMinor: amount, Currency: "USD", Reason: reason}
	return s
}

func without(is bool, words string) string {
	if is {
		return words
	}
	return ""
}

// tableRow is one row: a piece of evidence, and one Seen that stands for what the second column says.
type tableRow struct {
	evidence, key string
	e             Evidence
	seen          Seen
}
