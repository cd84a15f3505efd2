package httpapi

import (
	"math"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/operator"
	"payonce/internal/payments"
	"payonce/internal/problem"
)

// noSuchLetter is the same for a letter that is not there and for what can be no letter's id.
const noSuchLetter = "There is no such dead letter."

func (d *desk) summary(w http.ResponseWriter, r *http.Request) {
	if _, wrong := queryOf(r.URL.RawQuery); wrong != nil {
		bad := invalid(wrong...)
		d.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return
	}
	s, err := d.operator.Summary(r.Context())
	if err != nil {
		d.answerError(w, r, err)
		return
	}
	d.show(w, r, s)
}

func (d *desk) listLetters(w http.ResponseWriter, r *http.Request) {
	filter, bad := letterFilterOf(r.URL.RawQuery)
	if bad != nil {
		d.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return
	}
	page, err := d.operator.List(r.Context(), filter)
	if err != nil {
		d.answerError(w, r, err)
		return
	}
	d.show(w, r, page)
}

func (d *desk) showLetter(w http.ResponseWriter, r *http.Request) {
	id, ok := letterIn(r)
	if !ok {
		d.answerError(w, r, deadletters.ErrNoLetter)
		return
	}
	c, err := d.operator.Show(r.Context(), id)
	if err != nil {
		d.answerError(w, r, err)
		return
	}
	d.show(w, r, c)
}

// letterIn takes the one spelling that the API itself uses: package uuid knows several.
func letterIn(r *http.Request) (uuid.UUID, bool) {
	raw := chi.URLParam(r, "letterId")
	id, err := uuid.Parse(raw)
	return id, err == nil && id.String() == raw
}

// letterFilterOf reads the query of the list, as strictly as that of payments.
func letterFilterOf(rawQuery string) (deadletters.Filter, *refusal) {
	f := deadletters.Filter{Status: deadletters.OpenStatus, Limit: deadletters.DefaultPage}
	query, wrong := queryOf(rawQuery, "status", "limit", "cursor")
	refuse := func(name, detail string) { wrong = append(wrong, problem.Detail{Parameter: name, Detail: detail}) }
	if query.Has("status") {
		f.Status = deadletters.Status(query.Get("status"))
		if f.Status != deadletters.OpenStatus && f.Status != deadletters.ResolvedStatus {
			refuse("status", "must be open or resolved")
		}
	}
	if query.Has("limit") {
		var err error
		if f.Limit, err = strconv.Atoi(query.Get("limit")); err != nil || f.Limit < 1 || f.Limit > deadletters.MaxPage {
			refuse("limit", "must be an integer from 1 to 100")
		}
	}
	if query.Has("cursor") {
		cursor, err := deadletters.ParseCursor(query.Get("cursor"))
		if f.Before = &cursor; err != nil {
			refuse("cursor", "must be the nextCursor of an earlier page")
		}
	}
	if wrong != nil {
		return f, invalid(wrong...)
	}
	return f, nil
}

// decisionRequest is the body of POST …/resolve. Pointers tell a member that is absent from a zero.
type decisionRequest struct {
	Action  *string `json:"action"`
	Reason  *string `json:"reason"`
	Version *int64  `json:"version"`
	PSPID   *string `json:"pspId"`
}

func (d *desk) resolveLetter(w http.ResponseWriter, r *http.Request) {
	var body decisionRequest
	if bad := readBody(w, r, &body); bad != nil {
		d.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return
	}
	decision, bad := body.toDomain()
	if bad != nil {
		d.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return
	}
	var ok bool
	if decision.Letter, ok = letterIn(r); !ok {
		d.answerError(w, r, deadletters.ErrNoLetter)
		return
	}
	decision.Actor = actorOf(r)
	ruling, err := d.operator.Resolve(r.Context(), decision)
	if err != nil {
		d.answerError(w, r, err)
		return
	}
	d.spellRuling(w, r, ruling)
}

// toDomain lists all that is wrong at once: what is missing here, what is not allowed in operator.
func (b decisionRequest) toDomain() (operator.Decision, *refusal) {
	var bad []problem.Detail
	missing := map[string]bool{"/actor": true} // who it is, the API key says
	require := func(absent bool, pointer string) {
		if absent {
			missing[pointer] = true
			bad = append(bad, problem.AtPointer(pointer, "is required"))
		}
	}
	require(b.Action == nil, "/action")
	require(b.Reason == nil, "/reason")
	require(b.Version == nil, "/version")
	decision := operator.Decision{
		Action: deadletters.Action(deref(b.Action)), Reason: deref(b.Reason), PSPID: deref(b.PSPID),
	}
	if v := deref(b.Version); v >= 1 && v <= math.MaxInt32 {
		decision.Version = int32(v)
	}
	if b.PSPID != nil && *b.PSPID == "" {
		bad = append(bad, problem.AtPointer("/pspId", "must not be empty; leave it out if you do not know it"))
	}
	for _, i := range decision.Validate() {
		if !missing[i.Pointer] {
			bad = append(bad, problem.AtPointer(i.Pointer, i.Detail))
		}
	}
	if len(bad) > 0 {
		return operator.Decision{}, invalid(bad...)
	}
	return decision, nil
}

// actorOf names who decides in the audit trail: the API key by its id, behind its label if it has one. Two operators may share a label.
func actorOf(r *http.Request) string {
	p := principalOf(r)
	id := "api key " + p.KeyID.String()
	if p.KeyLabel != "" {
		return p.KeyLabel + " (" + id + ")"
	}
	return id
}

// spellRuling writes a ruling in HTTP.
func (d *desk) spellRuling(w http.ResponseWriter, r *http.Request, ruling operator.Ruling) {
	switch v := ruling.(type) {
	case operator.Done:
		d.show(w, r, v.Entry)
	case operator.Refused:
		if v.Ground == payments.NoFreshProof {
			retryAfter(w, afterPSPFailure)
		}
		d.refuse(w, r, codeOf(v.Ground), v.Detail)
	}
}

func codeOf(g payments.Ground) problem.Code {
	switch g {
	case payments.Conflict:
		return problem.LetterConflict
	case payments.ContradictsPSP:
		return problem.OperatorContradictsPSP
	case payments.NoFreshProof:
		return problem.PSPUnavailable
	case payments.WindowOpen:
		return problem.SettleWindowOpen
	case payments.NeedsDecision:
		return problem.LetterNeedsDecision
	case payments.NotApplicable:
	}
	return problem.ActionNotApplicable
}
