package stripe

// refund is one version of a Refund.
type refund struct {
	ID       string            `json:"id"`
	Account  string            `json:"account"`
	Intent   string            `json:"intent"`
	Charge   string            `json:"charge"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Status   string            `json:"status"`
	Reason   string            `json:"reason,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Created  int64             `json:"created"`
	Why      string            `json:"why,omitempty"`      // the refund has failed
	Reversed bool              `json:"reversed,omitempty"` // it has failed after it had succeeded
	Stuck    bool              `json:"stuck,omitempty"`
	Due      *due              `json:"due,omitempty"`
}

type refundView struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	Amount             int64             `json:"amount"`
	BalanceTransaction *string           `json:"balance_transaction"`
	Charge             string            `json:"charge"`
	Created            int64             `json:"created"`
	Currency           string            `json:"currency"`
	FailureTransaction *string           `json:"failure_balance_transaction,omitempty"`
	FailureReason      string            `json:"failure_reason,omitempty"`
	Metadata           map[string]string `json:"metadata"`
	PaymentIntent      string            `json:"payment_intent"`
	Reason             *string           `json:"reason"`
	ReceiptNumber      *string           `json:"receipt_number"`
	Status             string            `json:"status"`
}

func (r *refund) view() *refundView {
	v := &refundView{
		ID: r.ID, Object: "refund", Amount: r.Amount, Charge: r.Charge, Created: r.Created, Currency: r.Currency,
		FailureReason: r.Why, Metadata: shownMetadata(r.Metadata), PaymentIntent: r.Intent, Reason: orNull(r.Reason),
		Status: r.Status,
	}
	if r.Status == succeeded || r.Reversed {
		v.BalanceTransaction = orNull(transactionID(r.ID))
	}
	if r.Reversed {
		v.FailureTransaction = orNull(failureTransactionID(r.ID))
	}
	return v
}
