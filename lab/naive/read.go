package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	defaultLimit = 20
	maxLimit     = 100
)

// page is one page of payments, newest first.
type page struct {
	Data       []payment `json:"data"`
	HasMore    bool      `json:"hasMore"`
	NextCursor string    `json:"nextCursor,omitempty"`
}

func (s *service) getPayment(w http.ResponseWriter, r *http.Request, tenant string) {
	found, err := s.store.list(r.Context(), filter{tenant: tenant, id: r.PathValue("id"), limit: 1})
	switch {
	case err != nil:
		s.failed(w, "read payment", err, storeUnavailable())
	case len(found.Data) == 0:
		refuse(http.StatusNotFound, "not_found", "There is no such payment.").write(w)
	default:
		answer{http.StatusOK, jsonType, encode(found.Data[0])}.write(w)
	}
}

func (s *service) listPayments(w http.ResponseWriter, r *http.Request, tenant string) {
	f := filter{tenant: tenant, customerID: r.FormValue("customerId"), status: r.FormValue("status"),
		limit: defaultLimit}
	var wrongLimit, wrongCursor error
	if text := r.FormValue("limit"); text != "" {
		f.limit, wrongLimit = strconv.Atoi(text)
	}
	if text := r.FormValue("cursor"); text != "" {
		f.before, wrongCursor = strconv.ParseInt(text, 10, 64)
	}
	if errors.Join(wrongLimit, wrongCursor) != nil || f.limit < 1 || f.limit > maxLimit {
		refuse(http.StatusBadRequest, "invalid_request",
			"The limit must be from 1 to 100, and the cursor one of ours.").write(w)
		return
	}
	found, err := s.store.list(r.Context(), f)
	if err != nil {
		s.failed(w, "list payments", err, storeUnavailable())
		return
	}
	answer{http.StatusOK, jsonType, encode(found)}.write(w)
}

// filter chooses payments of a tenant. Empty members choose all.
type filter struct {
	tenant, id, customerID, status string
	before                         int64 // the cursor
	limit                          int
}

func (s *store) list(ctx context.Context, f filter) (page, error) {
	rows, err := s.pool.Query(ctx, `SELECT seq, id, status, customer_id, amount_cents, currency, payment_method, description, metadata,
			psp_charge_id, decline_code, created_at
		FROM naive.payments
		WHERE tenant = $1 AND ($2 = '' OR id = $2) AND ($3 = '' OR customer_id = $3) AND ($4 = '' OR status = $4) AND ($5 = 0 OR seq < $5)
		ORDER BY seq DESC LIMIT $6`, f.tenant, f.id, f.customerID, f.status, f.before, f.limit+1)
	if err != nil {
		return page{}, err
	}
	var last int64
	found := page{Data: []payment{}}
	var p payment
	var seq int64
	var createdAt time.Time
	_, err = pgx.ForEachRow(rows, []any{&seq, &p.ID, &p.Status, &p.CustomerID, &p.AmountCents, &p.Currency,
		&p.PaymentMethod, &p.Description,
		&p.Metadata, &p.PSPChargeID, &p.DeclineCode, &createdAt}, func() error {
		if len(found.Data) == f.limit {
			found.HasMore, found.NextCursor = true, strconv.FormatInt(last, 10)
			return nil
		}
		p.Amount, p.CreatedAt = decimal(p.AmountCents, p.Currency), createdAt.UTC().Format(timeLayout)
		found.Data, last = append(found.Data, p), seq
		p = payment{} // its metadata is a map, which the next row would fill
		return nil
	})
	return found, err
}
