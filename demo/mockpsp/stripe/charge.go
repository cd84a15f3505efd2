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

type chargeView struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	Amount             int64             `json:"amount"`
	AmountCaptured     int64             `json:"amount_captured"`
	AmountRefunded     int64             `json:"amount_refunded"`
	BalanceTransaction any               `json:"balance_transaction"` // an id or, expanded, the transaction
	Captured           bool              `json:"captured"`
	Created            int64             `json:"created"`
	Currency           string            `json:"currency"`
	Description        *string           `json:"description"`
	Disputed           bool              `json:"disputed"`
	FailureCode        *string           `json:"failure_code"`
	FailureMessage     *string           `json:"failure_message"`
	Livemode           bool              `json:"livemode"`
	Metadata           map[string]string `json:"metadata"`
	Outcome            outcomeView       `json:"outcome"`
	Paid               bool              `json:"paid"`
	PaymentIntent      string            `json:"payment_intent"`
	PaymentMethod      string            `json:"payment_method"`
	Details            detailsView       `json:"payment_method_details"`
	Refunded           bool              `json:"refunded"`
	Status             string            `json:"status"`
}

type outcomeView struct {
	NetworkStatus string  `json:"network_status"`
	Reason        *string `json:"reason"`
	SellerMessage string  `json:"seller_message"`
	Type          string  `json:"type"`
}

type detailsView struct {
	Type string `json:"type"`
}

// view is the charge as the API shows it. Booked is the transaction to show in place of its id, or nil.
func (c *charge) view(booked *transaction) *chargeView {
	v := &chargeView{
		ID: c.ID, Object: "charge", Amount: c.Amount, AmountRefunded: c.Refunded, Captured: c.Status != failed,
		Created: c.Created, Currency: c.Currency, Description: orNull(c.About), Metadata: shownMetadata(c.Metadata),
		Outcome: outcomeView{"approved_by_network", nil, "Payment complete.", "authorized"},
		Paid:    c.Status != failed, PaymentIntent: c.Intent, PaymentMethod: c.Method,
		Details: detailsView{methodType(c.Method)}, Refunded: c.Refunded > 0 && c.Refunded == c.Amount,
		Status: c.Status,
	}
	if c.Status == succeeded {
		v.AmountCaptured = c.Amount
		v.BalanceTransaction = transactionID(c.ID)
	}
	if booked != nil {
		v.BalanceTransaction = booked.view(nil)
	}
	if f := c.Failure; f != nil {
		v.FailureCode, v.FailureMessage = &f.Code, &f.Message
		v.Outcome = outcomeView{
			"declined_by_network", orNull(f.Decline), "The payment was declined.", "issuer_declined",
		}
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
