package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/operator"
	"payonce/internal/problem"
)

// planRequest is the body of POST /operator/dead-letters/plan.
type planRequest struct {
	Action       *string `json:"action"`
	Kind         *string `json:"kind"`
	Tenant       *string `json:"tenant"`
	Age          *int64  `json:"age"`
	OpenedAfter  *string `json:"openedAfter"`
	OpenedBefore *string `json:"openedBefore"`
}

// selection reads the members as the list of dead letters reads its parameters.
func (b planRequest) selection() (operator.Selection, *requestError) {
	values := url.Values{}
	for name, text := range map[string]*string{"kind": b.Kind, "tenant": b.Tenant, "openedAfter": b.OpenedAfter,
		"openedBefore": b.OpenedBefore} {
		if text != nil {
			values.Set(name, *text)
		}
	}
	if b.Age != nil {
		values.Set("age", strconv.FormatInt(*b.Age, 10))
	}
	s, bad := operator.SelectionOf(deref(b.Action), values)
	if len(bad) == 0 {
		return s, nil
	}
	details := make([]problem.Detail, len(bad))
	for i, d := range bad {
		if details[i] = problem.AtPointer("/"+d.Parameter, d.Detail); d.Parameter == "action" && b.Action == nil {
			details[i].Detail = "is required"
		}
	}
	return s, invalid(details...)
}

// planView is a plan as the API shows it.
type planView struct {
	Action       deadletters.Action `json:"action"`
	Count        int                `json:"count"`
	Refused      int                `json:"refused"`
	OpenedBefore *idempotency.Time  `json:"openedBefore"`
	HasMore      bool               `json:"hasMore"`
	Plan         string             `json:"plan"`
	Steps        []stepView         `json:"steps"`
}

// stepView is what a plan does about a dead letter, or what came of it.
type stepView struct {
	DeadLetter operator.Entry         `json:"deadLetter"`
	Outcome    operator.OutcomeStatus `json:"outcome,omitempty"` // of a plan that was carried out
	Does       string                 `json:"does,omitempty"`
	Refused    *judge.Refusal         `json:"refused,omitzero"`
}

func (d *ops) plan(w http.ResponseWriter, r *http.Request) (any, error) {
	var body planRequest
	if bad := readBody(w, r, &body); bad != nil {
		return nil, bad
	}
	selection, bad := body.selection()
	if bad != nil {
		return nil, bad
	}
	p, err := d.operator.Plan(r.Context(), selection)
	if err != nil {
		return nil, err
	}
	v := planView{Action: p.Action, Count: len(p.Steps), Refused: p.Refused(), HasMore: p.More, Plan: p.Token,
		OpenedBefore: (*idempotency.Time)(p.Filter.OpenedBefore), Steps: make([]stepView, len(p.Steps))}
	for i, s := range p.Steps {
		v.Steps[i] = stepView{DeadLetter: s.Entry, Does: s.Does, Refused: s.Refused}
	}
	return v, nil
}

// runRequest is the body of POST /operator/dead-letters/run.
type runRequest struct {
	Plan   *string `json:"plan"`
	Reason *string `json:"reason"`
}

// runView is what came of a plan, as the API shows it.
type runView struct {
	Action  deadletters.Action `json:"action"`
	Done    int                `json:"done"`
	Refused int                `json:"refused"`
	Unknown int                `json:"unknown"`
	Left    int                `json:"left"`
	Steps   []stepView         `json:"steps"`
}

func (d *ops) runPlan(w http.ResponseWriter, r *http.Request) (any, error) {
	var body runRequest
	if bad := readBody(w, r, &body); bad != nil {
		return nil, bad
	}
	missing := slices.Concat(required(body.Reason == nil, "/reason"), required(body.Plan == nil, "/plan"))
	bad := wrong(unlessMissing(missing, operator.ValidateReason(deref(body.Reason))))
	if bad != nil {
		return nil, bad
	}
	ran, err := d.operator.Run(r.Context(), *body.Plan, *body.Reason, principalOf(r).Actor())
	switch {
	case errors.Is(err, operator.ErrPlanMalformed):
		return nil, invalid(problem.AtPointer("/plan", "must be the plan of an answer to …/plan"))
	case errors.Is(err, operator.ErrPlanOld):
		return nil, &requestError{code: problem.DeadLetterConflict,
			detail: "The dead letters have changed since the plan was made. Nothing was changed. Make a new plan."}
	case err != nil:
		return nil, err
	}
	v := runView{Action: ran.Action, Done: ran.Count(operator.WasDone), Refused: ran.Count(operator.WasRefused),
		Unknown: ran.Count(operator.WasUnknown), Left: ran.Count(operator.WasLeft),
		Steps: make([]stepView, len(ran.Outcomes))}
	for i, o := range ran.Outcomes {
		v.Steps[i] = stepView{DeadLetter: o.Entry, Outcome: o.Did, Refused: o.Refused}
	}
	return v, nil
}
