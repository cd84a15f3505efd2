// Step 3: pass-through. The client's key goes to the PSP as its Idempotency-Key, the same on every attempt. If the
// first attempt has charged, the PSP answers the retry with the same charge.
//
// Still wrong: a process that is killed leaves its key in_progress, and nothing ends it. And the PSP may forget a key:
// then the retry charges again.
package main

import (
	"bytes"
	"context"
	"errors"
	"log"
	"net/http"

	"github.com/jackc/pgx/v5"
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
	reserved, err := s.store.reserve(ctx, p)
	if err != nil {
		return answer{}, err
	}
	if !reserved {
		r, err := s.store.find(ctx, p.tenant, p.key)
		return r.says(p), err
	}

	c, failure := s.psp.charge(ctx, p)
	ctx, cancel = context.WithTimeout(work, storeTimeout)
	defer cancel()
	if failure != nil {
		log.Printf("charge failed: %v", failure)
		a := problem(http.StatusBadGateway, "psp_failed", "The charge failed. Try the same key again.")
		return a, s.store.release(ctx, p)
	}
	a := finalAnswer(p, c)
	return a, s.store.complete(ctx, p, c, a)
}

// says is what a request for p is answered by a key in this state.
func (r row) says(p payment) answer {
	switch {
	case !bytes.Equal(r.fingerprint, p.fingerprint()):
		return problem(http.StatusUnprocessableEntity, "idempotency_key_reused_with_different_payload",
			"The key stands for another payment. For another payment, use a new key.")
	case r.status == completed:
		return r.answer
	default:
		return problem(http.StatusConflict, "idempotency_key_in_progress", "The first request is being executed.")
	}
}

// getKey shows a key. Reading changes nothing.
func (s *service) getKey(w http.ResponseWriter, r *http.Request, tenant string) {
	found, err := s.store.find(r.Context(), tenant, r.PathValue("key"))
	shown := map[string]any{"key": r.PathValue("key"), "status": found.status}
	if found.status == completed {
		shown["response"] = map[string]any{"status": found.answer.status, "body": string(found.answer.body)}
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		problem(http.StatusNotFound, "not_found", "There is no such key.").write(w)
	case err != nil:
		problem(http.StatusServiceUnavailable, "idempotency_store_unavailable", "Try again.").write(w)
	default:
		encode(http.StatusOK, shown).write(w)
	}
}
