package mockpsp

import (
	"fmt"
	"net/http"
	"unicode/utf8"
)

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
	charge := s.ledger.find(objectCharge, c.account, c.r.PathValue("id"))
	if charge == nil {
		return Reply{}, apiError{http.StatusNotFound, "charge_not_found", "the account has no such charge"}
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
			Object:         objectRefund,
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
