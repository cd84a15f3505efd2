package operator

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"payonce/internal/cardnumber"
	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/problem"
)

// Decision is what an operator asks for.
type Decision struct {
	deadletters.Decision

	// PSPID is the PSP's id of the movement, if the operator says executed and knows the id; otherwise "".
	PSPID string

	pspConfirms bool // executed needs the PSP's own record of exactly what was asked
}

// Validate lists everything that is wrong with a decision.
func (d Decision) Validate() []problem.Detail {
	var bad []problem.Detail
	refuse := func(pointer, detail string) { bad = append(bad, problem.AtPointer(pointer, detail)) }
	switch d.Action {
	case deadletters.Retry, deadletters.Executed, deadletters.NotExecuted, deadletters.Dismiss:
	default:
		refuse("/action", "must be retry, executed, not_executed or dismiss")
	}
	bad = append(bad, ValidateReason(d.Reason)...)
	if d.Version < 1 {
		refuse("/version", "must be an integer from 1 to 2147483647")
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

// ValidateReason lists what is wrong with a reason for the audit trail.
func ValidateReason(reason string) []problem.Detail {
	detail := ""
	switch {
	case strings.TrimSpace(reason) == "":
		detail = "must not be empty"
	case utf8.RuneCountInString(reason) > deadletters.MaxReason:
		detail = "must be at most " + strconv.Itoa(deadletters.MaxReason) + " characters"
	case !utf8.ValidString(reason), strings.ContainsFunc(reason,
		func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		detail = "must not hold control characters"
	case cardnumber.In(reason):
		detail = "must not hold a card number"
	default:
		return nil
	}
	return []problem.Detail{problem.AtPointer("/reason", detail)}
}
