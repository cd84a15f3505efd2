package payment

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/problem"
)

// schemaVersion is the version of the form of the stored responses. Increment it when one of the bodies below changes.
const schemaVersion = 4

// Body is a payment as the API shows it. The order of the fields is the order of the JSON members.
type Body struct {
	PaymentID           string            `json:"paymentId"`
	Status              Status            `json:"status"`
	CustomerID          string            `json:"customerId"`
	AmountCents         AmountMinor       `json:"amountCents"`
	Currency            Currency          `json:"currency"`
	Amount              string            `json:"amount"`
	PaymentMethod       string            `json:"paymentMethod"`
	Reference           string            `json:"reference,omitempty"`
	Description         string            `json:"description,omitempty"`
	Metadata            map[string]string `json:"metadata,omitempty"`
	PSPChargeID         string            `json:"pspChargeId,omitempty"`
	DeclineCode         string            `json:"declineCode,omitempty"`
	AmountRefundedCents AmountMinor       `json:"amountRefundedCents"`
	AmountDisputedCents AmountMinor       `json:"amountDisputedCents,omitzero"`
	Disputes            []disputeBody     `json:"disputes,omitzero"`
	IdempotencyKey      string            `json:"idempotencyKey"`
	CreatedAt           idempotency.Time  `json:"createdAt"`
	UpdatedAt           idempotency.Time  `json:"updatedAt,omitzero"`
}

type disputeBody struct {
	PSPDisputeID  string                `json:"pspDisputeId"`
	Status        gateway.DisputeStatus `json:"status"`
	AmountCents   AmountMinor           `json:"amountCents"`
	Currency      Currency              `json:"currency"`
	Amount        string                `json:"amount"`
	Reason        string                `json:"reason,omitempty"`
	EvidenceDueBy idempotency.Time      `json:"evidenceDueBy,omitzero"`
	OpenedAt      idempotency.Time      `json:"openedAt"`
	ClosedAt      idempotency.Time      `json:"closedAt,omitzero"`
}

type refundBody struct {
	RefundID       string           `json:"refundId"`
	PaymentID      string           `json:"paymentId"`
	Status         Status           `json:"status"`
	AmountCents    AmountMinor      `json:"amountCents"`
	Currency       Currency         `json:"currency"`
	Amount         string           `json:"amount"`
	Origin         Origin           `json:"origin"`
	Reason         string           `json:"reason,omitempty"`
	PSPRefundID    string           `json:"pspRefundId,omitempty"`
	DeclineCode    string           `json:"declineCode,omitempty"`
	IdempotencyKey string           `json:"idempotencyKey,omitempty"`
	CreatedAt      idempotency.Time `json:"createdAt"`
	UpdatedAt      idempotency.Time `json:"updatedAt,omitzero"`
}

// MarshalJSON writes the payment as the API shows it. While it is processing, its status comes first: most clients of
// HTTP take each 2xx for a success, and only the body can say that this one is none.
func (p Payment) MarshalJSON() ([]byte, error) {
	body := p.Body()
	if p.Status == Processing {
		return json.Marshal(&struct {
			Status Status `json:"status"`
			*Body
		}{p.Status, &body}, json.Deterministic(true))
	}
	return json.Marshal(&body, json.Deterministic(true)) // json copies what is no pointer.
}

// Body is the payment as the API shows it.
func (p Payment) Body() Body {
	body := Body{
		PaymentID: p.ID.String(), Status: p.Status, CustomerID: p.CustomerID, AmountCents: p.Amount,
		Currency: p.Currency, Amount: p.Currency.Decimal(p.Amount), PaymentMethod: p.PaymentMethod,
		Reference: p.Reference, Description: p.Description, Metadata: p.Metadata, PSPChargeID: p.PSPChargeID,
		DeclineCode: p.DeclineCode, IdempotencyKey: p.Key,
		CreatedAt: idempotency.Time(p.Created), UpdatedAt: idempotency.Time(p.Updated),
	}
	if p.Status != Succeeded {
		return body // What others have moved of it is told when it is known what it was.
	}
	body.AmountRefundedCents, body.AmountDisputedCents = p.Refunded, p.Disputed()
	for _, d := range p.Disputes {
		body.Disputes = append(body.Disputes, d.body())
	}
	return body
}

