package stripe

import "payonce/demo/mockpsp"

// Tokens lists the test tokens for people: those that the mock PSP has in its own dialect as well, and then those that
// only this dialect has. A token of a fault that Stripe cannot have is left out.
func Tokens() []mockpsp.Token {
	var tokens []mockpsp.Token
	for _, t := range mockpsp.Tokens() {
		if _, known := faultOf(t.Name); known {
			tokens = append(tokens, t)
		}
	}
	return append(tokens,
		mockpsp.Token{Name: "pm_requires_action", Means: "the customer must authenticate, and does; then charged"},
		mockpsp.Token{Name: "pm_requires_action_abandoned", Means: "the customer must authenticate, and never does"},
		mockpsp.Token{Name: "pm_bank_debit", Means: "the bank debit is processing; then charged"},
		mockpsp.Token{Name: "pm_bank_debit_fails", Means: "the bank debit is processing; then refused"},
		mockpsp.Token{Name: methodCreate500, Means: "a 500 in place of the first payment intent"},
		mockpsp.Token{Name: methodCreateLost, Means: "the payment intent is made, and the answer never comes"},
		mockpsp.Token{Name: methodRateLimited, Means: "a 429 to the first two confirmations or cancellations"},
		mockpsp.Token{Name: methodRefundFails, Means: "charged; as the reason of a refund: given back, and fails later"},
		mockpsp.Token{Name: methodConflict, Means: "a 429 to the first confirmation: another request has the lock"},
	)
}
