package console

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/tenants"
)

// deadLetterView is the page of a dead letter.
type deadLetterView struct {
	operator.Case

	KeyURL   string // of the page of the key; or ""
	Evidence string
	Actions  []operator.Preview // for those who may decide, while it is open
	Checked  bool               // whether it was found out which of them would be refused
	KeyID    string             // of the operator who sees the page
	Refused  string             // why the last decision was refused; or ""
	Asked    operator.Decision
}

// does says what each action does.
func does(a deadletters.Action) string {
	switch a {
	case deadletters.Retry:
		return "Try again what has failed. For an unknown key, the PSP is asked again at once."
	case deadletters.Executed:
		return "Say that the PSP has executed it. The key is completed as a success."
	case deadletters.NotExecuted:
		return "Say that the PSP has not executed it, and will not. The key is released, or completed as the decline."
	case deadletters.Dismiss:
		return "Nobody has to decide any more."
	}
	return ""
}

// leadsTo says what comes after an action on a dead letter of this kind, if something does.
func leadsTo(kind deadletters.Kind, a deadletters.Action) string {
	if kind == deadletters.PSPContradicts && a == deadletters.Executed {
		return "The PSP's record still says something else, so it becomes a contradicts_completed soon after. Dismiss that " +
			"one once the difference is corrected with the merchant."
	}
	return ""
}

func (c *Console) deadLetter(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	c.showDeadLetter(w, r, by, http.StatusOK, "", operator.Decision{})
}

func (c *Console) showDeadLetter(
	w http.ResponseWriter, r *http.Request, by tenants.Principal, status int, refused string, asked operator.Decision,
) {
	v := deadLetterView{Refused: refused, Asked: asked}
	id, err := deadletters.ParseID(r.PathValue("id"))
	if err == nil {
		v.Case, err = c.config.Operators.Show(r.Context(), id)
	}
	if err == nil && by.May(tenants.OpsResolve) && v.Resolution == nil {
		v.Actions, v.Checked = c.actions(r, id)
		v.KeyID = by.KeyID.String()
	}
	if err != nil {
		c.explain(w, r, err)
		return
	}
	v.Evidence = indented(string(v.DeadLetter.Evidence))
	if a := v.About; a != nil {
		v.KeyURL = keyURL(idempotency.StoredRef(a.Tenant, a.Operation, a.Key))
	}
	c.show(w, r, status, "deadletter.html", "Dead letter", &by, v)
}

// longestPreview bounds how long the page waits for the PSP. Without a preview, the actions are shown all the same.
const longestPreview = 3 * time.Second

func (c *Console) actions(r *http.Request, id uuid.UUID) (previews []operator.Preview, checked bool) {
	previews = []operator.Preview{{Action: deadletters.Retry}, {Action: deadletters.Executed},
		{Action: deadletters.NotExecuted}, {Action: deadletters.Dismiss}}
	ctx, cancel := context.WithTimeout(r.Context(), longestPreview)
	defer cancel()
	select {
	case c.asking <- struct{}{}:
		found, err := c.config.Operators.Preview(ctx, id)
		<-c.asking
		if err == nil && ctx.Err() == nil {
			previews, checked = found, true
		}
	case <-ctx.Done():
	}
	return previews, checked
}

// sentBy reports whether the operator who sends a form is the one who was shown it. Otherwise it says that nothing was
// changed.
func (c *Console) sentBy(w http.ResponseWriter, r *http.Request, by tenants.Principal) bool {
	if r.PostFormValue("keyId") == by.KeyID.String() {
		return true
	}
	c.fail(w, r, http.StatusConflict,
		"Nothing was changed. Somebody else has signed in with this browser since the page was shown. Look at it again.")
	return false
}

// reasonIn is the reason in a form. A form sends line ends as CR and LF, and a reason has LF alone.
func reasonIn(r *http.Request) string {
	return strings.ReplaceAll(r.PostFormValue("reason"), "\r\n", "\n")
}

// resolve carries out a decision. It is audited under the name of the operator who has signed in.
func (c *Console) resolve(w http.ResponseWriter, r *http.Request, by tenants.Principal) {
	id, err := deadletters.ParseID(r.PathValue("id"))
	if err != nil {
		c.explain(w, r, err)
		return
	}
	if !c.sentBy(w, r, by) {
		return
	}
	version, _ := strconv.ParseInt(r.PostFormValue("version"), 10, 32) // Zero is refused below.
	asked := operator.Decision{PSPID: strings.TrimSpace(r.PostFormValue("pspId")), Decision: deadletters.Decision{
		DeadLetter: id, Version: int32(version), Action: deadletters.Action(r.PostFormValue("action")),
		Reason: reasonIn(r), Actor: by.Actor(),
	}}
	if wrong := asked.Validate(); len(wrong) > 0 {
		c.showDeadLetter(w, r, by, http.StatusBadRequest,
			strings.TrimPrefix(*wrong[0].Pointer, "/")+" "+wrong[0].Detail+".", asked)
		return
	}
	outcome, err := c.config.Operators.Resolve(r.Context(), asked)
	switch {
	case err != nil:
		c.explain(w, r, err)
	case outcome.Refused != nil:
		c.showDeadLetter(w, r, by, http.StatusConflict, outcome.Refused.Detail, asked)
	default:
		http.Redirect(w, r, "/console/dead-letters/"+id.String(), http.StatusSeeOther)
	}
}

// indented is JSON for people.
func indented(document string) string {
	var b bytes.Buffer
	e := jsontext.NewEncoder(&b, jsontext.WithIndent("  "))
	if err := e.WriteValue(jsontext.Value(document)); err != nil {
		return document
	}
	return b.String()
}
