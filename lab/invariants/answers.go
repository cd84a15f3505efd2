package invariants

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/payment"
	"payonce/internal/problem"
	"payonce/lab/history"
)

// document is the row as the API shows it, whole.
func (m *movementRow) document() document {
	d := document{}
	d.set("status", shownStatus(m.Status))
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
		d.set("origin", "api")
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
	d.set("amountRefundedCents", int64(0))
	if m.Status == string(payment.Succeeded) {
		d.set("amountRefundedCents", m.Refunded)
	}
	return d
}

// undecided is the row as it was shown while its outcome was not known.
func (m *movementRow) undecided() document {
	open := *m
	open.Status, open.PSPID, open.Decline, open.Refunded = string(payment.Processing), "", "", 0
	return open.document()
}

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
	case status != http.StatusCreated || !m.isFinal() || m.Status == string(payment.Declined):
		return fmt.Sprintf("status %d of what is %s", status, m.Status)
	}
	then := *m
	// It was written before any refund of it, and before its own money came back.
	then.Refunded, then.Status, then.Decline = 0, string(payment.Succeeded), ""
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
			differs = m.undecided().differs(readDocument(o.Answer).without("updatedAt"))
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

// now is the row as the API shows it: with what became of it after the answer that is stored.
func (b *books) now(m *movementRow) document {
	d, updated := m.document(), m.Updated
	if m.PaymentID == nil {
		k := b.keys[m.keyName()]
		if k != nil && k.Subject == m.ID && k.Finished != nil && k.Finished.After(updated) {
			updated = *k.Finished
		}
		for _, r := range b.disputesOf(m) {
			if r.Updated.After(updated) {
				updated = r.Updated
			}
		}
	}
	if m.PaymentID == nil && m.Status == string(payment.Succeeded) {
		b.addDisputes(d, m)
	}
	d.set("updatedAt", stampOf(&updated))
	return d
}

func (b *books) addDisputes(d document, m *movementRow) {
	if disputed := b.disputed(m); disputed != 0 {
		d.set("amountDisputedCents", disputed)
	}
	var shown []map[string]jsontext.Value
	for _, r := range b.disputesOf(m) {
		shown = append(shown, r.dispute().values())
	}
	if len(shown) > 0 {
		d.set("disputes", shown)
	}
}

// disputesOf are the disputes of a payment, the oldest first.
func (b *books) disputesOf(p *movementRow) (of []outsideRow) {
	for _, r := range b.outside {
		if r.Object == disputeObject && r.Payment == p.ID {
			of = append(of, r)
		}
	}
	slices.SortFunc(of, func(a, b outsideRow) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return bytes.Compare([]byte(a.PSPID), []byte(b.PSPID))
	})
	return of
}

// disputed is the sum of the disputes that hold money.
func (b *books) disputed(p *movementRow) (sum int64) {
	for _, r := range b.disputesOf(p) {
		if r.holds() {
			sum += b.takes(r)
		}
	}
	return sum
}

func (r outsideRow) dispute() document {
	d := document{}
	d.set("pspDisputeId", r.PSPID)
	d.set("status", r.Status)
	d.set("amountCents", r.Amount)
	d.set("currency", r.Currency)
	d.set("amount", decimal(r.Currency, r.Amount))
	d.set("reason", r.Why)
	d.set("evidenceDueBy", stampOf(r.DueBy))
	d.set("openedAt", stampOf(&r.Created))
	if slices.Contains([]string{"won", "closed", "lost"}, r.Status) {
		d.set("closedAt", stampOf(&r.Updated))
	}
	return d
}

// shownStatus is the field's word for a refund that came back: the customer does not have the money.
func shownStatus(stored string) string {
	if stored == string(payment.Reversed) {
		return string(payment.Failed)
	}
	return stored
}
