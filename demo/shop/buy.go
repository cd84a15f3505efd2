package shop

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"payonce/client"
)

// price is what an order costs, in cents.
const price = 4900

// postBuy places an order, and pays for it in the background. The page shows what becomes of it.
func (s *Shop) postBuy(w http.ResponseWriter, r *http.Request) {
	select {
	case s.buying <- struct{}{}:
	default:
		http.Error(w, "too many payments are under way", http.StatusServiceUnavailable)
		return
	}
	method := ""
	if r.PostFormValue("lose") != "" {
		method = s.config.Lost
	}
	id := "order-" + strings.ToLower(rand.Text()[:8])
	// The order is stored before anything is sent, so an event always finds it.
	if _, err := s.config.DB.ExecContext(r.Context(), "INSERT INTO orders (id, amount_cents, payment_method) "+
		"VALUES ($1, $2, $3)", id, price, method); err != nil {
		<-s.buying
		s.broken(w, r, err)
		return
	}
	s.active.Go(func() {
		defer func() { <-s.buying }()
		s.answered(s.client.Pay(s.ctx, client.Intent{ID: id, Reference: id, CustomerID: "cus-shop", AmountCents: price,
			Currency: "USD", PaymentMethod: method}))
	})
	http.Redirect(w, r, "/shop", http.StatusSeeOther)
}

// What the answer to a payment has said.
const (
	saidPaid     = "paid"
	saidDeclined = "declined"
	saidNothing  = "lost" // it has not come in time
	saidRefused  = "refused"
)

// answered notes what the answer to a payment has said. An order that is not known is nobody's.
func (s *Shop) answered(result client.Result, err error) {
	said := saidDeclined
	var unknown *client.UnknownError
	switch {
	case s.ctx.Err() != nil:
		return // The next start of the shop goes on with it.
	case errors.As(err, &unknown):
		said = saidNothing
	case err != nil:
		said = saidRefused
		s.config.Log.WarnContext(s.ctx, "the shop cannot pay", slog.Any("error", err))
	case result.Paid:
		said = saidPaid
	}
	ctx, cancel := context.WithTimeout(s.ctx, requestLimit)
	defer cancel()
	if _, err := s.config.DB.ExecContext(ctx, "UPDATE orders SET answer = $2 WHERE id = $1", result.Intent,
		said); err != nil {
		s.config.Log.WarnContext(ctx, "the shop has not noted an answer", slog.Any("error", err))
	}
}
