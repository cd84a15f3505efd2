package operator

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"payonce/internal/cardnumber"
	"payonce/internal/deadletters"
)

// Decision is what an operator asks for.
type Decision struct {
	Letter  uuid.UUID
	Version int32 // of the letter, as the operator has seen it
	Action  deadletters.Action
	Reason  string
	Actor   string
	// PSPID is the PSP's id of a movement that the operator calls executed, where he knows it; else "".
	PSPID string
}

// Invalid is one thing that is wrong with a decision, and the member that it is about.
type Invalid struct {
	Pointer string // RFC 6901
	Detail  string
}

// pspIDForm is what the PSP's ids look like, as package gateway takes them.
var pspIDForm = regexp.MustCompile(`^[!-~]{1,255}$`)

// Validate lists everything that is wrong with a decision.
func (d Decision) Validate() []Invalid {
	var bad []Invalid
	refuse := func(pointer, detail string) { bad = append(bad, Invalid{pointer, detail}) }
	switch d.Action {
	case deadletters.Retry, deadletters.Executed, deadletters.NotExecuted, deadletters.Dismiss:
	default:
		refuse("/action", "must be retry, executed, not_executed or dismiss")
	}
	if detail := checkText(d.Reason, deadletters.MaxReason); detail != "" {
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
	case !pspIDForm.MatchString(d.PSPID), cardnumber.In(d.PSPID):
		refuse("/pspId", "must be 1 to 255 printable ASCII characters without spaces, and no card number")
	}
	return bad
}

// checkText says what is wrong with a text that a person has written and others will read, or nothing.
func checkText(s string, limit int) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "must not be empty"
	case utf8.RuneCountInString(s) > limit:
		return "must be at most " + strconv.Itoa(limit) + " characters"
	case !utf8.ValidString(s), strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
		return "must not hold control characters"
	case cardnumber.In(s):
		return "must not hold a card number"
	}
	return ""
}
