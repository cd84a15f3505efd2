package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Charge is a request to take money. AmountMinor counts the currency's minor unit.
type Charge struct {
	Account       string // the tenant's own account at the PSP
	Key           string // passed through as Idempotency-Key
	Reference     string // our payment id
	AmountMinor   int64
	Currency      string
	PaymentMethod string
}

// Refund is a request to give money back.
type Refund struct {
	Account     string
	Key         string
	Reference   string // our refund id
	ChargeID    string // the PSP's id of the charge
	AmountMinor int64
	Currency    string
	Reason      string
}

// The PSP's own statuses of a movement.
const (
	pspSucceeded = "succeeded"
	pspDeclined  = "declined"
)

// The forms of an id and a decline code that we take. Both are stored, indexed and shown: an id that PostgreSQL refuses would
// keep a verdict from being written.
var (
	idForm          = regexp.MustCompile(`^[!-~]{1,255}$`)
	declineCodeForm = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
)

// movement is what a charge and a refund have in common in the PSP's answers. Members that we do not know are none of our
// business: PSPs add some all the time.
type movement struct {
	ID             string `json:"id"`
	Account        string `json:"account"`
	IdempotencyKey string `json:"idempotencyKey"`
	Reference      string `json:"reference"`
	ChargeID       string `json:"chargeId"`
	AmountCents    int64  `json:"amountCents"`
	Currency       string `json:"currency"`
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode"`
}

// Charge sends ch once.
func (c *Client) Charge(ctx context.Context, ch Charge) Outcome {
	body := struct {
		AmountCents   int64  `json:"amountCents"`
		Currency      string `json:"currency"`
		PaymentMethod string `json:"paymentMethod"`
		Reference     string `json:"reference"`
	}{ch.AmountMinor, ch.Currency, ch.PaymentMethod, ch.Reference}
	want := movement{
		Account: ch.Account, IdempotencyKey: ch.Key, Reference: ch.Reference,
		AmountCents: ch.AmountMinor, Currency: ch.Currency,
	}
	return c.send(ctx, ch.Account, ch.Key, "/v1/charges", body, want.judge)
}

// Refund sends r once.
func (c *Client) Refund(ctx context.Context, r Refund) Outcome {
	body := struct {
		AmountCents int64  `json:"amountCents"`
		Currency    string `json:"currency"`
		Reference   string `json:"reference"`
		Reason      string `json:"reason,omitzero"`
	}{r.AmountMinor, r.Currency, r.Reference, r.Reason}
	want := movement{
		Account: r.Account, IdempotencyKey: r.Key, Reference: r.Reference, ChargeID: r.ChargeID,
		AmountCents: r.AmountMinor, Currency: r.Currency,
	}
	return c.send(ctx, r.Account, r.Key, "/v1/charges/"+url.PathEscape(r.ChargeID)+"/refunds", body, want.judge)
}

// judge reads an answer below 500 as a verdict on what was wanted, if it is one.
func (want movement) judge(a answer) Outcome {
	verdict := a.status == http.StatusCreated || a.status == http.StatusOK || a.status == http.StatusPaymentRequired
	if !verdict {
		return Indeterminate{
			Reason: fmt.Sprintf("PSP answered %d", a.status),
			// The PSP knows this key with another body: somebody sent something else under it.
			Contradiction: a.status == http.StatusUnprocessableEntity, Evidence: evidence(a),
		}
	}
	var got movement
	if err := json.Unmarshal(a.body, &got); err != nil || !idForm.MatchString(got.ID) || got.Status == "" {
		return Indeterminate{Reason: "answer malformed"}
	}
	if member := want.differs(got); member != "" {
		return Indeterminate{Reason: "answer has another " + member, Contradiction: true, Evidence: evidence(a)}
	}
	switch {
	case got.Status == pspSucceeded && a.status != http.StatusPaymentRequired:
		return Succeeded{ID: got.ID}
	case got.Status == pspDeclined && a.status == http.StatusPaymentRequired && declineCodeForm.MatchString(got.DeclineCode):
		return Declined{ID: got.ID, Code: got.DeclineCode}
	}
	return Indeterminate{Reason: "answer without a verdict"}
}

// differs names the first member in which an answer is about something else than what was asked.
func (want movement) differs(got movement) string {
	switch {
	case got.Account != want.Account:
		return "account"
	case got.IdempotencyKey != want.IdempotencyKey:
		return "key"
	case got.Reference != want.Reference:
		return "reference"
	case got.ChargeID != want.ChargeID:
		return "charge"
	case got.AmountCents != want.AmountCents:
		return "amount"
	case got.Currency != want.Currency:
		return "currency"
	}
	return ""
}

// evidence keeps an answer for an operator, if it is JSON.
func evidence(a answer) []byte {
	kept := struct {
		Status int            `json:"status"`
		Answer jsontext.Value `json:"answer,omitzero"`
	}{Status: a.status}
	if storable(a.body) {
		kept.Answer = a.body
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return raw
}

// maxNumber bounds a number that is kept, in characters. PostgreSQL's numeric takes 16 383 digits behind the point.
const maxNumber = 1000

// storable reports whether PostgreSQL's jsonb takes body: valid JSON, without U+0000 and without a number beyond the range of
// numeric.
func storable(body []byte) bool {
	if !jsontext.Value(body).IsValid() || bytes.Contains(body, []byte(`\u0000`)) {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return true // its end: it is valid
		}
		if token.Kind() == jsontext.KindNumber && (len(token.String()) > maxNumber || strings.ContainsAny(token.String(), "eE")) {
			return false
		}
	}
}
