package httpapi

import (
	"math"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"payonce/internal/deadletters"
	"payonce/internal/judge"
	"payonce/internal/operator"
	"payonce/internal/problem"
	"payonce/internal/query"
)

func (d *ops) summary(_ http.ResponseWriter, r *http.Request) (any, error) {
	if bad := wrong(query.Parse(r.URL.RawQuery).Bad()); bad != nil {
		return nil, bad
	}
	return d.operator.Summary(r.Context())
}

func (d *ops) showDeadLetter(_ http.ResponseWriter, r *http.Request) (any, error) {
	id, err := deadletters.ParseID(chi.URLParam(r, "deadLetterId"))
	if err != nil {
		return nil, err
	}
	return d.operator.Show(r.Context(), id)
}

// decisionRequest is the body of POST …/resolve. The fields are pointers, because a missing member differs from a zero.
type decisionRequest struct {
	Action  *string `json:"action"`
	Reason  *string `json:"reason"`
	Version *int64  `json:"version"`
	PSPID   *string `json:"pspId"`
}

func (d *ops) resolveDeadLetter(w http.ResponseWriter, r *http.Request) (any, error) {
	var body decisionRequest
	if bad := readBody(w, r, &body); bad != nil {
		return nil, bad
	}
	decision, bad := body.toDomain()
	if bad != nil {
		return nil, bad
	}
	var err error
	if decision.DeadLetter, err = deadletters.ParseID(chi.URLParam(r, "deadLetterId")); err != nil {
		return nil, err
	}
	decision.Actor = principalOf(r).Actor()
	outcome, err := d.operator.Resolve(r.Context(), decision)
	if refused := outcome.Refused; refused != nil && err == nil {
		bad := &requestError{code: refused.Ground, detail: refused.Detail}
		if refused.Ground == judge.NoFreshProof {
			bad.after = afterPSPFailure
		}
		return nil, bad
	}
	return outcome.Entry, err
}

// toDomain lists everything that is wrong. It finds missing members, and package operator finds values that are not
// allowed.
func (b decisionRequest) toDomain() (operator.Decision, *requestError) {
	bad := slices.Concat(required(b.Action == nil, "/action"), required(b.Reason == nil, "/reason"),
		required(b.Version == nil, "/version"))
	decision := operator.Decision{PSPID: deref(b.PSPID), Decision: deadletters.Decision{
		Action: deadletters.Action(deref(b.Action)), Reason: deref(b.Reason)}}
	if v := deref(b.Version); v >= 1 && v <= math.MaxInt32 {
		decision.Version = int32(v)
	}
	if b.PSPID != nil && *b.PSPID == "" {
		bad = append(bad, problem.AtPointer("/pspId", "must not be empty; leave it out if you do not know it"))
	}
	return decision, wrong(unlessMissing(bad, decision.Validate()))
}
