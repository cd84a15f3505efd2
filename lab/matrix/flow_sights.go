package main

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"payonce/lab/history"
	"payonce/lab/invariants"
	"payonce/lab/world"
	"payonce/test/httpproxy"
)

// Scenes that show all that there is to be seen. What is wrong with it is in the invariants.

// otherMembers: each member belongs to the fingerprint.
func (s *stage) otherMembers() error {
	if err := errors.Join(s.startReconciler(), s.askUntilFinal()); err != nil {
		return err
	}
	for _, change := range [][2]string{
		{`"cus-1"`, `"cus-2"`}, {"12000", "12001"}, {`"USD"`, `"EUR"`}, {`"pm_ok"`, `"pm_slow"`},
		{`"reference":"order `, `"reference":"orders `}, {`"reference":"order ` + s.asked.key() + `",`, ""},
		{"ordered as ", "ordered later as "},
		{`"description":"ordered as ` + s.asked.key() + `",`, ""}, {`"order":`, `"orders":`},
		{`{"order":"`, `{"order":"x`},
	} {
		other := s.asked
		other.request.Body = strings.Replace(other.request.Body, change[0], change[1], 1)
		a, err := s.ask(s.api, other)
		if err != nil {
			return err
		}
		if a.Status != http.StatusUnprocessableEntity {
			return &caseError{fmt.Sprintf("with %s in place of %s, it is another request; it is answered %d", change[1],
				change[0], a.Status)}
		}
	}
	return s.askUntilFinal()
}

// everything: currencies of each number of digits, a refund with a reason, one of the rest, and a decline of each.
func (s *stage) everything() error {
	if err := errors.Join(s.startReconciler(), s.askUntilFinal()); err != nil {
		return err
	}
	for _, currency := range []string{"KRW", "KWD", "EUR"} {
		other := s.payment(strings.ToLower(currency) + "-" + s.asked.key())
		other.request.Body = strings.Replace(other.request.Body, "USD", currency, 1)
		if err := s.askFor(other); err != nil {
			return err
		}
	}
	id, err := s.idOf(s.asked)
	if err != nil {
		return err
	}
	rest := s.refund(id, "rest-of-"+s.asked.key())
	rest.request.Body = "{}"
	for _, refund := range []movement{s.refund(id, "refund-"+s.asked.key()), rest} {
		if err := s.askFor(refund); err != nil {
			return err
		}
	}
	declined := s.payment("declined-" + s.asked.key())
	declined.request = s.w.Keys.Payment(declined.key(), "pm_declined")
	_, err = s.ask(s.api, declined)
	return err
}

// idOf is the id of a payment that was answered with success.
func (s *stage) idOf(m movement) (string, error) {
	for _, o := range s.history.Operations() {
		if o.Key == m.key() && o.Route == history.PaymentsRoute && o.Status == http.StatusCreated {
			return path.Base(o.Header.Get("Location")), nil
		}
	}
	return "", &caseError{"the payment of " + m.key() + " was answered with success"}
}

// preferences: a request in flight is asked for again in each way that a client may prefer.
func (s *stage) preferences() error {
	if err := s.startReconciler(); err != nil {
		return err
	}
	sent := s.api.PSP.On(world.Charge, httpproxy.HoldAfter)
	if err := s.askInBackground(); err != nil {
		return err
	}
	if err := sent.Reached(s.ctx); err != nil {
		return err
	}
	for prefer, status := range map[string]int{
		"": http.StatusConflict, "wait=0": http.StatusConflict, "respond-async": http.StatusAccepted,
	} {
		again := s.asked
		if prefer != "" {
			again.request.Header = http.Header{"Prefer": {prefer}}
		}
		a, err := s.ask(s.api, again)
		if err != nil {
			return err
		}
		if a.Status != status {
			return &caseError{fmt.Sprintf("a request in flight, with the preference %q, is answered %d; it is %d",
				prefer, status, a.Status)}
		}
	}
	sent.Release()
	waiting := s.asked
	waiting.request.Header = http.Header{"Prefer": {"wait=5"}}
	_, err := s.ask(s.api, waiting)
	return errors.Join(err, s.awaitBegun(), s.askUntilFinal())
}

// vouchedAmount: an operator calls a charge of another amount executed.
func (s *stage) vouchedAmount() error {
	if err := s.otherAmount(); err != nil {
		return err
	}
	if err := s.untilHolds("a dead letter", "SELECT count(*) = 1 FROM dead_letters"); err != nil {
		return err
	}
	if err := s.w.DB.QueryRow(s.ctx, "SELECT id::text FROM dead_letters").Scan(&s.deadLetter); err != nil {
		return err
	}
	s.decision = "executed"
	return finishDecision(s)
}

// revocation: a key that is in use ends. It comes last, since the key is gone then.
func (s *stage) revocation() error {
	found, err := invariants.Revoked(s.ctx, s.evidence(nil), invariants.RevocationLimit)
	if err == nil && len(found) > 0 {
		return &caseError{found[0].String()}
	}
	return err
}
