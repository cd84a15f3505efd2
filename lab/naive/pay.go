package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
)

// service is the API. It holds nothing between two requests.
type service struct {
	store *store
	psp   *provider
	keys  map[string]string // tenant by API key
	log   *slog.Logger
}

// createPayment answers POST /payments: a key that is known gets its answer again, a new one is charged.
func (s *service) createPayment(w http.ResponseWriter, r *http.Request, tenant string) {
	// Fault 5: the client's context. A client that hangs up cancels the call to the PSP, which may have charged
	// by then, and the transaction that would remember it.
	ctx := r.Context()
	key := r.Header.Get("Idempotency-Key")
	o, wrong := readOrder(w, r)
	if wrong != nil {
		wrong.write(w)
		return
	}
	w.Header().Set("Idempotency-Key", key)

	// Fault 2: check, then act. Nothing holds the key between this look and the row that is written after the charge,
	// so two requests at once both find nothing, and both charge. The unique key stops the second row, not the second
	// charge.
	first, err := s.store.find(ctx, tenant, key)
	switch {
	case err == nil:
		// Fault 8: any request under a known key gets its answer. Nobody compares what was asked: another order is told
		// that it is paid.
		w.Header().Set("Idempotent-Replayed", "true")
		first.write(w)
		return
	case !errors.Is(err, pgx.ErrNoRows):
		s.failed(w, "look up key", err, storeUnavailable())
		return
	}

	paid, err := s.pay(ctx, tenant, key, o)
	if lost, ok := errors.AsType[*pspError](err); ok {
		// Fault 3: an outcome that nobody knows is called a failure, and nothing is kept of it. The client does as it
		// is told and sends the same key again, which is as good as new.
		s.failed(w, "charge", lost, pspFailed())
		return
	}
	if err != nil {
		s.failed(w, "save payment", err, notSaved())
		return
	}
	w.Header().Set("Idempotent-Replayed", "false")
	w.Header().Set("Location", "/payments/"+paid.ID)
	paid.answer().write(w)
}

// pay charges and remembers, all or nothing: when the charge fails, the transaction leaves no trace.
func (s *service) pay(ctx context.Context, tenant, key string, o order) (payment, error) {
	var paid payment
	err := s.store.inTransaction(ctx, func(tx pgx.Tx) error {
		result, err := s.psp.charge(ctx, tenant, key, o)
		if err != nil {
			return err
		}
		paid = newPayment(o, result, time.Now())
		// Fault 1: remembered after charging. A crash from here to the end of the commit leaves a charge that nobody
		// knows, and a key that is free. No transaction spans the PSP.
		if err := insertPaymentTx(ctx, tx, tenant, key, paid); err != nil {
			return fmt.Errorf("insert payment: %w", err)
		}
		if err := insertKeyTx(ctx, tx, tenant, key, paid.answer()); err != nil {
			return fmt.Errorf("insert key: %w", err)
		}
		return nil
	})
	return paid, err
}

// receiveWebhook answers POST /webhooks/psp.
func (s *service) receiveWebhook(w http.ResponseWriter, _ *http.Request) {
	// Fault 7: no reconciliation. The PSP reports every charge, also those whose answer was lost; here it is
	// thanked. Nobody asks it later either, nor compares its ledger with the payments table.
	w.WriteHeader(http.StatusNoContent)
}

// failed logs what the client isn't told.
func (s *service) failed(w http.ResponseWriter, doing string, err error, told problem) {
	s.log.Error("request failed", "doing", doing, "error", err)
	told.write(w)
}
