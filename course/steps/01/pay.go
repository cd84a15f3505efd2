// Step 1: a unique key. The server looks the key up. If the key is new, the server charges, and stores the payment
// together with the key and its answer. The primary key of the table refuses a second row.
//
// Still wrong: two requests at once both find nothing, so both charge. The table refuses the second row, but not the
// second charge.
package main

import (
	"context"
	"log"
	"net/http"
)

func (s *service) postPayment(w http.ResponseWriter, r *http.Request, tenant string) {
	p, err := readPayment(w, r, tenant)
	if err != nil {
		problem(http.StatusBadRequest, "invalid_request", err.Error()).write(w)
		return
	}
	a, err := s.pay(context.WithoutCancel(r.Context()), p) // a client that hangs up does not stop its payment
	if err != nil {
		log.Printf("database failed: %v", err)
		a = problem(http.StatusServiceUnavailable, "idempotency_store_unavailable", "Try the same key again.")
	}
	a.write(w)
}

// pay returns what the client is answered. An error is one of the database.
func (s *service) pay(work context.Context, p payment) (answer, error) {
	// The time for the PSP begins before the database is asked: a process that was paused does not charge later.
	ctx, cancel := context.WithTimeout(work, s.pspTimeout)
	defer cancel()
	if a, found, err := s.store.find(ctx, p.tenant, p.key); err != nil || found {
		return a, err
	}

	c, err := s.psp.charge(ctx, p)
	if err != nil {
		log.Printf("charge failed: %v", err)
		return problem(http.StatusBadGateway, "psp_failed", "The charge failed. Try the same key again."), nil
	}

	ctx, cancel = context.WithTimeout(work, storeTimeout)
	defer cancel()
	a := finalAnswer(p, c)
	inserted, err := s.store.insert(ctx, p, c, a)
	if err == nil && !inserted {
		a, _, err = s.store.find(ctx, p.tenant, p.key) // another request was faster
	}
	return a, err
}
