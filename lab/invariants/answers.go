package invariants

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"payonce/internal/payment"
	"payonce/internal/problem"
	"payonce/lab/history"
)

// document is the row as the API shows it, whole.
func (m *movementRow) document() document {
	d := document{}
	d.set("status", m.Status)
	d.set("amountCents", m.Amount)
	d.set("currency", m.Currency)
	d.set("amount", decimal(m.Currency, m.Amount))
	d.set("declineCode", m.Decline)
	d.set("createdAt", stampOf(&m.Created))
	d.set("idempotencyKey", m.Key)
	if m.PaymentID != nil {
		d.set("paymentId", payment.ID(*m.PaymentID).String())
		d.set("refundId", m.String())
		d.set("pspRefundId", m.PSPID)
		d.set("reason", m.Reason)
		return d
	}
	d.set("paymentId", m.String())
	d.set("customerId", m.Customer)
	d.set("paymentMethod", m.Method)
	d.set("reference", m.Reference)
	d.set("description", m.Description)
	d.set("metadata", m.metadata())
	d.set("pspChargeId", m.PSPID)
	d.set("amountRefundedCents", m.Refunded)
	if m.Outside != 0 && m.Status == string(payment.Succeeded) {
		d.set("amountMovedByOthersCents", m.Outside)
	}
	return d
}

// undecided is the row as it was shown while its outcome was not known.
func (m *movementRow) undecided() document {
	open := *m
	open.Status, open.PSPID, open.Decline, open.Refunded = string(payment.Processing), "", "", 0
	return open.document()
}

// differs holds a body against the row.
func (m *movementRow) differs(body []byte) string { return m.document().differs(readDocument(body)) }

// answersFit is the part of I3 that looks into the stored answers: each says what its payment or refund says.
func answersFit(w world, _ Evidence) []Violation {
	var found []Violation
	for _, k := range w.books.lives {
		m := w.books.subjects[k.Subject]
		if m == nil || k.ResponseStatus == nil {
			continue
		}
		if differs := w.books.storedDiffers(k, m); differs != "" {
			found = append(found, Violation{"I3", k.name().String(),
				fmt.Sprintf("the stored answer is not about %s as it is: %s", m, differs)})
		}
	}
	return found
}

func (b *books) storedDiffers(k *keyRow, m *movementRow) string {
	status, told := int(*k.ResponseStatus), readDocument(k.ResponseBody)
	kind := "application/json"
	if status >= http.StatusBadRequest {
		kind = problem.ContentType
	}
	switch {
	case k.ResponseContentType == nil || *k.ResponseContentType != kind:
		return fmt.Sprintf("a %d is not of the type %s", status, kind)
	case k.ResponseLocation == nil || *k.ResponseLocation != m.path():
		return fmt.Sprintf("a %d does not lead to %s", status, m.path())
	case status == http.StatusPaymentRequired && m.Status == string(payment.Declined):
		return m.refusal().differs(told.without("type", "detail"))
	case status != http.StatusCreated || m.Status != string(payment.Succeeded):
		return fmt.Sprintf("status %d of what is %s", status, m.Status)
	}
	then := *m
	then.Refunded, then.Outside = 0, 0 // it was written before any refund of it
	if id := told.text("pspChargeId") + told.text("pspRefundId"); strings.HasPrefix(id, payment.OperatorPSPID) &&
		b.calledExecuted(m) {
		then.PSPID = id // the PSP's own name for it came later
	}
	return then.document().differs(told)
}

// refusal is the problem document of a decline, but for its type and its detail, which are for people.
func (m *movementRow) refusal() document {
	code := problem.PaymentDeclined
	if m.PaymentID != nil {
		code = problem.RefundDeclined
	}
	entry, _ := problem.Lookup(code)
	d := document{}
	d.set("title", entry.Title)
	d.set("status", entry.Status)
	d.set("instance", m.path())
	d.set("code", code)
	d.set("retryable", entry.Retryable)
	d.set("newKeySafe", entry.NewKeySafe)
	d.set("declineCode", m.Decline)
	d.set("paymentId", m.document().text("paymentId"))
	d.set("refundId", m.document().text("refundId"))
	return d
}

// asked is the part of I4 that begins with the client: what it asked for is what there is, and what it is shown before
// the end. The rest is between the row and the PSP.
func asked(w world, e Evidence) []Violation {
	var found []Violation
	for _, o := range e.History {
		if !keyed(o) || !o.Answered() {
			continue
		}
		m := w.books.named(o)
		if m == nil {
			continue // it names none, or one that is not there, which is found elsewhere
		}
		differs := m.differsFromAsked(o)
		if differs == "" && o.Status == http.StatusAccepted {
			differs = m.undecided().differs(readDocument(o.Answer))
		}
		if differs != "" {
			found = append(found, Violation{"I4", nameOf(o).String(),
				fmt.Sprintf("client %d was answered %d about %s: %s", o.Client, o.Status, m, differs)})
		}
	}
	return found
}

// named is the payment or refund that an answer names as the key's own.
func (b *books) named(o history.Operation) *movementRow {
	member := "paymentId"
	if o.Route == history.RefundsRoute {
		member = "refundId"
	}
	id, err := subjectOf(readDocument(o.Answer).text(member))
	if err != nil {
		return nil
	}
	return b.subjects[id]
}

// order is all that a client can ask for.
type order struct {
	CustomerID    string            `json:"customerId"`
	AmountCents   int64             `json:"amountCents"`
	Currency      string            `json:"currency"`
	PaymentMethod string            `json:"paymentMethod"`
	Reference     string            `json:"reference"`
	Description   string            `json:"description"`
	Metadata      map[string]string `json:"metadata"`
	Reason        string            `json:"reason"`
}

func (m *movementRow) differsFromAsked(o history.Operation) string {
	var ask order
	if err := json.Unmarshal(o.Body, &ask); err != nil {
		return "the request cannot be read: " + err.Error()
	}
	want := document{}
	want.set("key", o.Tenant+" "+o.Route+" "+o.Key)
	want.set("reason", ask.Reason)
	got := document{}
	got.set("key", m.keyName().String())
	got.set("reason", m.Reason)
	if m.PaymentID == nil {
		if ask.PaymentMethod == "" {
			ask.PaymentMethod = "pm_ok"
		}
		want.set("customerId", ask.CustomerID)
		want.set("currency", ask.Currency)
		want.set("paymentMethod", ask.PaymentMethod)
		want.set("reference", ask.Reference)
		want.set("description", ask.Description)
		want.set("metadata", ask.Metadata)
		shown := m.document()
		for _, name := range []string{"customerId", "currency", "paymentMethod", "reference", "description",
			"metadata"} {
			if value, there := shown[name]; there {
				got[name] = value
			}
		}
	} else if o.Path != "" {
		want.set("path", o.Path)
		got.set("path", "/payments/"+payment.ID(*m.PaymentID).String()+"/refunds")
	}
	if m.PaymentID == nil || ask.AmountCents != 0 { // no amount is all that was left
		want.set("amountCents", ask.AmountCents)
		got.set("amountCents", m.Amount)
	}
	if differs := want.differs(got); differs != "" {
		return "it is not what was asked for: " + differs
	}
	return ""
}
