package httpapi

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"payonce/internal/payment"
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
	Reference     *string           `json:"reference"`
	Metadata      map[string]string `json:"metadata"`
}

func (a *API) createPayment(w http.ResponseWriter, r *http.Request, k payments.Keyed) (ask, error) {
	var body paymentRequest
	if bad := readBody(w, r, &body); bad != nil {
		return nil, bad
	}
	request, bad := body.toDomain()
	if bad != nil {
		return nil, bad
	}
	return func(r *http.Request) (payments.Answer, error) {
		return a.config.Payments.Create(r.Context(), k, request)
	}, nil
}

// toDomain finds missing members. Only then, it also lists the values that are not allowed. Otherwise they are for
// Create to refuse, because the key may stand for the request already.
func (p paymentRequest) toDomain() (payment.CreateRequest, *requestError) {
	bad := slices.Concat(required(p.CustomerID == nil, "/customerId"), required(p.AmountCents == nil, "/amountCents"),
		required(p.Currency == nil, "/currency"))
	request := payment.CreateRequest{
		CustomerID: deref(p.CustomerID), AmountCents: payment.AmountMinor(deref(p.AmountCents)),
		Currency: payment.Currency(deref(p.Currency)), PaymentMethod: deref(p.PaymentMethod),
		Description: deref(p.Description), Reference: deref(p.Reference),
		Metadata: p.Metadata,
	}
	if p.PaymentMethod != nil && *p.PaymentMethod == "" {
		bad = append(bad, problem.AtPointer("/paymentMethod", "must not be empty; leave it out for the default"))
	}
	if p.Reference != nil && *p.Reference == "" {
		bad = append(bad, problem.AtPointer("/reference", "must not be empty; leave it out"))
	}
	if bad == nil {
		return request, nil
	}
	return request, wrong(unlessMissing(bad, request.Validate()))
}

func (a *API) getPayment(w http.ResponseWriter, r *http.Request) (any, error) {
	id, err := payment.ParseID(chi.URLParam(r, "paymentId"))
	if err != nil {
		return nil, payments.ErrPaymentNotFound
	}
	err = awaited(w, r, func(limit time.Duration) (bool, error) {
		return a.config.Payments.AwaitPayment(r.Context(), principalOf(r).Tenant, id, limit)
	})
	if err != nil {
		return nil, err
	}
	return a.config.Payments.PaymentToTell(r.Context(), principalOf(r).Tenant, id)
}

func (a *API) listPayments(_ http.ResponseWriter, r *http.Request) (any, error) {
	filter, bad := filterOf(r.URL.RawQuery)
	if bad != nil {
		return nil, bad
	}
	page, err := a.config.Payments.PaymentsToTell(r.Context(), principalOf(r).Tenant, filter)
	return query.ListOf(page.Payments, page.Next), err
}

// filterOf reads the query of a list.
func filterOf(rawQuery string) (payments.Filter, *requestError) {
	q := query.Parse(rawQuery)
	customer, given := q.Get("customerId")
	if given && !payment.IsCustomerID(customer) {
		q.Refuse("customerId", "must be 1 to 64 letters, digits or . _ : -")
	}
	reference, given := q.Get("reference")
	if given && !payment.IsReference(reference) {
		q.Refuse("reference", "must be 1 to 100 characters, and no control characters")
	}
	f := payments.Filter{CustomerID: customer, Reference: reference,
		Status: query.OneOf(q, "status", payment.Statuses()...)}
	f.CreatedAfter, f.CreatedBefore = q.Between("createdAfter", "createdBefore")
	f.Limit, f.Before = q.Limit(), query.CursorOf(q, payment.ParseID)
	return f, wrong(q.Bad())
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
