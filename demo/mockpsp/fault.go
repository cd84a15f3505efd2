package mockpsp

import (
	"slices"
	"strings"
)

// fault is a test token: the payment method of a charge, or the reason of a refund, that picks what goes wrong.
type fault string

const (
	faultOK    fault = "pm_ok"
	faultNever fault = "pm_never"

	faultBookedLate fault = "pm_booked_late"
)

// randomFaults are the faults that can be drawn, in the order in which they share the unit interval. A drawn fault says
// nothing of the key's next request, so pm_never is not one of them.
func randomFaults() []fault {
	return []fault{
		"pm_timeout_charged", "pm_timeout_not_charged", "pm_500_charged", "pm_500_not_charged", "pm_reset_charged",
		"pm_late_charge", "pm_declined", "pm_slow", "pm_wrong_amount", "pm_silent_charged", "pm_stuck",
		"pm_wrong_currency", "pm_wrong_reference", "pm_no_reference", "pm_wrong_key", "pm_wrong_account",
		"pm_wrong_charge", "pm_wrong_id", "pm_charged_twice", "pm_decline_after_charge",
		"pm_decline_after_wrong_amount", "pm_forgotten_key", "pm_duplicate_member", "pm_invalid_utf8",
		"pm_huge_member", "pm_large_metadata", "pm_unknown_status", faultBookedLate,
	}
}

// rateName is the fault's name in GET|PUT /_faults.
func (f fault) rateName() string { return strings.TrimPrefix(string(f), "pm_") }

func faultNames() []string {
	var names []string
	for _, candidate := range randomFaults() {
		names = append(names, candidate.rateName())
	}
	return names
}

// Ending is how a call ends on the wire.
type Ending int

// The endings of a call.
const (
	EndAnswered    Ending = iota
	EndServerError        // a 500, whatever happened
	EndSilence            // held, then closed without an answer
	EndCut                // closed at once without an answer
	EndReset              // a TCP reset
)

// behaviour is what a fault does. The zero value charges nothing and answers.
type behaviour struct {
	means       string  // for people
	once        bool    // when a request names it: the next request with the same key is charged and answered
	slow        bool    // pauses first
	moves       bool    // an entry reaches the ledger
	late        bool    // … but only after the call has ended
	declined    bool    // … and says that the PSP refused
	wrong       member  // … with another value than was asked for
	further     further // … and a second one follows it under the same key
	returned    bool    // … and, if it is a refund, comes back later
	disputed    bool    // … and, if it is a charge, is disputed later
	decided     string  // … and that dispute ends like this
	forgetsKey  bool    // … and its key is forgotten with the end of the call
	harm        harm    // … and is hard to read through the API
	lookupsFail bool    // … and, if money has moved, cannot be read through the API
	noWebhook   bool    // … and no webhook reports it
	bookedLate  bool    // … and lists and settlement files have it only later
	ending      Ending
}

