package httpapi

import (
	"net/http"
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
		a.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return nil
	}
	request, bad := body.toDomain()
	if bad != nil {
		a.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return nil
	}
	if bad := invalidAt(a.payments.Acceptable(k.Merchant, request)); bad != nil {
		a.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return nil
	}
	return func(r *http.Request) (payments.Answer, error) { return a.payments.Create(r.Context(), k, request) }
}

// invalidAt is the error for what is wrong, or nil.
func invalidAt(all []payments.Invalid) *requestError {
	if len(all) == 0 {
		return nil
	}
	var bad []problem.Detail
	for _, i := range all {
		bad = append(bad, problem.AtPointer(i.Pointer, i.Detail))
	}
	return invalid(bad...)
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
		a.refuse(w, r, bad.code, bad.detail, bad.errors...)
		return
	}
	page, err := a.payments.PaymentsToTell(r.Context(), principalOf(r).Tenant, filter)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.show(w, r, pageOf(page.Payments, page.Next))
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
	return f, refusedQuery(q)
}

// refusedQuery is nil for a query without mistakes.
func refusedQuery(q *query.Query) *requestError {
	if len(q.Bad) == 0 {
		return nil
	}
	return invalid(q.Bad...)
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
