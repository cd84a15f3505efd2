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
	ID         string                  `json:"id"`
	Kind       deadletters.Kind        `json:"kind"`
	Status     deadletters.Status      `json:"status"`
	Reason     string                  `json:"reason"`
	PaymentID  string                  `json:"paymentId,omitempty"`
	RefundID   string                  `json:"refundId,omitempty"`
	Tenant     string                  `json:"tenant,omitempty"`
	Operation  string                  `json:"operation,omitempty"`
	Key        string                  `json:"key,omitempty"`
	Generation int32                   `json:"generation,omitzero"`
	KeyStatus  idempotency.Status      `json:"keyStatus,omitempty"`
	Evidence   jsontext.Value          `json:"evidence"`
	OpenedAt   idempotency.Time        `json:"openedAt"`
	AgeSeconds int64                   `json:"ageSeconds"`
	Version    int32                   `json:"version"`
	Resolution *deadletters.Resolution `json:"resolution,omitzero"`
}

// caseBody is a dead letter with all that belongs to it.
type caseBody struct {
	deadLetterBody
	PaymentStatus payment.Status           `json:"paymentStatus,omitempty"`
	RefundStatus  payment.Status           `json:"refundStatus,omitempty"`
	Timeline      []idempotency.Event      `json:"timeline"`
	Audit         []deadletters.AuditEntry `json:"audit"`
}

// MarshalJSON writes the dead letter as the operator's API shows it.
func (e Entry) MarshalJSON() ([]byte, error) { return json.Marshal(e.body(), asTimes()) }

// asTimes shows the times of package deadletters as the others.
func asTimes() json.Options {
	return json.WithMarshalers(json.MarshalFunc(func(t time.Time) ([]byte, error) {
		return json.Marshal(idempotency.Time(t))
	}))
}

func (e Entry) body() deadLetterBody {
	l := e.DeadLetter
	b := deadLetterBody{
		ID: l.ID.String(), Kind: l.Kind, Status: l.Status(), Reason: l.Reason, Evidence: l.Evidence,
		KeyStatus: e.Key, OpenedAt: idempotency.Time(l.Opened), AgeSeconds: int64(l.Age / time.Second),
		Version: l.Version, Resolution: l.Resolution,
	}
	if a := l.About; a != nil {
		b.Tenant, b.Operation, b.Key, b.Generation = a.Tenant, a.Operation, a.Key, a.Generation
	}
	if m := e.PaymentOrRefund; m != nil && m.Object == FoundRefund {
		b.RefundID = m.ID
	} else if m != nil {
		b.PaymentID = m.ID
	}
	return b
}

// MarshalJSON writes the case as the operator's API shows it.
func (c Case) MarshalJSON() ([]byte, error) {
	b := caseBody{deadLetterBody: c.body(), Timeline: c.Timeline, Audit: c.AuditTrail}
	if m := c.PaymentOrRefund; m != nil && m.Object == FoundRefund {
		b.RefundStatus = m.Status
	} else if m != nil {
		b.PaymentStatus = m.Status
	}
	return json.Marshal(b, asTimes())
}
