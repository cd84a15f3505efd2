package console

import (
	"errors"
	"net/http"

	"payonce/internal/deadletters"
	"payonce/internal/operator"
	"payonce/internal/tenants"
)

// severalView is the page of one decision about several dead letters: the plan, or what has come of it.
type severalView struct {
	Does  string         // what the action does
	Plan  *operator.Plan // before it is carried out
	Ran   *operator.Ran  // afterwards
	KeyID string         // of the operator who sees the page
	List  string         // the address of the list
}

// severalActions are the actions that the list offers for several dead letters.
func severalActions() (actions []operator.Preview) {
	for _, a := range []deadletters.Action{deadletters.Retry, deadletters.Executed, deadletters.Dismiss} {
		actions = append(actions, operator.Preview{Action: a, Does: severalDoes(a)})
	}
	return actions
}

func severalDoes(a deadletters.Action) string {
	if a == deadletters.Executed {
		return "Complete each key as a success, if the PSP has a record of exactly what was asked."
	}
	return does(a)
}

// plan shows what one decision about several dead letters would do. It changes nothing.
func (c *Console) plan(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	if err := r.ParseForm(); err != nil {
		c.fail(w, r, http.StatusBadRequest, "The form cannot be read.")
		return
	}
	query := queryIn(r.PostForm, deadLetterFields())
	list := addressOf("/console/dead-letters", query)
	query.Del("status") // Only open dead letters are decided about.
	selection, bad := operator.SelectionOf(r.PostFormValue("action"), query)
	if len(bad) > 0 {
		c.fail(w, r, http.StatusBadRequest, "Nothing was changed. "+bad[0].Parameter+" "+bad[0].Detail+".")
		return
	}
	p, err := c.config.Operators.Plan(r.Context(), selection)
	if err != nil {
		c.explain(w, r, err)
		return
	}
	c.show(w, r, http.StatusOK, "several.html", "Several dead letters", &by,
		severalView{Does: severalDoes(p.Action), Plan: &p, KeyID: by.KeyID.String(), List: list})
}

// run carries out a plan. Each decision is audited under the name of the operator who has signed in.
func (c *Console) run(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	if !c.sentBy(w, r, by) {
		return
	}
	reason := reasonIn(r)
	if bad := operator.ValidateReason(reason); bad != nil {
		c.fail(w, r, http.StatusBadRequest,
			"Nothing was changed. The reason "+bad[0].Detail+". Go back, and write another one.")
		return
	}
	ran, err := c.config.Operators.Run(r.Context(), r.PostFormValue("plan"), reason, by.Actor())
	switch {
	case errors.Is(err, operator.ErrPlanMalformed):
		c.fail(w, r, http.StatusBadRequest, "Nothing was changed. The form has no plan. Begin at the list of dead letters.")
	case errors.Is(err, operator.ErrPlanOld):
		c.fail(w, r, http.StatusConflict,
			"Nothing was changed. The dead letters have changed since the plan was made. Make a new plan.")
	case err != nil:
		c.explain(w, r, err)
	default:
		c.show(w, r, http.StatusOK, "several.html", "Several dead letters", &by,
			severalView{Does: severalDoes(ran.Action), Ran: &ran, List: "/console/dead-letters"})
	}
}
