package stripe

import "strings"

const (
	daySeconds = 24 * 60 * 60
	// daysPending is how long money is on its way to the available balance.
	daysPending = 2
	// refundFailure is the kind of a transaction that reverses that of a refund.
	refundFailure = "refund_failure"
)

// transaction is a movement of money in the balance. It follows from a charge or a refund that has succeeded.
type transaction struct {
	id       string
	kind     string // charge, payment, refund, payment_refund or refund_failure
	amount   int64  // of a refund negative
	fee      int64
	currency string
	created  int64
	source   string
}

// transactionID takes over the randomness of the charge or refund.
func transactionID(source string) string {
	kind, random, _ := strings.Cut(source, "_")
	return "txn_" + kind + random
}

func failureTransactionID(refund string) string { return transactionID(refund) + "_failure" }

func transactionOfCharge(c *charge) transaction {
	t := transaction{transactionID(c.ID), "charge", c.Amount, feeOf(c.Amount), c.Currency, c.Created, c.ID}
	if strings.HasPrefix(c.ID, "py_") {
		t.kind = "payment"
	}
	return t
}

func transactionOfRefund(r *refund) transaction {
	t := transaction{transactionID(r.ID), "refund", -r.Amount, 0, r.Currency, r.Created, r.ID}
	if strings.HasPrefix(r.Charge, "py_") {
		t.kind = "payment_refund"
	}
	return t
}

// transactionOfFailure gives back what a refund has taken that has failed later.
func transactionOfFailure(r *refund) transaction {
	return transaction{failureTransactionID(r.ID), refundFailure, r.Amount, 0, r.Currency, r.Created, r.ID}
}

// feeOf is 2.9 percent. A refund gives no fee back.
func feeOf(amount int64) int64 { return (amount*29 + 500) / 1000 }

type transactionView struct {
	ID                string    `json:"id"`
	Object            string    `json:"object"`
	Amount            int64     `json:"amount"`
	AvailableOn       int64     `json:"available_on"`
	BalanceType       string    `json:"balance_type"`
	Created           int64     `json:"created"`
	Currency          string    `json:"currency"`
	Description       *string   `json:"description"`
	ExchangeRate      *float64  `json:"exchange_rate"`
	Fee               int64     `json:"fee"`
	FeeDetails        []feeView `json:"fee_details"`
	Net               int64     `json:"net"`
	ReportingCategory string    `json:"reporting_category"`
	Source            any       `json:"source"` // an id or, expanded, the charge or refund
	Status            string    `json:"status"`
	Type              string    `json:"type"`
}

type feeView struct {
	Amount      int64   `json:"amount"`
	Application *string `json:"application"`
	Currency    string  `json:"currency"`
	Description string  `json:"description"`
	Type        string  `json:"type"`
}

// view is the transaction as the API shows it. Source is what to show in place of the id, or nil.
func (t *transaction) view(source any) *transactionView {
	v := &transactionView{
		ID: t.id, Object: "balance_transaction", Amount: t.amount, AvailableOn: t.created + daysPending*daySeconds,
		BalanceType: "payments", Created: t.created, Currency: t.currency, Fee: t.fee, Net: t.amount - t.fee,
		ReportingCategory: "charge", Source: t.source, Status: "pending", Type: t.kind,
	}
	switch {
	case t.kind == refundFailure:
		v.ReportingCategory = refundFailure
	case t.amount < 0:
		v.ReportingCategory = "refund"
	}
	if t.fee != 0 {
		v.FeeDetails = []feeView{{t.fee, nil, t.currency, "Stripe processing fees", "stripe_fee"}}
	}
	if source != nil {
		v.Source = source
	}
	return v
}
