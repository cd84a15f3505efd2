package payments

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
)

// aBreak is a line of a day's statement about our charge of 120 dollars, for which our books have another amount.
func aBreak(kind BreakKind, ours payment.Status) Break {
	b := aLine(kind, ours)
	b.Day = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	b.Moved = b.Day.Add(9 * time.Hour)
	b.Ours.AmountMinor, b.Ours.PSPID = 999, "psp_ours"
	return b
}

// membersOf are the members of an object, each as it is written.
func membersOf(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	members := map[string]string{}
	for name, value := range all {
		text, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		members[name] = string(text)
	}
	return members
}

// An operator reads in a dead letter what the PSP's statement says, and what we know. Only a status break of a movement
// of ours can be judged again, by the record in its dead letter.
func TestDeadLetterOfABreakHasBothSides(t *testing.T) {
	t.Parallel()
	of := func(more map[string]string) map[string]string {
		all := map[string]string{
			"source": `"statement"`, "account": `"acme"`, "day": `"2026-11-20"`, "id": `"psp_1"`, "object": `"charge"`,
			"reference": `"` + payment.ID(ownSubject).String() + `"`, "amountCents": "12000", "currency": `"USD"`,
			"ourPspId": `"psp_ours"`,
		}
		for name, value := range more {
			if all[name] = value; value == "" {
				delete(all, name)
			}
		}
		return all
	}
	here, there := aBreak(BreakMissingHere, ""), aBreak(BreakMissingThere, payment.Succeeded)
	here.Ours, there.Theirs = nil, nil
	for name, c := range map[string]struct {
		seen Seen
		b    Break
		want map[string]string
	}{
		"missing here":  {Seen{}, here, of(map[string]string{"ourPspId": ""})},
		"missing there": {anUnknown(), there, of(map[string]string{"amountCents": "999"})},
		"a duplicate": {done(paidAs("psp_ours")), aBreak(BreakDuplicate, payment.Succeeded),
			of(nil)},
		"status, and not found any more": {Seen{}, aBreak(BreakStatus, payment.Failed), of(nil)},
		"status": {done(refusedAs("psp_9")), aBreak(BreakStatus, payment.Declined), of(map[string]string{
			"assumed": `["idempotencyKey","chargeId"]`,
			"record": `{"account":"acme","amountCents":12000,"createdAt":"2026-11-20T09:00:00Z","currency":"USD",` +
				`"id":"psp_1","idempotencyKey":"order-0000000001","object":"charge","reference":"` +
				payment.ID(ownSubject).String() + `","status":"succeeded"}`,
		})},
	} {
		if diff := cmp.Diff(c.want, membersOf(t, c.b.kept(c.seen))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	odd := aBreak(BreakDuplicate, payment.Succeeded)
	odd.PSPID = "\xff"
	if kept := string(odd.kept(Seen{})); kept != "{}" {
		t.Errorf("of a break that is no text, %q is kept", kept)
	}
}

// What a line means for a movement depends on what our row said when the statement was compared.
func TestLineIsJudgedByWhatOurRowSaid(t *testing.T) {
	t.Parallel()
	none := func(s *Seen) { s.Own = idempotency.Execution{} }
	for name, c := range map[string]struct {
		seen   Seen
		b      Break
		reason string
	}{
		"a decline of what has succeeded": {done(paidAs("psp_1")), aBreak(BreakStatus, payment.Succeeded),
			"the PSP's record contradicts the result that was answered: it says declined"},
		"a decline of what we call declined by now": {done(refusedAs("psp_9")),
			aBreak(BreakStatus, payment.Succeeded), ""},
		"a charge of what was declined": {done(refusedAs("psp_9")), aBreak(BreakStatus, payment.Declined),
			"the PSP's record contradicts the result that was answered: it says succeeded"},
		"a charge of what is not found any more": {keyIs(idempotency.UnknownStatus, processing(), none),
			aBreak(BreakStatus, payment.Failed),
			"the PSP's statement has moved money for a charge that is failed here"},
		"a charge of what is processed": {keyIs(idempotency.UnknownStatus, processing(), none),
			aBreak(BreakStatus, payment.Processing), ""},
		"a decline of what is not found any more": {keyIs(idempotency.UnknownStatus, processing(), none),
			aBreak(BreakStatus, payment.Succeeded), ""},
	} {
		step, reason := judge(asksAgain(), c.seen, c.b), ""
		if step.Open != nil {
			reason = step.Open.Reason
		}
		if reason != c.reason {
			t.Errorf("%s: the reason is %q", name, reason)
		}
	}
}

// What the PSP's statement did not say is not told to the tenant as if it had. A retry by the operator needs it: a
// record without the key, or without the refunded charge, would be another movement's.
func TestOnlyARetryIsToldWhatIsAssumed(t *testing.T) {
	t.Parallel()
	s, b := keyIs(idempotency.FailedRetryableStatus, neverRun()), aBreak(BreakStatus, payment.Failed)
	step := judge(asksAgain(), s, b)
	if step.To != idempotency.CompletedStatus ||
		strings.Contains(string(step.Note.Evidence), own().PassThroughKey()) {
		t.Errorf("the timeline has %s", step.Note.Evidence)
	}
	s.Request, b.Object = gateway.Refund{ChargeID: "psp_charge"}, gateway.RefundObject
	r := b.record(s, true)
	if r.Key != own().PassThroughKey() || r.ChargeID != "psp_charge" || r.Status != "succeeded" {
		t.Errorf("a retry judges %+v", r)
	}
	if r := b.record(s, false); r.Key != "" || r.ChargeID != "" {
		t.Errorf("the timeline has %+v", r)
	}
	b.Ours.Status = string(payment.Succeeded)
	if r := b.record(s, true); r.Status != "declined" {
		t.Errorf("a retry of a decline judges %+v", r)
	}
}

// breakOf is the line of a statement that has the stage's movement as executed, while our row says otherwise.
func (g *stage) breakOf(pspID string, ours payment.Status) Break {
	subject := g.lease.Subject
	return Break{
		Kind: BreakStatus, Account: "acme", Day: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), Object: g.record.Object,
		PSPID: pspID, Subject: &subject, Reference: g.record.Reference, Moved: g.record.Created,
		Theirs: &Side{AmountMinor: g.record.AmountMinor, Currency: g.record.Currency},
		Ours:   &Side{AmountMinor: g.record.AmountMinor, Currency: g.record.Currency, Status: string(ours)},
	}
}

// resolves judges a break in a transaction of its own.
func (s *shop) resolves(b Break) (completed bool, err error) {
	err = s.inTx(func(ctx context.Context, tx pgx.Tx) (err error) {
		completed, err = s.service.BreakTx(ctx, tx, b)
		return err
	})
	return completed, err
}

func (s *shop) wantResolved(b Break, want bool) {
	s.t.Helper()
	if completed, err := s.resolves(b); err != nil || completed != want {
		s.t.Fatalf("completed: %v, %v", completed, err)
	}
}

// A statement's run counts the keys that it has completed. A dead letter is none, and neither is what is right already.
func TestBreakCompletesWhatHasMovedOnce(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").failed()
	s.wantResolved(g.breakOf(g.record.ID, payment.Failed), true)
	g.wantMoved(payment.Succeeded, g.record.ID)
	before := s.everything()
	s.wantResolved(g.breakOf(g.record.ID, payment.Failed), false)
	if s.everything() != before {
		t.Error("the second time, something was written")
	}
	missing := g.breakOf(g.record.ID, payment.Succeeded)
	missing.Kind, missing.Theirs = BreakMissingThere, nil
	s.wantResolved(missing, false)
	s.wantDeadLetters("missing_at_psp missing acme " + g.record.Reference)
}

// A later statement has what an earlier one did not have. That closes its own dead letter, and frees its own key.
func TestStatementThatHasTheMovementAfterAllClosesItsDeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g, h := s.charging("order-0000000001").succeeded(), s.charging("order-0000000002").succeeded()
	missing, other := g.breakOf(g.record.ID, payment.Succeeded), h.breakOf(h.record.ID, payment.Succeeded)
	gone, subject := missing, uuid.Must(uuid.NewV7())
	gone.Subject, gone.Reference = &subject, payment.ID(subject).String()
	for _, b := range []*Break{&missing, &other, &gone} {
		b.Kind, b.Theirs = BreakMissingThere, nil
		s.wantResolved(*b, false)
	}
	for _, b := range []*Break{&missing, &gone} {
		b.Listed = true
		s.wantResolved(*b, false)
	}
	open := s.texts("SELECT finding FROM dead_letters WHERE status = 'open'")
	held := s.texts("SELECT key FROM idempotency_keys WHERE dead_letter_hold <> 'none'")
	want := []string{"missing acme " + h.record.Reference, "order-0000000002"}
	if diff := cmp.Diff(want, append(open, held...)); diff != "" {
		t.Errorf("what is open, and held (-want +got):\n%s", diff)
	}
}

