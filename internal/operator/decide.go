package operator

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"payonce/internal/cardnumber"
	"payonce/internal/deadletters"
	"payonce/internal/gateway"
)

// Decision is what an operator asks for.
type Decision struct {
	DeadLetter uuid.UUID
	Version    int32 // the version of the dead letter that the operator has seen
	Action     deadletters.Action
	Reason     string
	Actor      string
	// PSPID is the PSP's id of the movement, if the operator says executed and knows the id; otherwise "".
	PSPID string

	pspConfirms bool // executed needs the PSP's own record of exactly what was asked
}

// Invalid is one thing that is wrong with a decision.
type Invalid struct {
	Pointer string // to the member; RFC 6901
	Detail  string
}

// Validate lists everything that is wrong with a decision.
func (d Decision) Validate() []Invalid {
	var bad []Invalid
	refuse := func(pointer, detail string) { bad = append(bad, Invalid{pointer, detail}) }
	switch d.Action {
	case deadletters.Retry, deadletters.Executed, deadletters.NotExecuted, deadletters.Dismiss:
	default:
		refuse("/action", "must be retry, executed, not_executed or dismiss")
	}
	if detail := checkReason(d.Reason); detail != "" {
		refuse("/reason", detail)
	}
	if d.Version < 1 {
		refuse("/version", "must be an integer from 1 to 2147483647")
	}
	if detail := checkText(d.Actor, deadletters.MaxActor); detail != "" {
		refuse("/actor", detail)
	}
	switch {
	case d.PSPID == "":
	case d.Action != deadletters.Executed:
		refuse("/pspId", "goes with the action executed only")
	case !gateway.IsID(d.PSPID), cardnumber.In(d.PSPID):
		refuse("/pspId", "must be 1 to 255 printable ASCII characters without spaces, no card number, and no id that "+
			"begins with "+gateway.OwnPrefix)
	}
	return bad
}

func checkReason(reason string) string { return checkText(reason, deadletters.MaxReason) }

// checkText says what is wrong with a text that a person has written. It is "" if nothing is wrong.
func checkText(s string, limit int) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "must not be empty"
	case utf8.RuneCountInString(s) > limit:
		return "must be at most " + strconv.Itoa(limit) + " characters"
	case !utf8.ValidString(s), strings.ContainsFunc(s,
		func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return "must not hold control characters"
	case cardnumber.In(s):
		return "must not hold a card number"
	}
	return ""
}
