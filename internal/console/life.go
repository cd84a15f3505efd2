package console

import (
	"slices"
	"strings"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/payment"
	"payonce/internal/statement"
)

// step is something that has happened to a payment.
type step struct {
	At     time.Time
	What   string
	Where  string // who has asked for it: "here", or "at the PSP"
	ID     string
	Amount string              // with its sign, if the money has moved
	More   string              // or ""
	Kept   payment.AmountMinor // what the merchant keeps after it
	Tone   string              // the class of its mark: good, bad or ""

	moves payment.AmountMinor
}

const (
	here     = "here"
	atThePSP = "at the PSP"
)

// lifeOf is what has happened to a payment, in order of time. The charge is always the first step: what happens at the
// PSP is dated by the PSP's clock.
func lifeOf(p payment.Payment, refunds []payment.Refund, lines []statement.BookedLine) []step {
	charge := step{At: p.Created, What: "charge", Where: here, ID: p.PSPChargeID}
	switch p.Status {
	case payment.Succeeded:
		charge.moves, charge.Tone = p.Amount, "good"
	case payment.Declined, payment.Failed:
		charge.What, charge.Tone = "charge "+string(p.Status), "bad"
	case payment.Processing, payment.Reversed:
		charge.What = "charge has no outcome yet"
	}
	steps := []step{charge}
	for _, r := range slices.Backward(refunds) {
		steps = append(steps, stepsOfRefund(r)...)
	}
	for _, d := range p.Disputes {
		steps = append(steps, stepsOfDispute(p, d)...)
	}
	steps = append(steps, stepsOfPayouts(lines)...)
	slices.SortStableFunc(steps[1:], func(a, b step) int { return a.At.Compare(b.At) })
	kept := payment.AmountMinor(0)
	for i := range steps {
		s := &steps[i]
		kept += s.moves
		s.Kept = kept
		if s.Amount == "" && s.moves != 0 {
			s.Amount = signed(p.Currency, s.moves)
		}
	}
	return steps
}

// stepsOfPayouts has one step for each payout that has paid lines of the payment, at the time of the last of them.
func stepsOfPayouts(lines []statement.BookedLine) (steps []step) {
	of := map[string]int{}
	for _, l := range lines {
		i, known := of[l.PayoutID]
		if l.PayoutID != "" && !known {
			i, of[l.PayoutID] = len(steps), len(steps)
			steps = append(steps, step{What: "paid out", Where: atThePSP, ID: l.PayoutID})
		}
		if l.PayoutID != "" {
			s := &steps[i]
			s.At = l.BookedAt
			s.More = strings.TrimPrefix(s.More+", "+l.Type+" "+l.Major(l.NetMinor), ", ")
		}
	}
	return steps
}

func stepsOfRefund(r payment.Refund) []step {
	s := step{At: r.Created, What: "refund", Where: here, ID: r.ID.String()}
	if r.Origin == payment.OriginProvider {
		s.Where, s.ID = atThePSP, r.PSPRefundID
	}
	switch r.Status {
	case payment.Succeeded:
		s.moves = -r.Amount
	case payment.Reversed:
		s.moves = -r.Amount
		return []step{s, {At: r.Updated, What: "refund came back", Where: atThePSP, ID: s.ID, moves: r.Amount,
			Tone: "bad"}}
	case payment.Declined, payment.Failed:
		s.What, s.Tone = "refund "+string(r.Status), "bad"
	case payment.Processing:
		s.What = "refund has no outcome yet"
	}
	return []step{s}
}

func stepsOfDispute(p payment.Payment, d payment.Dispute) []step {
	taken := d.Amount
	if d.Currency != p.Currency { // as in Disputed
		taken = p.Amount
	}
	opened := step{At: d.Opened, What: "dispute opened", Where: atThePSP, ID: d.PSPID, More: d.Reason, moves: -taken,
		Tone: "bad"}
	over := step{At: d.Updated, What: "dispute " + string(d.Status), Where: atThePSP, ID: d.PSPID}
	switch d.Status {
	case gateway.Inquiry, gateway.Closed:
		opened.What, opened.moves, opened.Tone = "inquiry opened", 0, ""
		over.What = "inquiry closed"
	case gateway.Won:
		over.moves, over.Tone = taken, "good"
	case gateway.Lost:
		over.Tone = "bad"
	case gateway.NeedsResponse, gateway.UnderReview:
	}
	if !d.Status.Final() {
		return []step{opened}
	}
	return []step{opened, over}
}

// KeptIn is what the merchant keeps, for people. It is negative if more was given back than was paid.
func (s step) KeptIn(c payment.Currency) string { return strings.TrimPrefix(signed(c, s.Kept), "+") }

// signed writes an amount for people with its sign.
func signed(c payment.Currency, a payment.AmountMinor) string {
	if a < 0 {
		return "−" + c.Money(-a)
	}
	return "+" + c.Money(a)
}