// What a constraint refuses is judged once more, with the reason: the id belongs to another payment, or the share of
// the refund is gone. Both are a dead letter, and the run goes on.
func TestBreakThatAConstraintRefusesIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	other := s.charging("order-0000000001").succeeded()
	g := s.charging("order-0000000002").failed()
	s.wantResolved(g.breakOf(other.record.ID, payment.Failed), false)
	g.wantStatus(idempotency.FailedRetryableStatus, 1)
	s.wantDeadLetters(contradicts(g, other.record.ID))

	p := s.charging("order-0000000003").paidFor()
	first := s.refunding("refund-0000000001", p, p.Amount).failed()
	s.refunding("refund-0000000002", p, p.Amount).succeeded()
	s.wantResolved(first.breakOf(first.record.ID, payment.Failed), false)
	first.wantStatus(idempotency.FailedRetryableStatus, 1)
	s.wantDeadLetters(contradicts(g, other.record.ID), "refund_exceeds_payment refund record acme "+first.record.ID)
}

// An error that judge can do nothing about ends the run with what has failed.
func TestBreakThatCannotBeWrittenEndsTheRun(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	missing := g.breakOf(g.record.ID, payment.Succeeded)
	missing.Kind, missing.Theirs = BreakMissingThere, nil
	s.service.newID = noID
	if _, err := s.resolves(missing); err == nil || !strings.Contains(err.Error(), "no random numbers") {
		t.Errorf("without an id for the dead letter: %v", err)
	}
}

