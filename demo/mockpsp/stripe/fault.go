package stripe

import (
	"regexp"

	"payonce/demo/mockpsp"
)

// fault is what a test token does. The zero value executes and answers. A token without a fault, a real one included,
// is executed. A token that is none of both is refused: see checkMethod.
type fault struct {
	token string

	idle        bool // nothing is executed
	once        bool // strikes at the first attempt of a reference; the next is executed
	slow        bool // pauses first
	late        bool // executes after the call has ended
	declined    bool // the bank refuses
	wrongAmount bool // executed with another amount
	stuck       bool // executed, and cannot be read any more
	silent      bool // executed, and no webhook reports it
	forgets     bool // executed, and the key is forgotten
	bookedLate  bool // executed, and lists have it only later
	broken      bool // ends with a 500
	ending      mockpsp.Ending

	action    bool // the customer must authenticate
	abandoned bool // … and never does
	debit     bool // processing, then succeeded
	returned  bool // processing, then failed
	reversed  bool // of a refund: succeeded, then failed

	disputed string  // why the charge is disputed later
	inquiry  bool    // … and the bank only asks
	decided  dueKind // … and the bank decides
}

// The tokens that act elsewhere than at the confirmation.
const (
	methodOK          = "pm_ok"
	methodCreate500   = "pm_create_500"
	methodCreateLost  = "pm_create_lost"
	methodRateLimited = "pm_rate_limited"
	methodConflict    = "pm_conflict"
)

const fraudulent = "fraudulent"

// faults are those of the test tokens.
var faults = map[string]fault{
	methodOK: {}, methodCreate500: {}, methodCreateLost: {}, methodRateLimited: {}, methodConflict: {},

	"pm_declined":            {declined: true},
	"pm_slow":                {slow: true},
	"pm_timeout_charged":     {ending: mockpsp.EndSilence},
	"pm_silent_charged":      {silent: true, ending: mockpsp.EndSilence},
	"pm_timeout_not_charged": {idle: true, once: true, ending: mockpsp.EndSilence},
	"pm_never":               {idle: true, ending: mockpsp.EndSilence},
	"pm_500_charged":         {broken: true},
	"pm_500_not_charged":     {idle: true, once: true, broken: true},
	"pm_reset_charged":       {ending: mockpsp.EndReset},
	"pm_late_charge":         {late: true, once: true, ending: mockpsp.EndCut},
	"pm_wrong_amount":        {wrongAmount: true},
	"pm_stuck":               {stuck: true, silent: true, ending: mockpsp.EndSilence},
	"pm_forgotten_key":       {forgets: true, ending: mockpsp.EndCut},
	"pm_booked_late":         {bookedLate: true},

	"pm_requires_action":           {action: true},
	"pm_requires_action_abandoned": {action: true, abandoned: true},
	"pm_bank_debit":                {debit: true},
	"pm_bank_debit_fails":          {debit: true, returned: true},
	"pm_refund_returned":           {reversed: true},

	"pm_dispute":      {disputed: fraudulent},
	"pm_dispute_won":  {disputed: fraudulent, decided: dueWon},
	"pm_dispute_lost": {disputed: fraudulent, decided: dueLost},
	// Stripe's own: docs.stripe.com/testing#disputes.
	"pm_card_createDispute":                   {disputed: fraudulent},
	"pm_card_createDisputeProductNotReceived": {disputed: "product_not_received"},
	"pm_card_createDisputeInquiry":            {disputed: fraudulent, inquiry: true},
}

// declines are what the bank says to Stripe's own test methods, by the names of these behind pm_card_chargeDeclined or
// pm_card_visa_chargeDeclined (docs.stripe.com/testing#declined-payments).
var declines = map[string]failure{
	"":           {Code: "card_declined", Decline: "generic_decline", Message: "Your card was declined."},
	"Fraudulent": {Code: "card_declined", Decline: "fraudulent", Message: "Your card was declined."},
	"InsufficientFunds": {Code: "card_declined", Decline: "insufficient_funds",
		Message: "Your card has insufficient funds."},
	"LostCard":   {Code: "card_declined", Decline: "lost_card", Message: "Your card was declined."},
	"StolenCard": {Code: "card_declined", Decline: "stolen_card", Message: "Your card was declined."},
	"VelocityLimitExceeded": {Code: "card_declined", Decline: "card_velocity_exceeded",
		Message: "Your card was declined for making repeated attempts too frequently or exceeding its amount limit."},
	"ExpiredCard": {Code: "expired_card", Decline: "expired_card", Param: "exp_month",
		Message: "Your card has expired."},
	"IncorrectCvc": {Code: "incorrect_cvc", Decline: "incorrect_cvc", Param: "cvc",
		Message: "Your card's security code is incorrect."},
	"ProcessingError": {Code: "processing_error", Decline: "processing_error",
		Message: "An error occurred while processing your card. Try again in a little bit."},
}

var decliningMethod = regexp.MustCompile(`^pm_card_(?:visa_)?chargeDeclined(\w*)$`)

// declineOf is what the bank says to a test method of Stripe's or, if it is none of these, to the mock's own tokens.
func declineOf(token string) (f failure, isStripes bool) {
	if name := decliningMethod.FindStringSubmatch(token); name != nil {
		f, isStripes = declines[name[1]]
	}
	if !isStripes {
		f = declines["InsufficientFunds"]
	}
	return f, isStripes
}

// faultOf returns the fault of a token, and whether the token has one.
func faultOf(token string) (fault, bool) {
	f, known := faults[token]
	if _, isStripes := declineOf(token); isStripes {
		f, known = fault{declined: true}, true
	}
	if !known {
		token = methodOK
	}
	f.token = token
	return f, known
}

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
		mockpsp.Token{Name: "pm_card_createDispute", Means: "charged, and disputed later as fraudulent"},
		mockpsp.Token{Name: "pm_card_createDisputeProductNotReceived",
			Means: "charged, and disputed later as a product that was not received"},
		mockpsp.Token{Name: "pm_card_createDisputeInquiry", Means: "charged, and the bank asks later"},
		mockpsp.Token{Name: methodConflict, Means: "a 429 to the first confirmation: another request has the lock"},
	)
}

// The faults that only chance picks, by their names in GET|PUT /_faults.
const (
	rateCreate500Saved = "create_500_saved"
	rateRateLimited    = "rate_limited"
	rateConflict       = "conflict"
	rateKeyForgotten   = "key_forgotten"
	rateRequiresAction = "requires_action"
	rateUnknownEvents  = "unknown_events"
	rateDoubleEvents   = "double_events"
	rateCancelLost     = "cancel_lost"
	rateCancel500      = "cancel_500"
	rateRead500        = "read_500"
)

func rateNames() []string {
	return []string{
		rateCreate500Saved, rateRateLimited, rateConflict, rateKeyForgotten, rateRequiresAction, rateUnknownEvents,
		rateDoubleEvents, rateCancelLost, rateCancel500, rateRead500,
	}
}
