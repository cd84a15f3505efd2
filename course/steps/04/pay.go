// Step 4: unknown. What is not a well-formed answer of the PSP is neither success nor failure: the key becomes unknown,
// and the client is told to ask again. A request that finds an unknown key looks the charge up at the PSP before it
// does anything else. The right to execute is a lease: when the lease is over, the key is unknown as well. Only a PSP
// that cannot be reached at all gives the key back.
//
// Still wrong: a process that was paused beyond its lease continues, and overwrites what another one has stored in
// between. A completed key becomes unknown again.
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
	reserved, err := s.store.reserve(ctx, p, s.lease)
	if err != nil {
		return answer{}, err
	}
	if !reserved {
		r, err := s.store.find(ctx, p.tenant, p.key)
		open := r.status == unknown || r.status == failedRetryable
		if err != nil || !open || !bytes.Equal(r.fingerprint, p.fingerprint()) {
			return r.says(p), err
		}
		p.ID = r.ID
		if r.status == unknown {
			c, found, err := s.psp.lookup(ctx, p)
			if err != nil {
				return r.says(p), nil
			}
			if found {
				return s.apply(work, p, c, nil)
			}
		}
		taken, err := s.store.retake(ctx, p, s.lease)
		if err != nil || !taken {
			return s.known(ctx, p, err)
		}
	}
	c, failure := s.psp.charge(ctx, p)
	return s.apply(work, p, c, failure)
}

// apply stores what has become of a charge. The client is answered what the row then says.
func (s *service) apply(work context.Context, p payment, c charge, failure error) (answer, error) {
	ctx, cancel := context.WithTimeout(work, storeTimeout)
	defer cancel()
	var err error
	switch {
	case failure == nil:
		_, err = s.store.apply(ctx, p, completed, c, finalAnswer(p, c))
	case errors.Is(failure, errNotExecuted):
		_, err = s.store.apply(ctx, p, failedRetryable, charge{}, answer{})
	default:
		log.Printf("the outcome of %s is unknown: %v", p.ID, failure)
		_, err = s.store.apply(ctx, p, unknown, charge{}, answer{})
	}
	a, err := s.known(ctx, p, err)
	a.replayed = a.replayed && failure != nil
	return a, err
}

// known answers what the row says, unless the statement before has failed.
func (s *service) known(ctx context.Context, p payment, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	r, err := s.store.find(ctx, p.tenant, p.key)
	return r.says(p), err
}

// says is what a request for p is answered by a key in this state.
func (r row) says(p payment) answer {
	switch {
	case !bytes.Equal(r.fingerprint, p.fingerprint()):
		return problem(http.StatusUnprocessableEntity, "idempotency_key_reused_with_different_payload",
			"The key stands for another payment. For another payment, use a new key.")
	case r.status == completed:
		return r.answer
	case r.status == unknown:
		p.ID = r.ID
		return processing(p)
	case r.status == failedRetryable:
		return problem(http.StatusServiceUnavailable, "psp_unavailable", "Nothing was charged. Try the same key again.")
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
