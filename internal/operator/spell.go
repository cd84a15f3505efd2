package operator

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
)

// deadLetterBody is a dead letter as the operator's API shows it. The order of the fields is the order of the JSON
// members.
type deadLetterBody struct {
	ID         string             `json:"id"`
	Kind       deadletters.Kind   `json:"kind"`
	Status     deadletters.Status `json:"status"`
	Reason     string             `json:"reason"`
	PaymentID  string             `json:"paymentId,omitempty"`
	RefundID   string             `json:"refundId,omitempty"`
	Tenant     string             `json:"tenant,omitempty"`
	Operation  string             `json:"operation,omitempty"`
	Key        string             `json:"key,omitempty"`
	Generation int32              `json:"generation,omitzero"`
	KeyStatus  idempotency.Status `json:"keyStatus,omitempty"`
	Evidence   jsontext.Value     `json:"evidence"`
	OpenedAt   idempotency.Time   `json:"openedAt"`
	AgeSeconds int64              `json:"ageSeconds"`
	Version    int32              `json:"version"`
	Resolution *resolutionBody    `json:"resolution,omitzero"`
}

type resolutionBody struct {
	At     idempotency.Time   `json:"at"`
	Action deadletters.Action `json:"action"`
	Actor  string             `json:"actor"`
	Reason string             `json:"reason"`
}

// caseBody is a dead letter with all that belongs to it.
type caseBody struct {
	deadLetterBody
	PaymentStatus payment.Status      `json:"paymentStatus,omitempty"`
	RefundStatus  payment.Status      `json:"refundStatus,omitempty"`
	Timeline      []idempotency.Event `json:"timeline"`
	Audit         []auditBody         `json:"audit"`
}

type auditBody struct {
	At      idempotency.Time   `json:"at"`
	Actor   string             `json:"actor"`
	Action  deadletters.Action `json:"action"`
	Reason  string             `json:"reason"`
	Version int32              `json:"version"`
	Outcome string             `json:"outcome"`
	Detail  string             `json:"detail,omitempty"`
}

// MarshalJSON writes the dead letter as the operator's API shows it.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(e.body()) }

func (e Entry) body() deadLetterBody {
	l := e.DeadLetter
	b := deadLetterBody{
		ID: l.ID.String(), Kind: l.Kind, Status: l.Status(), Reason: l.Reason, Evidence: l.Evidence,
		KeyStatus: e.Key, OpenedAt: idempotency.Time(l.Opened), AgeSeconds: int64(l.Age / time.Second),
		Version: l.Version,
	}
	if a := l.About; a != nil {
		b.Tenant, b.Operation, b.Key, b.Generation = a.Tenant, a.Operation, a.Key, a.Generation
	}
	if m := e.PaymentOrRefund; m != nil && m.Object == FoundRefund {
		b.RefundID = m.ID
	} else if m != nil {
		b.PaymentID = m.ID
	}
	if r := l.Resolution; r != nil {
		b.Resolution = &resolutionBody{At: idempotency.Time(r.At), Action: r.Action, Actor: r.Actor, Reason: r.Reason}
	}
	return b
}

// MarshalJSON writes the case as the operator's API shows it.
func (c Case) MarshalJSON() ([]byte, error) {
	b := caseBody{
		deadLetterBody: c.body(),
		Timeline:       c.Timeline, Audit: make([]auditBody, len(c.AuditTrail)),
	}
	if m := c.PaymentOrRefund; m != nil && m.Object == FoundRefund {
		b.RefundStatus = m.Status
	} else if m != nil {
		b.PaymentStatus = m.Status
	}
	for i, d := range c.AuditTrail {
		b.Audit[i] = auditBody{
			At: idempotency.Time(d.At), Actor: d.Actor, Action: d.Action, Reason: d.Reason, Version: d.Version,
			Outcome: outcomeOf(d), Detail: d.Detail,
		}
	}
	return json.Marshal(b)
}

func outcomeOf(d deadletters.AuditEntry) string {
	if d.Done {
		return "done"
	}
	return "refused"
}
