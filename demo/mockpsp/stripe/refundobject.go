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

// shown is the refund as the API shows it.
func (r *refund) shown() object {
	v := object{
		"id": r.ID, "object": "refund", "amount": r.Amount, "balance_transaction": nil, "charge": r.Charge,
		"created": r.Created, "currency": r.Currency, "metadata": shownMetadata(r.Metadata), "payment_intent": r.Intent,
		"reason": orNull(r.Reason), "receipt_number": nil, "status": r.Status,
	}
	if r.Why != "" {
		v["failure_reason"] = r.Why
	}
	if r.Status == succeeded || r.Reversed {
		v["balance_transaction"] = transactionID(r.ID)
	}
	if r.Reversed {
		v["failure_balance_transaction"] = failureTransactionID(r.ID)
	}
	return v
}
