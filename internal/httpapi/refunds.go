package httpapi

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/query"
)

// refundRequest is the body of POST /payments/{id}/refunds.
type refundRequest struct {
	AmountCents *int64  `json:"amountCents"`
	Reason      *string `json:"reason"`
}

func (a *API) createRefund(w http.ResponseWriter, r *http.Request, k payments.Keyed) (ask, error) {
	var body refundRequest
	if bad := readBody(w, r, &body); bad != nil {
		return nil, bad
	}
	request := payment.RefundRequest{AmountCents: payment.AmountMinor(deref(body.AmountCents)),
		Reason: deref(body.Reason)}
	if body.AmountCents != nil && request.AmountCents == 0 {
		return nil, wrong(append(payment.CheckAmount(0), request.Validate()...))
	}
	id, err := payment.ParseID(chi.URLParam(r, "paymentId"))
	if err != nil {
		return nil, payments.ErrPaymentNotFound
	}
	return func(r *http.Request) (payments.Answer, error) {
		return a.config.Payments.Refund(r.Context(), k, id, request)
	}, nil
}

func (a *API) listRefunds(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := query.Parse(r.URL.RawQuery)
	filter := payments.RefundFilter{Limit: q.Limit(), Before: query.CursorOf(q, payment.ParseRefundID)}
	if bad := wrong(q.Bad()); bad != nil {
		return nil, bad
	}
	id, err := payment.ParseID(chi.URLParam(r, "paymentId"))
	if err != nil {
		return nil, payments.ErrPaymentNotFound
	}
	page, err := a.config.Payments.RefundsToTell(r.Context(), principalOf(r).Tenant, id, filter)
	return query.ListOf(page.Refunds, page.Next), err
}

func (a *API) getRefund(w http.ResponseWriter, r *http.Request) (any, error) {
	id, err := payment.ParseRefundID(chi.URLParam(r, "refundId"))
	if err != nil {
		return nil, payments.ErrRefundNotFound
	}
	err = awaited(w, r, func(limit time.Duration) (bool, error) {
		return a.config.Payments.AwaitRefund(r.Context(), principalOf(r).Tenant, id, limit)
	})
	if err != nil {
		return nil, err
	}
	return a.config.Payments.RefundToTell(r.Context(), principalOf(r).Tenant, id)
}
