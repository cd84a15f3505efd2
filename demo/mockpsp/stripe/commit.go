package stripe

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"payonce/demo/mockpsp"
)

// work is a change on its way to the ledger's file, together with the movement of money that it stands for.
type work struct {
	change
	movement *mockpsp.Movement
	fault    fault
	// result is what the request is answered and what is saved under its key. Nil saves nothing. It is called when the
	// objects have their times.
	result func() (status int, shown object)
}

// commit writes the work on one line and publishes it. It returns the result, if the work has one.
func (s *Server) commit(by asked, w *work) (reply, error) {
	s.disturb(w)
	w.Late = w.fault.bookedLate
	var result reply
	var written time.Time
	line := &mockpsp.Line{
		Prepare: func(at time.Time) (mockpsp.Booking, error) {
			written = at
			w.date(at, by.from, s.config.APIVersion)
			if w.Dispute != nil && w.Charge != nil { // without the charge, nothing has changed but evidence
				w.movement = movementOfDispute(w.Dispute)
			}
			if w.result != nil {
				status, shown := w.result()
				if status == http.StatusOK {
					s.store.expand(shown, by.expand, &w.change)
				}
				result = reply{Status: status, Body: mockpsp.Render(shown)}
				w.save(by, result, at)
			}
			return mockpsp.Booking{Movement: w.movement, Fault: w.fault.token, Note: &w.change}, nil
		},
		Publish: func() { s.keys.publish(&w.change, s.store.publish(&w.change, written)) },
	}
	if err := s.psp.Write(line); err != nil {
		return reply{}, fmt.Errorf("write line: %w", err)
	}
	s.schedule(&w.change)
	s.send(by, &w.change)
	return result, nil
}

// send has the events of a change sent, once the call that has caused them has ended.
func (s *Server) send(by asked, ch *change) {
	for _, e := range ch.Events {
		if e.Silent {
			continue
		}
		release := s.outbox.Expect(e)
		if by.call == nil {
			release()
			continue
		}
		by.call.tells = append(by.call.tells, release)
	}
}

// date gives new objects their time, which is that of the line.
func (w *work) date(at time.Time, from origin, version string) {
	now := at.Unix()
	if w.Intent != nil && w.Intent.Created == 0 {
		w.Intent.Created = now
	}
	if w.Intent != nil && w.Intent.Status == canceled && w.Intent.Canceled == 0 {
		w.Intent.Canceled = now
	}
	if w.Charge != nil && w.Charge.Created == 0 {
		w.Charge.Created = now
	}
	if w.Refund != nil && w.Refund.Created == 0 {
		w.Refund.Created = now
	}
	if w.Dispute != nil {
		w.Dispute.date(now)
	}
	if w.Payout != nil {
		w.Payout.Created = now
	}
	for _, e := range w.Events {
		e.Created, e.For, e.Silent, e.Version = now, from, w.fault.silent, version
	}
}

// save keeps the result under the key of the request.
func (w *work) save(by asked, result reply, at time.Time) {
	if by.key.Key == "" {
		return
	}
	w.Answer = &answer{
		Key: by.key, Hash: by.hash, Status: result.Status, Body: string(result.Body), Request: by.from.Request, At: at,
	}
}

// tell adds events about the objects of the work.
func (w *work) tell(account string, kinds ...string) {
	for _, kind := range kinds {
		w.Events = append(w.Events, &event{ID: newID("evt_"), Type: kind, Account: account})
	}
}

// disturb adds the events that a provider sends and nobody needs: a second one for the same thing, and one about an
// object that nobody knows.
func (s *Server) disturb(w *work) {
	if len(w.Events) == 0 {
		return
	}
	last := w.Events[len(w.Events)-1]
	if s.rates.Hit(rateDoubleEvents) {
		w.tell(last.Account, last.Type)
	}
	if s.rates.Hit(rateUnknownEvents) {
		w.tell(last.Account, "customer.created")
	}
}

// failWith answers with an error.
func failWith(e apiError) func() (int, object) {
	return func() (int, object) { return e.status, e.shown() }
}

// succeedWith answers with an object.
func succeedWith(show func() object) func() (int, object) {
	return func() (int, object) { return http.StatusOK, show() }
}

// newID takes 130 random bits. They come from the system: ids must not repeat after a restart.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// movementOf is how the ledger names a charge: by its intent, since the intent is what may be charged once only.
func movementOf(by asked, i *intent) *mockpsp.Movement {
	return &mockpsp.Movement{
		ID: i.ID, Object: mockpsp.ObjectCharge, Account: i.Account, AmountCents: i.Amount,
		IdempotencyKey: cmp.Or(i.Metadata["idempotency_key"], by.key.Key), Reference: i.Metadata["reference"],
		Currency: strings.ToUpper(i.Currency), PaymentMethod: i.Method,
	}
}

// movementOfRefund is how the ledger names a refund.
func movementOfRefund(by asked, r *refund) *mockpsp.Movement {
	m := &mockpsp.Movement{
		ID: r.ID, Object: mockpsp.ObjectRefund, Account: r.Account, ChargeID: r.Intent, AmountCents: r.Amount,
		IdempotencyKey: cmp.Or(r.Metadata["idempotency_key"], by.key.Key), Reference: r.Metadata["reference"],
		Currency: strings.ToUpper(r.Currency), Reason: cmp.Or(r.Metadata["reason"], r.Reason),
		Status: mockpsp.StatusSucceeded,
	}
	switch {
	case r.Reversed:
		m.Status, m.DeclineCode = mockpsp.StatusFailed, r.Why
	case r.Status == failed:
		m.Status, m.DeclineCode = mockpsp.StatusDeclined, r.Why
	}
	return m
}
