package stripe

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
		"description": orNull(c.About), "disputed": false, "failure_code": nil, "failure_message": nil,
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
