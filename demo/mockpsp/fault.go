package mockpsp

import "strings"

// fault is a test token: the payment method of a charge, or the reason of a refund, that picks what goes wrong.
type fault string

const (
	faultOK                fault = "pm_ok"
	faultDeclined          fault = "pm_declined"
	faultSlow              fault = "pm_slow"
	faultTimeoutCharged    fault = "pm_timeout_charged"
	faultSilentCharged     fault = "pm_silent_charged"
	faultTimeoutNotCharged fault = "pm_timeout_not_charged"
	faultNever             fault = "pm_never"
	fault500Charged        fault = "pm_500_charged"
	fault500NotCharged     fault = "pm_500_not_charged"
	faultResetCharged      fault = "pm_reset_charged"
	faultLateCharge        fault = "pm_late_charge"
	faultWrongAmount       fault = "pm_wrong_amount"
	faultStuck             fault = "pm_stuck"
)

// The faults of a PSP that does something else than it was asked for, or writes what is hard to read.
const (
	faultWrongCurrency   fault = "pm_wrong_currency"
	faultWrongReference  fault = "pm_wrong_reference"
	faultNoReference     fault = "pm_no_reference"
	faultWrongKey        fault = "pm_wrong_key"
	faultWrongAccount    fault = "pm_wrong_account"
	faultWrongCharge     fault = "pm_wrong_charge"
	faultWrongID         fault = "pm_wrong_id"
	faultChargedTwice    fault = "pm_charged_twice"
	faultLateDecline     fault = "pm_decline_after_charge"
	faultWrongDecline    fault = "pm_decline_after_wrong_amount"
	faultForgottenKey    fault = "pm_forgotten_key"
	faultDuplicateMember fault = "pm_duplicate_member"
	faultInvalidUTF8     fault = "pm_invalid_utf8"
	faultHugeMember      fault = "pm_huge_member"
	faultLargeMetadata   fault = "pm_large_metadata"
	faultUnknownStatus   fault = "pm_unknown_status"
)

// randomFaults are the faults that can be drawn, in the order in which they share the unit interval. A drawn fault says
// nothing of the key's next request, so pm_never is not one of them.
func randomFaults() []fault {
	return []fault{
		faultTimeoutCharged, faultTimeoutNotCharged, fault500Charged, fault500NotCharged, faultResetCharged,
		faultLateCharge, faultDeclined, faultSlow, faultWrongAmount, faultSilentCharged, faultStuck,
		faultWrongCurrency, faultWrongReference, faultNoReference, faultWrongKey, faultWrongAccount, faultWrongCharge,
		faultWrongID, faultChargedTwice, faultLateDecline, faultWrongDecline, faultForgottenKey,
		faultDuplicateMember, faultInvalidUTF8, faultHugeMember, faultLargeMetadata, faultUnknownStatus,
	}
}

// rateName is the fault's name in GET|PUT /_faults.
func (f fault) rateName() string { return strings.TrimPrefix(string(f), "pm_") }

// ending is how a call ends on the wire.
type ending int

const (
	endAnswered    ending = iota
	endServerError        // a 500, whatever happened
	endSilence            // held, then closed without an answer
	endCut                // closed at once without an answer
	endReset              // a TCP reset
)

// behaviour is what a fault does. The zero value charges nothing and answers.
type behaviour struct {
	once        bool    // when a request names it: the next request with the same key is charged and answered
	slow        bool    // pauses first
	moves       bool    // an entry reaches the ledger
	late        bool    // … but only after the call has ended
	declined    bool    // … and says that the PSP refused
	wrong       member  // … with another value than was asked for
	further     further // … and a second one follows it under the same key
	forgetsKey  bool    // … and its key is forgotten with the end of the call
	harm        harm    // … and is hard to read through the API
	lookupsFail bool    // … and, if money has moved, cannot be read through the API
	noWebhook   bool    // … and no webhook reports it
	ending      ending
}

// behaviour returns what f does, and whether there is such a token. Timeout and silent charges look the same to their
// caller; they differ in the webhook that follows.
func (f fault) behaviour() (behaviour, bool) {
	switch f {
	case faultOK:
		return behaviour{moves: true}, true
	case faultDeclined:
		return behaviour{moves: true, declined: true}, true
	case faultSlow:
		return behaviour{slow: true, moves: true}, true
	case faultTimeoutCharged:
		return behaviour{moves: true, ending: endSilence}, true
	case faultSilentCharged:
		return behaviour{moves: true, noWebhook: true, ending: endSilence}, true
	case faultTimeoutNotCharged:
		return behaviour{once: true, ending: endSilence}, true
	case faultNever:
		return behaviour{ending: endSilence}, true
	case fault500Charged:
		return behaviour{moves: true, ending: endServerError}, true
	case fault500NotCharged:
		return behaviour{once: true, ending: endServerError}, true
	case faultResetCharged:
		return behaviour{moves: true, ending: endReset}, true
	case faultLateCharge:
		return behaviour{moves: true, late: true, ending: endCut}, true
	case faultWrongAmount:
		return behaviour{moves: true, wrong: amountMember}, true
	case faultStuck:
		return behaviour{moves: true, lookupsFail: true, noWebhook: true, ending: endSilence}, true
	default:
		return f.odd()
	}
}

// odd is behaviour for the faults of a PSP that errs: each of them moves money.
func (f fault) odd() (behaviour, bool) {
	switch f {
	case faultWrongCurrency:
		return behaviour{moves: true, wrong: currencyMember}, true
	case faultWrongReference:
		return behaviour{moves: true, wrong: referenceMember}, true
	case faultNoReference:
		return behaviour{moves: true, wrong: referenceEmptied}, true
	case faultWrongKey:
		return behaviour{moves: true, wrong: keyMember}, true
	case faultWrongAccount:
		return behaviour{moves: true, wrong: accountMember}, true
	case faultWrongCharge:
		return behaviour{moves: true, wrong: chargeMember}, true
	case faultWrongID:
		return behaviour{moves: true, wrong: idMember}, true
	case faultChargedTwice:
		return behaviour{moves: true, further: furtherMovement}, true
	case faultLateDecline:
		return behaviour{moves: true, further: furtherDecline}, true
	case faultWrongDecline:
		return behaviour{moves: true, wrong: amountMember, further: furtherDecline}, true
	case faultForgottenKey:
		return behaviour{moves: true, forgetsKey: true, ending: endCut}, true
	case faultDuplicateMember:
		return behaviour{moves: true, harm: harmDuplicateMember}, true
	case faultInvalidUTF8:
		return behaviour{moves: true, harm: harmInvalidUTF8}, true
	case faultHugeMember:
		return behaviour{moves: true, harm: harmHugeMember}, true
	case faultLargeMetadata:
		return behaviour{moves: true, harm: harmLargeMetadata}, true
	case faultUnknownStatus:
		return behaviour{moves: true, harm: harmUnknownStatus}, true
	default:
		return behaviour{}, false
	}
}