// A row that cannot be read is not one that is not there. A break about what is not there is no error.
func TestBreakAboutARowThatCannotBeReadEndsTheRun(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	g.timePasses(`UPDATE payments SET metadata = '[1]'`)
	declined := g.breakOf(g.record.ID, payment.Succeeded)
	if completed, err := s.resolves(declined); err == nil {
		t.Errorf("completed: %v", completed)
	}
}

// The statement's transaction does not lock the keys that it reads. If one moves meanwhile, the break is judged again.
func TestBreakAboutAKeyThatMovesIsJudgedAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").failed()
	held := proxy.On("ResolveKeys", pgproxy.HoldBefore)
	result := make(chan error, 1)
	go func() {
		completed, err := s.resolves(g.breakOf(g.record.ID, payment.Failed))
		if err == nil && !completed {
			err = errors.New("nothing is completed")
		}
		result <- err
	}()
	held.Await(t)
	m := g.again()
	g.live(g.reserve(m), m, gateway.Indeterminate{Reason: "no answer in time"})
	held.Release()
	if err := <-result; err != nil {
		t.Error(err)
	}
	g.wantMoved(payment.Succeeded, g.record.ID)

	h := s.charging("order-0000000002").failed()
	held = proxy.On("ResolveKeys", pgproxy.HoldBefore)
	go func() {
		_, err := s.resolves(h.breakOf(h.record.ID, payment.Failed))
		result <- err
	}()
	held.Await(t)
	m = h.again()
	h.live(h.reserve(m), m, gateway.Indeterminate{Reason: "no answer in time"})
	h.timePasses(`UPDATE payments SET metadata = '[1]'`)
	held.Release()
	if err := <-result; err == nil {
		t.Error("what cannot be read again was judged")
	}
}
