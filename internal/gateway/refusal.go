package gateway

import (
	"net/http"

	"github.com/go-json-experiment/json"
)

// unknownPaymentMethod is the one error of the PSP that is documented to come before any effect: no charge, no record, and
// no request under this key before. See docs/adr/0025-when-a-4xx-is-proof.md.
const unknownPaymentMethod = "unknown_payment_method"

// judge reads an answer below 500 as a verdict on the charge, if it is one.
func (ch Charge) judge(a answer) Outcome {
	if ch.refusedBy(a) {
		return Declined{Code: unknownPaymentMethod}
	}
	return ch.wanted().judge(a)
}

// refusedBy reports whether an answer is that error, about this very charge. It has to be the documented status and the
// documented members, each once, and no other: an error that says more may mean something else, and a charge that is
// wrongly taken for refused is paid twice.
func (ch Charge) refusedBy(a answer) bool {
	var said struct {
		Error struct {
			Code           string `json:"code"`
			Message        string `json:"message"`
			Account        string `json:"account"`
			IdempotencyKey string `json:"idempotencyKey"`
			Reference      string `json:"reference"`
		} `json:"error"`
	}
	if a.status != http.StatusBadRequest || json.Unmarshal(a.body, &said, json.RejectUnknownMembers(true)) != nil {
		return false
	}
	e := said.Error
	return e.Code == unknownPaymentMethod && e.Message != "" &&
		e.Account == ch.Account && e.IdempotencyKey == ch.Key && e.Reference == ch.Reference && ch.Reference != ""
}
