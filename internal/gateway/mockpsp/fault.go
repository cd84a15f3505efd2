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
	fault500Charged        fault = "pm_500_charged"
	fault500NotCharged     fault = "pm_500_not_charged"
	faultResetCharged      fault = "pm_reset_charged"
	faultLateCharge        fault = "pm_late_charge"
	faultWrongAmount       fault = "pm_wrong_amount"
	faultStuck             fault = "pm_stuck"
)

// randomFaults are the faults that can be drawn, in the order in which they share the unit interval.
func randomFaults() []fault {
	return []fault{
		faultTimeoutCharged, faultTimeoutNotCharged, fault500Charged, fault500NotCharged, faultResetCharged,
		faultLateCharge, faultDeclined, faultSlow, faultWrongAmount, faultSilentCharged, faultStuck,
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
	slow        bool // pauses first
	moves       bool // an entry reaches the ledger
	late        bool // … but only after the call has ended
	declined    bool // … and says that the PSP refused
	wrongAmount bool // … with another amount than was asked for
	lookupsFail bool // … and cannot be read through the API
	noWebhook   bool // … and no webhook tells of it
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
		return behaviour{ending: endSilence}, true
	case fault500Charged:
		return behaviour{moves: true, ending: endServerError}, true
	case fault500NotCharged:
		return behaviour{ending: endServerError}, true
	case faultResetCharged:
		return behaviour{moves: true, ending: endReset}, true
	case faultLateCharge:
		return behaviour{moves: true, late: true, ending: endCut}, true
	case faultWrongAmount:
		return behaviour{moves: true, wrongAmount: true}, true
	case faultStuck:
		return behaviour{moves: true, lookupsFail: true, noWebhook: true, ending: endSilence}, true
	default:
		return behaviour{}, false
	}
}
