package native

import (
	"net/http"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/gateway/wire"
)

// unknownPaymentMethod is the only error of the PSP that is documented to come before any effect. It says that there is
// no charge, no record, and no earlier request under this key. See docs/adr/0025-when-a-4xx-is-proof.md.
const unknownPaymentMethod = "unknown_payment_method"

// judgeCharge reads a reply as a verdict on the charge, as judge does.
func judgeCharge(ch gateway.Charge, a wire.Reply) gateway.Outcome {
	if refusedBy(ch, a) {
		return gateway.Declined{Code: unknownPaymentMethod}
	}
	return judge(ch.Wanted(), a)
}

// refusedBy reports whether an answer is that error, about this very charge. The answer must have the documented status
// and the documented members, each once and no others. An error with more members may mean something else. If a charge
// that was executed were taken for refused, the customer would pay twice.
func refusedBy(ch gateway.Charge, a wire.Reply) bool {
	var said struct {
		Error struct {
			Code           string `json:"code"`
			Message        string `json:"message"`
			Account        string `json:"account"`
			IdempotencyKey string `json:"idempotencyKey"`
			Reference      string `json:"reference"`
		} `json:"error"`
	}
	if a.Status != http.StatusBadRequest || json.Unmarshal(a.Body, &said, json.RejectUnknownMembers(true)) != nil {
		return false
	}
	e := said.Error
	return e.Code == unknownPaymentMethod && e.Message != "" &&
		e.Account == ch.Account && e.IdempotencyKey == ch.Key && e.Reference == ch.Reference && ch.Reference != ""
}
