package httpapi

import (
	"math"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"payonce/internal/deadletters"
	"payonce/internal/operator"
	"payonce/internal/payments"
	"payonce/internal/problem"
	"payonce/internal/query"
)

// noSuchDeadLetter is the same text for a dead letter that does not exist, and for an id that is not valid.
const noSuchDeadLetter = "There is no such dead letter."

func (d *ops) summary(w http.ResponseWriter, r *http.Request) {
	if bad := wrong(query.Parse(r.URL.RawQuery).Bad); bad != nil {
		d.reject(w, r, bad)
		return
	}
	s, err := d.operator.Summary(r.Context())
	if err != nil {
		d.answerError(w, r, err)
		return
	}
	d.show(w, r, s)
}

func (d *ops) showDeadLetter(w http.ResponseWriter, r *http.Request) {
	id, err := deadletters.ParseID(chi.URLParam(r, "deadLetterId"))
	if err != nil {
		d.answerError(w, r, err)
		return
	}
	c, err := d.operator.Show(r.Context(), id)
	if err != nil {
		d.answerError(w, r, err)
		return
	}
	d.show(w, r, c)
}

// decisionRequest is the body of POST …/resolve. The fields are pointers, because a missing member differs from a zero.
type decisionRequest struct {
	Action  *string `json:"action"`
	Reason  *string `json:"reason"`
	Version *int64  `json:"version"`
	PSPID   *string `json:"pspId"`
}

func (d *ops) resolveDeadLetter(w http.ResponseWriter, r *http.Request) {
	var body decisionRequest
	if bad := readBody(w, r, &body); bad != nil {
		d.reject(w, r, bad)
		return
	}
	decision, bad := body.toDomain()
	if bad != nil {
		d.reject(w, r, bad)
		return
	}
	id, err := deadletters.ParseID(chi.URLParam(r, "deadLetterId"))
	if err != nil {
		d.answerError(w, r, err)
		return
	}
	decision.DeadLetter = id
	decision.Actor = principalOf(r).Actor()
	outcome, err := d.operator.Resolve(r.Context(), decision)
	switch {
	case err != nil:
		d.answerError(w, r, err)
	case outcome.Refused != nil:
		if outcome.Refused.Ground == payments.NoFreshProof {
			retryAfter(w, afterPSPFailure)
		}
		d.refuse(w, r, codeOf(outcome.Refused.Ground), outcome.Refused.Detail)
	default:
		d.show(w, r, outcome.Entry)
	}
}

// toDomain lists everything that is wrong. It finds missing members, and package operator finds values that are not
// allowed.
func (b decisionRequest) toDomain() (operator.Decision, *requestError) {
	bad := slices.Concat(required(b.Action == nil, "/action"), required(b.Reason == nil, "/reason"),
		required(b.Version == nil, "/version"))
	decision := operator.Decision{
		Action: deadletters.Action(deref(b.Action)), Reason: deref(b.Reason), PSPID: deref(b.PSPID),
	}
	if v := deref(b.Version); v >= 1 && v <= math.MaxInt32 {
		decision.Version = int32(v)
	}
	if b.PSPID != nil && *b.PSPID == "" {
		bad = append(bad, problem.AtPointer("/pspId", "must not be empty; leave it out if you do not know it"))
	}
	return decision, wrong(unlessMissing(bad, decision.Validate()))
}

func codeOf(g payments.Ground) problem.Code {
	switch g {
	case payments.Conflict:
		return problem.DeadLetterConflict
	case payments.ContradictsPSP:
		return problem.OperatorContradictsPSP
	case payments.NoFreshProof:
		return problem.PSPUnavailable
	case payments.GraceOpen:
		return problem.GracePeriodOpen
	case payments.NeedsDecision:
		return problem.DeadLetterNeedsDecision
	case payments.NotApplicable:
	}
	return problem.ActionNotApplicable
}
