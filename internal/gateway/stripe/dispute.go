package stripe

import (
	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
)

// dispute is the part of a Dispute that we read (https://docs.stripe.com/api/disputes/object).
type dispute struct {
	object

	PaymentIntent       string `json:"payment_intent"`
	BalanceTransactions []struct {
		Amount int64 `json:"amount"`
	} `json:"balance_transactions"`
}

// readDispute reads a Dispute. One without an intent is of a charge that was made in another way, by another program.
func readDispute(account string, raw []byte) (r gateway.Record, err error) {
	var d dispute
	if json.Unmarshal(raw, &d) != nil {
		return r, errNoRecord
	}
	switch {
	case d.Object != "dispute":
		return r, errOtherObject
	case d.PaymentIntent == "":
		return r, foreign
	}
	e := entry{object: d.object, kind: gateway.DisputeObject, account: account, charge: d.PaymentIntent}
	e.Status = d.state()
	if d.inquiry() || e.Status == gateway.StatusPending && d.reinstated() {
		e.Amount = new(int64) // Nothing is withdrawn now.
	}
	return e.record()
}

// state reads the dispute's status (https://docs.stripe.com/api/disputes/object#dispute_object-status). While it is
// open, its money is withdrawn, or may be withdrawn again. A status that we do not know holds the money, too.
func (d dispute) state() string {
	switch d.Status {
	case "lost":
		return gateway.StatusSucceeded
	case "won", "warning_closed", "prevented":
		return gateway.StatusDeclined
	}
	return gateway.StatusPending
}

// inquiry reports whether the bank only asks: no money is withdrawn yet
// (https://docs.stripe.com/disputes/how-disputes-work#inquiries).
func (d dispute) inquiry() bool {
	return d.Status == "warning_needs_response" || d.Status == "warning_under_review"
}

// reinstated reports whether the balance has got back what was withdrawn.
func (d dispute) reinstated() bool {
	var sum int64
	for _, t := range d.BalanceTransactions {
		sum += t.Amount
	}
	return len(d.BalanceTransactions) > 1 && sum >= 0
}
