package httpapi

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"

	"payonce/internal/payments"
	"payonce/internal/problem"
	"payonce/internal/query"
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
		a.reject(w, r, bad)
		return nil
	}
	request, bad := body.toDomain()
	if bad != nil {
		a.reject(w, r, bad)
		return nil
	}
	if bad := wrong(a.payments.Acceptable(k.Merchant, request)); bad != nil {
		a.reject(w, r, bad)
		return nil
	}
	return func(r *http.Request) (payments.Answer, error) { return a.payments.Create(r.Context(), k, request) }
}

// toDomain lists everything that is wrong. It finds missing members, and package payments finds values that are not
// allowed.
func (p paymentRequest) toDomain() (payments.CreateRequest, *requestError) {
	bad := slices.Concat(required(p.CustomerID == nil, "/customerId"), required(p.AmountCents == nil, "/amountCents"),
		required(p.Currency == nil, "/currency"))
	request := payments.CreateRequest{
		CustomerID: deref(p.CustomerID), AmountCents: payments.AmountMinor(deref(p.AmountCents)),
		Currency: payments.Currency(deref(p.Currency)), PaymentMethod: deref(p.PaymentMethod),
		Description: deref(p.Description),
		Metadata:    p.Metadata,
	}
	if p.PaymentMethod != nil && *p.PaymentMethod == "" {
		bad = append(bad, problem.AtPointer("/paymentMethod", "must not be empty; leave it out for the default"))
	}
	return request, wrong(unlessMissing(bad, request.Validate()))
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
	p, err := a.payments.PaymentToTell(r.Context(), principalOf(r).Tenant, id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.show(w, r, p)
}

func (a *API) listPayments(w http.ResponseWriter, r *http.Request) {
	filter, bad := filterOf(r.URL.RawQuery)
	if bad != nil {
		a.reject(w, r, bad)
		return
	}
	page, err := a.payments.PaymentsToTell(r.Context(), principalOf(r).Tenant, filter)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.show(w, r, query.ListOf(page.Payments, page.Next))
}

// filterOf reads the query of a list.
func filterOf(rawQuery string) (payments.Filter, *requestError) {
	q := query.Parse(rawQuery, "customerId", "status", "createdAfter", "createdBefore", "limit", "cursor")
	f := payments.Filter{
		CustomerID:   q.Values.Get("customerId"),
		Status:       query.OneOf(q, "status", payments.Statuses()...),
		CreatedAfter: q.Instant("createdAfter"), CreatedBefore: q.Instant("createdBefore"),
		Limit: q.Limit(), Before: query.CursorOf(q, payments.ParsePaymentID),
	}
	if q.Values.Has("customerId") && !payments.IsCustomerID(f.CustomerID) {
		q.Refuse("customerId", "must be 1 to 64 letters, digits or . _ : -")
	}
	q.Order("createdAfter", "createdBefore", f.CreatedAfter, f.CreatedBefore)
	return f, wrong(q.Bad)
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