func (d Dispute) body() disputeBody {
	body := disputeBody{
		PSPDisputeID: d.PSPID, Status: d.Status, AmountCents: d.Amount, Currency: d.Currency,
		Amount: d.Currency.Decimal(d.Amount), Reason: d.Reason, EvidenceDueBy: idempotency.Time(d.EvidenceDueBy),
		OpenedAt: idempotency.Time(d.Opened),
	}
	if d.Status.Final() {
		body.ClosedAt = idempotency.Time(d.Updated)
	}
	return body
}

// MarshalJSON writes the dispute as the API shows it.
func (d Dispute) MarshalJSON() ([]byte, error) {
	body := d.body()
	return json.Marshal(&body)
}

// MarshalJSON writes the refund as the API shows it. While it is processing, its status comes first.
func (r Refund) MarshalJSON() ([]byte, error) {
	body := refundBody{
		RefundID: r.ID.String(), PaymentID: r.PaymentID.String(), Status: r.Status.Shown(), AmountCents: r.Amount,
		Currency: r.Currency, Amount: r.Currency.Decimal(r.Amount), Origin: r.Origin, Reason: r.Reason,
		PSPRefundID: r.PSPRefundID, DeclineCode: r.DeclineCode, IdempotencyKey: r.Key,
		CreatedAt: idempotency.Time(r.Created), UpdatedAt: idempotency.Time(r.Updated),
	}
	if body.Status == Processing {
		return json.Marshal(&struct {
			Status Status `json:"status"`
			*refundBody
		}{body.Status, &body})
	}
	return json.Marshal(&body)
}

// Location is the path of the payment, without the path of PUBLIC_URL.
func (p Payment) Location() string { return "/payments/" + p.ID.String() }

// Location is the path of the refund, without the path of PUBLIC_URL.
func (r Refund) Location() string { return "/refunds/" + r.ID.String() }

// Response is the response that tells a verdict about the payment. publicURL is the base of its URLs and paths.
func (p Payment) Response(v Verdict, publicURL string) (idempotency.Response, error) {
	p.Status, p.PSPChargeID, p.DeclineCode = v.Status, v.PSPID, v.Code
	// All who complete the key store the same bytes.
	p.Refunded, p.Disputes, p.Updated = 0, nil, time.Time{}
	location := problem.Path(publicURL, p.Location())
	if v.Status == Declined {
		d := problem.New(publicURL, problem.PaymentDeclined, "The PSP declined the payment: "+v.Code+".", location)
		d.PaymentID, d.DeclineCode = p.ID.String(), v.Code
		return refused(d), nil
	}
	return created(p, location)
}

// Response is the response that tells a verdict about the refund.
func (r Refund) Response(v Verdict, publicURL string) (idempotency.Response, error) {
	r.Status, r.PSPRefundID, r.DeclineCode = v.Status, v.PSPID, v.Code
	r.Updated = time.Time{}
	location := problem.Path(publicURL, r.Location())
	if v.Status == Declined {
		detail := "The PSP declined the refund: " + v.Code + "."
		if v.Code == gateway.AlreadyMoved {
			detail += " Money of this payment has been returned, is being returned, or is held already, at the PSP. " +
				"Do not return it in another way. The payment shows it as soon as the PSP has told us by what."
		}
		d := problem.New(publicURL, problem.RefundDeclined, detail, location)
		d.PaymentID, d.RefundID, d.DeclineCode = r.PaymentID.String(), r.ID.String(), v.Code
		return refused(d), nil
	}
	return created(r, location)
}

// created is the response that is stored for a success: 201 with the resource.
func created(r Resource, location string) (idempotency.Response, error) {
	body, err := r.MarshalJSON() // json.Marshal would parse the text once more.
	if err != nil {
		return idempotency.Response{}, err
	}
	return idempotency.Response{
		Status: http.StatusCreated, ContentType: "application/json", Location: location,
		SchemaVersion: schemaVersion, Body: append(body, '\n'),
	}, nil
}

// refused is the response that is stored for a decline by the PSP: 402 with a problem document about the resource.
func refused(d problem.Document) idempotency.Response {
	return idempotency.Response{
		Status: http.StatusPaymentRequired, ContentType: problem.ContentType, Location: d.Instance,
		SchemaVersion: schemaVersion, Body: d.JSON(),
	}
}
