package stripe

// ending is how a call ends on the wire.
type ending int

const (
	endAnswered ending = iota
	endSilence         // held, then closed without an answer
	endCut             // closed at once without an answer
	endReset           // a TCP reset
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
	broken      bool // ends with a 500
	ending      ending

	action    bool // the customer must authenticate
	abandoned bool // … and never does
	debit     bool // processing, then succeeded
	returned  bool // processing, then failed
	reversed  bool // of a refund: succeeded, then failed
}

// The tokens that act elsewhere than at the confirmation.
const (
	methodOK          = "pm_ok"
	methodCreate500   = "pm_create_500"
	methodCreateLost  = "pm_create_lost"
	methodRateLimited = "pm_rate_limited"
	methodConflict    = "pm_conflict"
	methodRefundFails = "pm_refund_fails_later"
)

// faultOf returns the fault of a token, and whether the token has one.
func faultOf(token string) (fault, bool) {
	f := fault{token: token}
	switch token {
	case methodOK, methodCreate500, methodCreateLost, methodRateLimited, methodConflict:
	case "pm_declined":
		f.declined = true
	case "pm_slow":
		f.slow = true
	case "pm_timeout_charged":
		f.ending = endSilence
	case "pm_silent_charged":
		f.silent, f.ending = true, endSilence
	case "pm_timeout_not_charged":
		f.idle, f.once, f.ending = true, true, endSilence
	case "pm_never":
		f.idle, f.ending = true, endSilence
	case "pm_500_charged":
		f.broken = true
	case "pm_500_not_charged":
		f.idle, f.once, f.broken = true, true, true
	case "pm_reset_charged":
		f.ending = endReset
	case "pm_late_charge":
		f.late, f.once, f.ending = true, true, endCut
	case "pm_wrong_amount":
		f.wrongAmount = true
	case "pm_stuck":
		f.stuck, f.silent, f.ending = true, true, endSilence
	case "pm_forgotten_key":
		f.forgets, f.ending = true, endCut
	case "pm_requires_action":
		f.action = true
	case "pm_requires_action_abandoned":
		f.action, f.abandoned = true, true
	case "pm_bank_debit":
		f.debit = true
	case "pm_bank_debit_fails":
		f.debit, f.returned = true, true
	case methodRefundFails:
		f.reversed = true
	default:
		return fault{token: methodOK}, false
	}
	return f, true
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