// behaviours are what the test tokens do. Timeout and silent charges look the same to their caller; they differ in the
// webhook that follows.
var behaviours = map[fault]behaviour{
	faultOK:    {means: "charged, answered", moves: true},
	faultNever: {means: "never answered, never charged", ending: EndSilence},

	"pm_refund_returned": {
		means: "charged; as the reason of a refund: given back, and comes back later", moves: true, returned: true,
	},
	"pm_dispute": {means: "charged, and disputed later", moves: true, disputed: true},
	"pm_dispute_won": {
		means: "charged, disputed later, and the dispute is won", moves: true, disputed: true, decided: StatusWon,
	},
	"pm_dispute_lost": {
		means: "charged, disputed later, and the dispute is lost", moves: true, disputed: true, decided: StatusLost,
	},

	"pm_declined":        {means: "refused: insufficient_funds", moves: true, declined: true},
	"pm_slow":            {means: "charged after a pause", slow: true, moves: true},
	"pm_timeout_charged": {means: "charged, never answered", moves: true, ending: EndSilence},
	"pm_silent_charged": {
		means: "charged, never answered, no webhook", moves: true, noWebhook: true, ending: EndSilence,
	},
	"pm_timeout_not_charged": {means: "never answered, not charged", once: true, ending: EndSilence},
	"pm_500_charged":         {means: "a 500 after charging", moves: true, ending: EndServerError},
	"pm_500_not_charged":     {means: "a 500 before charging", once: true, ending: EndServerError},
	"pm_reset_charged":       {means: "charged, connection reset", moves: true, ending: EndReset},
	"pm_late_charge": {
		means: "connection closed at once, charged some seconds later", moves: true, late: true, ending: EndCut,
	},
	"pm_wrong_amount": {means: "another amount is charged", moves: true, wrong: amountMember},
	"pm_stuck": {
		means: "charged, never answered, no webhook, lookups fail",
		moves: true, lookupsFail: true, noWebhook: true, ending: EndSilence,
	},

	faultBookedLate: {
		means: "charged; in lists and settlement files only some seconds later", moves: true, bookedLate: true,
	},

	// The faults of a PSP that does something else than it was asked for, or writes what is hard to read.
	"pm_wrong_currency": {means: "another currency is charged", moves: true, wrong: currencyMember},
	"pm_wrong_reference": {
		means: "charged under the reference of another movement", moves: true, wrong: referenceMember,
	},
	"pm_no_reference":  {means: "charged without a reference", moves: true, wrong: referenceEmptied},
	"pm_wrong_key":     {means: "charged under the key of another movement", moves: true, wrong: keyMember},
	"pm_wrong_account": {means: "charged in another account", moves: true, wrong: accountMember},
	"pm_wrong_charge": {
		means: "another charge is refunded; a charge names another one", moves: true, wrong: chargeMember,
	},
	"pm_wrong_id": {
		means: "charged, and answered with the id of another movement", moves: true, wrong: idMember,
	},
	"pm_charged_twice": {means: "charged twice under one key", moves: true, further: furtherMovement},
	"pm_decline_after_charge": {
		means: "charged, and then reported as declined under the same key", moves: true, further: furtherDecline,
	},
	"pm_decline_after_wrong_amount": {
		means: "another amount is charged, and what was asked for is reported as declined",
		moves: true, wrong: amountMember, further: furtherDecline,
	},
	"pm_forgotten_key": {
		means: "charged, connection closed, and the key is forgotten: a repeat is charged again",
		moves: true, forgetsKey: true, ending: EndCut,
	},
	"pm_duplicate_member": {
		means: "charged; in answers and lists the status is there twice, with opposite values",
		moves: true, harm: harmDuplicateMember,
	},
	"pm_invalid_utf8": {
		means: "charged; in answers and lists a text is not UTF-8", moves: true, harm: harmInvalidUTF8,
	},
	"pm_huge_member": {
		means: "charged; in answers and lists a text has 1 MiB", moves: true, harm: harmHugeMember,
	},
	"pm_large_metadata": {
		means: "charged; in answers and lists the metadata have 27 KiB", moves: true, harm: harmLargeMetadata,
	},
	"pm_unknown_status": {
		means: "charged; in answers and lists the status is captured", moves: true, harm: harmUnknownStatus,
	},
}

// Token is a test token, and what it does.
type Token struct{ Name, Means string }

// Tokens lists the test tokens for people: the usual ones first, and last those that chance does not pick.
func Tokens() []Token {
	var tokens []Token
	named := []fault{faultNever, "pm_refund_returned", "pm_dispute", "pm_dispute_won", "pm_dispute_lost"}
	for _, f := range slices.Concat([]fault{faultOK}, randomFaults(), named) {
		tokens = append(tokens, Token{string(f), behaviours[f].means})
	}
	return tokens
}

// further is a second entry that follows the key's own one at once, under the same key and reference.
type further int

const (
	nothingFurther  further = iota
	furtherMovement         // executed twice
	furtherDecline          // reported as declined, though the money has moved
)

// furtherDraft returns the draft of the second entry, or nil. The draft is taken before the first entry is written,
// so that it holds what was asked for.
func (r *record) furtherDraft() *record {
	if behaviours[r.Fault].further == nothingFurther {
		return nil
	}
	second := *r
	second.Further = true
	return &second
}
