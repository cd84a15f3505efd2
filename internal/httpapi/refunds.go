package httpapi

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"payonce/internal/payments"
	"payonce/internal/query"
)

// refundRequest is the body of POST /payments/{id}/refunds.
type refundRequest struct {
	AmountCents *int64  `json:"amountCents"`
	Reason      *string `json:"reason"`
}

func (a *API) createRefund(w http.ResponseWriter, r *http.Request, k payments.Keyed) ask {
	var body refundRequest
	if bad := readBody(w, r, &body); bad != nil {
		a.reject(w, r, bad)
		return nil
	}
	request := payments.RefundRequest{AmountCents: payments.AmountMinor(deref(body.AmountCents)),
		Reason: deref(body.Reason)}
	if bad := wrong(request.Validate(body.AmountCents != nil)); bad != nil {
		a.reject(w, r, bad)
		return nil
	}
	id, err := payments.ParsePaymentID(chi.URLParam(r, "paymentId"))
	if err != nil {
		a.fail(w, r, payments.ErrPaymentNotFound)
		return nil
	}
	return func(r *http.Request) (payments.Answer, error) { return a.payments.Refund(r.Context(), k, id, request) }
}

func (a *API) listRefunds(w http.ResponseWriter, r *http.Request) {
	filter, bad := refundFilterOf(r.URL.RawQuery)
	if bad != nil {
		a.reject(w, r, bad)
		return
	}
	id, err := payments.ParsePaymentID(chi.URLParam(r, "paymentId"))
	if err != nil {
		a.fail(w, r, payments.ErrPaymentNotFound)
		return
	}
	page, err := a.payments.RefundsToTell(r.Context(), principalOf(r).Tenant, id, filter)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.show(w, r, query.ListOf(page.Refunds, page.Next))
}

// refundFilterOf reads the query of a list of refunds.
func refundFilterOf(rawQuery string) (payments.RefundFilter, *requestError) {
	q := query.Parse(rawQuery, "limit", "cursor")
	f := payments.RefundFilter{Limit: q.Limit(), Before: query.CursorOf(q, payments.ParseRefundID)}
	return f, wrong(q.Bad)
}

func (a *API) getRefund(w http.ResponseWriter, r *http.Request) {
	id, err := payments.ParseRefundID(chi.URLParam(r, "refundId"))
	if err != nil {
		a.fail(w, r, payments.ErrRefundNotFound)
		return
	}
	if !a.awaited(w, r, func(limit time.Duration) (bool, error) {
		return a.payments.AwaitRefund(r.Context(), principalOf(r).Tenant, id, limit)
	}) {
		return
	}
	refund, err := a.payments.RefundToTell(r.Context(), principalOf(r).Tenant, id)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.show(w, r, refund)
}
