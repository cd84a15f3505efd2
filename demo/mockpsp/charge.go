package mockpsp

import (
	"fmt"
	"net/http"
	"unicode/utf8"
)

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
	return in, nil
}

// refuseMethod refuses a charge whose payment method does not exist, under a key that was never executed. The refusal
// comes before any effect, so it is proof that nothing was charged. It names account, key and reference: nobody can
// take it for the answer to another request.
func refuseMethod(account, key, reference string) Reply {
	type detail struct {
		Code           string `json:"code"`
		Message        string `json:"message"`
		Account        string `json:"account"`
		IdempotencyKey string `json:"idempotencyKey"`
		Reference      string `json:"reference"`
	}
	return jsonReply(http.StatusBadRequest, struct {
		Error detail `json:"error"`
	}{detail{
		"unknown_payment_method", "paymentMethod is none of the test tokens, such as pm_ok; nothing was charged",
		account, key, reference,
	}})
}

func (s *Server) postCharge(c *call) (Reply, error) {
	key, body, err := c.keyedBody()
	if err != nil {
		return Reply{}, err
	}
	in, err := parseCharge(body)
	if err != nil {
		return Reply{}, err
	}
	if _, ok := behaviours[fault(in.PaymentMethod)]; !ok {
		if s.ledger.knows(keyRef{c.account, chargesPath, key}) {
			return Reply{}, mismatch() // with whatever method it was sent before
		}
		return refuseMethod(c.account, key, in.Reference), nil
	}
	bodyHash, err := hashRequest(in)
	if err != nil {
		return Reply{}, err
	}
	return s.execute(c, &record{
		Entry: entry{
			Object:         ObjectCharge,
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

type refundRequest struct {
	AmountCents int64  `json:"amountCents"`
	Currency    string `json:"currency"`
	Reference   string `json:"reference"`
	Reason      string `json:"reason"`
}

// parseRefund returns a valid refund request. Every error is a [refusal].
func parseRefund(body []byte) (refundRequest, error) {
	var in refundRequest
	if err := parseStrictly(body, &in); err != nil {
		return refundRequest{}, err
	}
	if err := checkMoney(in.AmountCents, in.Currency, in.Reference); err != nil {
		return refundRequest{}, err
	}
	if utf8.RuneCountInString(in.Reason) > maxReasonRunes {
		return refundRequest{}, invalid(fmt.Sprintf("reason must not be longer than %d characters", maxReasonRunes))
	}
	return in, nil
}

// fault is the one that the reason names. People give all sorts of reasons; the rest are fine.
func (in refundRequest) fault() fault {
	if _, ok := behaviours[fault(in.Reason)]; ok {
		return fault(in.Reason)
	}
	return faultOK
}

func (s *Server) postRefund(c *call) (Reply, error) {
	key, body, err := c.keyedBody()
	if err != nil {
		return Reply{}, err
	}
	in, err := parseRefund(body)
	if err != nil {
		return Reply{}, err
	}
	charge := s.ledger.find(ObjectCharge, c.account, c.r.PathValue("id"))
	if charge == nil {
		return Reply{}, noSuchCharge()
	}
	if in.Currency != charge.Entry.Currency {
		return Reply{}, invalid("currency must be that of the charge")
	}
	bodyHash, err := hashRequest(in)
	if err != nil {
		return Reply{}, err
	}
	return s.execute(c, &record{
		Entry: entry{
			Object:         ObjectRefund,
			Account:        c.account,
			IdempotencyKey: key,
			Reference:      in.Reference,
			ChargeID:       charge.Entry.ID,
			AmountCents:    in.AmountCents,
			Currency:       in.Currency,
			Reason:         in.Reason,
		},
		Path:     chargesPath + "/" + charge.Entry.ID + "/refunds",
		BodyHash: bodyHash,
		Fault:    in.fault(),
	})
}
