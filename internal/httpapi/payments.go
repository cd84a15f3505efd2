package httpapi

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"

	"payonce/internal/payments"
	"payonce/internal/problem"
)

const jsonType = "application/json"

// paymentRequest is the body of POST /payments. The fields are pointers, because a missing member differs from a zero.
type paymentRequest struct {
	CustomerID    *string           `json:"customerId"`
	AmountCents   *int64            `json:"amountCents"`
	Currency      *string           `json:"currency"`
	PaymentMethod *string           `json:"paymentMethod"`
	Description   *string           `json:"description"`
	Metadata      map[string]string `json:"metadata"`
}

func (a *API) createPayment(w http.ResponseWriter, r *http.Request, k payments.Keyed) ask {
	var body paymentRequest
	if bad := readBody(w, r, &body); bad != nil {
		a.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return nil
	}
	request, bad := body.toDomain()
	if bad != nil {
		a.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return nil
	}
	return func(r *http.Request) (payments.Answer, error) { return a.payments.Create(r.Context(), k, request) }
}

// toDomain lists everything that is wrong. It finds missing members, and package payments finds values that are not
// allowed.
func (p paymentRequest) toDomain() (payments.CreateRequest, *requestError) {
	var bad []problem.Detail
	require := func(missing bool, pointer string) {
		if missing {
			bad = append(bad, problem.AtPointer(pointer, "is required"))
		}
	}
	require(p.CustomerID == nil, "/customerId")
	require(p.AmountCents == nil, "/amountCents")
	require(p.Currency == nil, "/currency")
	request := payments.CreateRequest{
		CustomerID: deref(p.CustomerID), AmountCents: payments.AmountMinor(deref(p.AmountCents)),
		Currency: payments.Currency(deref(p.Currency)), PaymentMethod: deref(p.PaymentMethod),
		Description: deref(p.Description),
		Metadata:    p.Metadata,
	}
	if p.PaymentMethod != nil && *p.PaymentMethod == "" {
		bad = append(bad, problem.AtPointer("/paymentMethod", "must not be empty; leave it out for the default"))
	}
	missing := map[string]bool{}
	for _, d := range bad {
		missing[*d.Pointer] = true
	}
	for _, i := range request.Validate() {
		if !missing[i.Pointer] {
			bad = append(bad, problem.AtPointer(i.Pointer, i.Detail))
		}
	}
	if len(bad) > 0 {
		return payments.CreateRequest{}, invalid(bad...)
	}
	return request, nil
}

func (a *API) getPayment(w http.ResponseWriter, r *http.Request) {
	id, err := payments.ParsePaymentID(chi.URLParam(r, "paymentId"))
	if err != nil {
		a.fail(w, r, payments.ErrPaymentNotFound)
		return
	}
	if !a.awaited(w, r, func(limit time.Duration) (bool, error) {
		return a.payments.AwaitPayment(r.Context(), principalOf(r).Tenant, id, limit)
	}) {
		return
	}
	a.showPayment(w, r, id)
}

func (a *API) showPayment(w http.ResponseWriter, r *http.Request, id payments.PaymentID) {
	p, err := a.payments.Payment(r.Context(), principalOf(r).Tenant, id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.show(w, r, p)
}

func (a *API) listPayments(w http.ResponseWriter, r *http.Request) {
	filter, bad := filterOf(r.URL.RawQuery)
	if bad != nil {
		a.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return
	}
	page, err := a.payments.Payments(r.Context(), principalOf(r).Tenant, filter)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.show(w, r, pageOf(page.Payments, page.Next))
}

// filterOf reads the query of a list. It refuses a parameter that is unknown or repeated. Otherwise the list could
// silently differ from what the client asked for.
func filterOf(rawQuery string) (payments.Filter, *requestError) {
	f := payments.Filter{Limit: payments.DefaultPage}
	query, bad := queryOf(rawQuery, "customerId", "status", "createdAfter", "createdBefore", "limit", "cursor")
	for name, values := range query {
		refuse := func(detail string) { bad = append(bad, problem.Detail{Parameter: name, Detail: detail}) }
		v := values[0]
		switch name {
		case "customerId":
			if f.CustomerID = v; !payments.IsCustomerID(v) {
				refuse("must be 1 to 64 letters, digits or . _ : -")
			}
		case "status":
			switch f.Status = payments.Status(v); f.Status {
			case payments.Processing, payments.Succeeded, payments.Declined, payments.Failed:
			default:
				refuse("must be processing, succeeded, declined or failed")
			}
		case "createdAfter", "createdBefore":
			at, err := time.Parse(time.RFC3339, v)
			if err != nil {
				refuse("must be a date and time as in RFC 3339, such as 2026-11-20T09:30:00Z")
			}
			if name == "createdAfter" {
				f.CreatedAfter = &at
			} else {
				f.CreatedBefore = &at
			}
		case "limit":
			f.Limit = limitOf(v, payments.MaxPage, refuse)
		case "cursor":
			id, err := payments.ParsePaymentID(v)
			if f.Before = &id; err != nil {
				refuse(cursorRefusal)
			}
		}
	}
	if bad == nil && f.CreatedAfter != nil && f.CreatedBefore != nil && !f.CreatedAfter.Before(*f.CreatedBefore) {
		bad = append(bad, problem.Detail{Parameter: "createdBefore", Detail: "must be later than createdAfter"})
	}
	if bad != nil {
		return f, invalid(bad...)
	}
	return f, nil
}

// show answers 200.
func (a *API) show(w http.ResponseWriter, r *http.Request, v any) {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	write(w, http.StatusOK, jsonType, append(body, '\n'))
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
