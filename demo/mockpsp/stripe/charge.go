package stripe

import (
	"strings"
)

// The further statuses of charges and refunds; both may also have succeeded.
const (
	failed  = "failed"
	pending = "pending"
)

// charge is one version of a Charge. Its metadata are those of the intent when it was made.
type charge struct {
	ID       string            `json:"id"`
	Account  string            `json:"account"`
	Intent   string            `json:"intent"`
	Amount   int64             `json:"amount"`
	Refunded int64             `json:"refunded,omitzero"`
	Disputed bool              `json:"disputed,omitempty"`
	Held     int64             `json:"held,omitzero"` // by disputes
	Currency string            `json:"currency"`
	Status   string            `json:"status"`
	Method   string            `json:"method"`
	About    string            `json:"about,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Created  int64             `json:"created"`
	Failure  *failure          `json:"failure,omitempty"`
	Stuck    bool              `json:"stuck,omitempty"`
}

// shown is the charge as the API shows it.
func (c *charge) shown() object {
	v := object{
		"id": c.ID, "object": "charge", "amount": c.Amount, "amount_captured": 0, "amount_refunded": c.Refunded,
		"balance_transaction": nil, "captured": c.Status != failed, "created": c.Created, "currency": c.Currency,
		"description": orNull(c.About), "disputed": c.Disputed, "failure_code": nil, "failure_message": nil,
		"livemode": false, "metadata": shownMetadata(c.Metadata), "paid": c.Status != failed,
		"payment_intent": c.Intent, "payment_method": c.Method,
		"payment_method_details": object{"type": methodType(c.Method)},
		"refunded":               c.Refunded > 0 && c.Refunded == c.Amount, "status": c.Status,
		"outcome": object{"network_status": "approved_by_network", "reason": nil, "seller_message": "Payment complete.",
			"type": "authorized"},
	}
	if c.Status == succeeded {
		v["amount_captured"], v["balance_transaction"] = c.Amount, transactionID(c.ID)
	}
	if f := c.Failure; f != nil {
		v["failure_code"], v["failure_message"] = f.Code, f.Message
		v["outcome"] = object{"network_status": "declined_by_network", "reason": orNull(f.Decline),
			"seller_message": "The payment was declined.", "type": "issuer_declined"}
	}
	return v
}

// methodType is the type of a payment method.
func methodType(method string) string {
	if f, known := faultOf(method); known && f.debit {
		return "us_bank_account"
	}
	return "card"
}

// chargePrefix is that of the charge's id: Stripe calls a charge of anything but a card a payment.
func chargePrefix(method string) string {
	if methodType(method) == "card" {
		return "ch_"
	}
	return "py_"
}

const (
	daySeconds = 24 * 60 * 60
	// daysPending is how long money is on its way to the available balance.
	daysPending = 2
	// refundFailure is the kind of a transaction that reverses that of a refund.
	refundFailure = "refund_failure"
	// adjustment is the kind of both transactions of a dispute.
	adjustment = "adjustment"
	kindPayout = "payout"
	// disputeFee is what a dispute costs, also if it is won.
	disputeFee = 1500
)

// transaction is a movement of money in the balance. It follows from a charge or a refund that has succeeded, from a
// dispute, or from a payout.
type transaction struct {
	id       string
	kind     string // charge, payment, refund, payment_refund, refund_failure, adjustment or payout
	amount   int64  // of a refund negative, and of a dispute
	fee      int64
	currency string
	created  int64
	source   string
	payout   string // that has paid it, or whose own it is; the lock of the store guards it
}

// transactionID takes over the randomness of the charge or refund.
func transactionID(source string) string {
	kind, random, _ := strings.Cut(source, "_")
	return "txn_" + kind + random
}

func failureTransactionID(refund string) string { return transactionID(refund) + "_failure" }

// transactions are those that the change's objects have in the balance.
func (ch *change) transactions() (all []*transaction) {
	at := timeOf(ch).Unix()
	if c := ch.Charge; c != nil && c.Status == succeeded {
		kind := "charge"
		if strings.HasPrefix(c.ID, "py_") {
			kind = "payment"
		}
		all = append(all, &transaction{transactionID(c.ID), kind, c.Amount, feeOf(c.Amount), c.Currency, at, c.ID, ""})
	}
	r := ch.Refund
	if r != nil && r.Status == succeeded {
		kind := "refund"
		if strings.HasPrefix(r.Charge, "py_") {
			kind = "payment_refund"
		}
		all = append(all, &transaction{transactionID(r.ID), kind, -r.Amount, 0, r.Currency, at, r.ID, ""})
	}
	if r != nil && r.Reversed { // what the refund has taken comes back
		all = append(all, &transaction{failureTransactionID(r.ID), refundFailure, r.Amount, 0, r.Currency, at, r.ID,
			""})
	}
	if p := ch.Payout; p != nil {
		all = append(all, &transaction{transactionID(p.ID), kindPayout, -p.Amount, 0, p.Currency, at, p.ID, p.ID})
	}
	if ch.Dispute != nil {
		all = append(all, ch.Dispute.transactions()...)
	}
	return all
}

// feeOf is 2.9 percent. A refund gives no fee back.
func feeOf(amount int64) int64 { return (amount*29 + 500) / 1000 }

// shown is the transaction as the API shows it.
func (t *transaction) shown() object {
	v := object{
		"id": t.id, "object": "balance_transaction", "amount": t.amount,
		"available_on": t.created + daysPending*daySeconds, "balance_type": "payments", "created": t.created,
		"currency": t.currency, "description": nil, "exchange_rate": nil, "fee": t.fee, "fee_details": []object{},
		"net": t.amount - t.fee, "reporting_category": "charge", "source": t.source, "status": "pending",
		"type": t.kind,
	}
	switch {
	case t.kind == refundFailure:
		v["reporting_category"] = refundFailure
	case t.kind == adjustment && t.amount > 0:
		v["reporting_category"] = "dispute_reversal"
	case t.kind == adjustment:
		v["reporting_category"] = "dispute"
	case t.kind == kindPayout:
		v["reporting_category"] = kindPayout
	case t.amount < 0:
		v["reporting_category"] = "refund"
	}
	if t.fee != 0 {
		v["fee_details"] = []object{{"amount": t.fee, "application": nil, "currency": t.currency,
			"description": "Stripe processing fees", "type": "stripe_fee"}}
	}
	return v
}
