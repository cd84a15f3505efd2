package mockpsp

import "net/http"

const chargesPath = "/v1/charges"

type chargeRequest struct {
	AmountCents   int64  `json:"amountCents"`
	Currency      string `json:"currency"`
	PaymentMethod string `json:"paymentMethod"`
	Reference     string `json:"reference"`
}

// parseCharge returns a valid charge request. Every error is a [refusal].
func parseCharge(body []byte) (chargeRequest, error) {
	var in chargeRequest
	if err := parseStrictly(body, &in); err != nil {
		return chargeRequest{}, err
	}
	if err := checkMoney(in.AmountCents, in.Currency, in.Reference); err != nil {
		return chargeRequest{}, err
	}
	if in.PaymentMethod == "" {
		return chargeRequest{}, invalid("paymentMethod is required")
	}
	if _, ok := fault(in.PaymentMethod).behaviour(); !ok {
		return chargeRequest{}, refusal{http.StatusBadRequest, "unknown_payment_method",
			"paymentMethod is none of the test tokens, such as pm_ok"}
	}
	return in, nil
}

func (s *Server) postCharge(c *call) (reply, error) {
	key, body, err := c.keyedBody()
	if err != nil {
		return reply{}, err
	}
	in, err := parseCharge(body)
	if err != nil {
		return reply{}, err
	}
	bodyHash, err := hashRequest(in)
	if err != nil {
		return reply{}, err
	}
	return s.execute(c, &record{
		Entry: entry{
			Object:         objectCharge,
			Account:        c.account,
			IdempotencyKey: key,
			Reference:      in.Reference,
			AmountCents:    in.AmountCents,
			Currency:       in.Currency,
			PaymentMethod:  in.PaymentMethod,
		},
		Path:     chargesPath,
		BodyHash: bodyHash,
		Fault:    fault(in.PaymentMethod),
	})
}
