package payments

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
)

// breakOf is the line of a statement that has the stage's movement as executed, while our row says otherwise.
func (s *stage) breakOf(pspID string, ours payment.Status) judge.Break {
	subject := s.lease.Subject
	return judge.Break{
		Kind: judge.BreakStatus, Account: "acme", Day: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
		Object: s.record.Object,
		PSPID:  pspID, Subject: &subject, Reference: s.record.Reference, Moved: s.record.Created,
		Theirs: &judge.Side{AmountMinor: s.record.AmountMinor, Currency: s.record.Currency},
		Ours:   &judge.Side{AmountMinor: s.record.AmountMinor, Currency: s.record.Currency, Status: string(ours)},
	}
}

// resolves judges a break in a transaction of its own.
func (s *shop) resolves(b judge.Break) (completed bool, err error) {
	err = s.inTx(func(ctx context.Context, tx pgx.Tx) (err error) {
		completed, err = s.service.BreakTx(ctx, tx, b)
		return err
	})
	return completed, err
}

func (s *shop) wantResolved(b judge.Break, want bool) {
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
	missing.Kind, missing.Theirs = judge.BreakMissingThere, nil
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
	for _, b := range []*judge.Break{&missing, &other, &gone} {
		b.Kind, b.Theirs = judge.BreakMissingThere, nil
		s.wantResolved(*b, false)
	}
	for _, b := range []*judge.Break{&missing, &gone} {
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
	missing.Kind, missing.Theirs = judge.BreakMissingThere, nil
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

// breaks has a line of a statement judged.
func (s *stage) breaks(b judge.Break) {
	s.t.Helper()
	err := s.inTx(func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.service.BreakTx(ctx, tx, b)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// lineOf is the statement's line of the stage's record, against what our row says.
func (s *stage) lineOf(kind judge.BreakKind, ours payment.Status) judge.Break {
	subject := s.lease.Subject
	return judge.Break{
		Kind: kind, Account: "acme", Object: s.record.Object, PSPID: s.record.ID, Subject: &subject,
		Reference: s.record.Reference, Moved: s.record.Created,
		Day:    s.record.Created,
		Theirs: &judge.Side{AmountMinor: s.record.AmountMinor, Currency: s.record.Currency},
		Ours:   &judge.Side{AmountMinor: s.record.AmountMinor, Currency: s.record.Currency, Status: string(ours)},
	}
}

// A statement's line about a movement of ours is a record like any other: it completes what was released, and
// contradicts what was answered. Its dead letter names the key, which stays until somebody has looked.
func TestStatementsLineIsEvidence(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	for _, g := range []*stage{s.charging("order-0000000001").failed(),
		s.refunding("refund-000000001", p, 100).failed()} {
		g.breaks(g.lineOf(judge.BreakStatus, payment.Failed))
		g.wantStatus(idempotency.CompletedStatus, 1)
		g.wantMoved(payment.Succeeded, g.record.ID)
		g.wantTimeline("owner in_progress>failed_retryable", "statement failed_retryable>completed")
		g.breaks(g.lineOf(judge.BreakStatus, payment.Failed)) // the row says so by now
	}
	s.wantDeadLetters()

	late := s.charging("order-0000000002").failed().expired()
	late.breaks(late.lineOf(judge.BreakStatus, payment.Failed))
	declined := s.charging("order-0000000003").declined()
	declined.breaks(declined.lineOf(judge.BreakStatus, payment.Declined))
	paid := s.charging("order-0000000004").succeeded()
	paid.breaks(paid.lineOf(judge.BreakStatus, payment.Succeeded)) // the statement lists a decline
	lost := s.charging("order-0000000005").lost()
	lost.breaks(lost.lineOf(judge.BreakStatus, payment.Processing))
	again := s.charging("order-0000000006").succeeded()
	line := again.lineOf(judge.BreakDuplicate, payment.Succeeded)
	line.PSPID = "psp_again"
	again.breaks(line)
	s.wantDeadLetters(
		"late_after_expiry record acme "+late.record.ID, "contradicts_completed record acme "+declined.record.ID,
		"contradicts_completed record acme "+paid.record.ID, "duplicate_movement record acme psp_again",
	)
	if n := s.count("SELECT count(*) FROM dead_letters WHERE key IS NULL OR kind <> 'duplicate_movement' AND evidence #>> '{record,id}' IS NULL"); n != 0 {
		t.Errorf("%d dead letters name no key, or hold no record to be judged again", n)
	}
	paid.timePasses("UPDATE idempotency_keys SET expires_at = clock_timestamp()")
	// the paid one, and the two that the statement has completed
	if n, err := s.keys.Expire(t.Context(), 10); err != nil || n != 3 {
		t.Errorf("%d keys expired: %v", n, err)
	}
}

// A line under an id that another row has completes nothing, and leaves the statement's transaction as it was.
func TestStatementsLineUnderAnothersIDIsACase(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	other := s.charging("order-0000000001").succeeded()
	g := s.charging("order-0000000002").failed()
	line := g.lineOf(judge.BreakStatus, payment.Failed)
	line.PSPID = other.record.ID
	g.breaks(line)
	g.wantStatus(idempotency.FailedRetryableStatus, 1)
	s.wantDeadLetters(contradicts(g, other.record.ID))
}

// A line of a statement may belong to no payment of its tenant. The dead letter about such a line names no key.
func TestStatementsLineOfNobodyNamesNoKey(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	line := g.lineOf(judge.BreakMissingHere, "")
	line.Subject, line.Ours = nil, nil
	g.breaks(line)
	line.PSPID, line.OtherTenant = "psp_other", true
	g.breaks(line)
	s.wantDeadLetters(string(deadletters.UnknownMovement)+" record acme "+g.record.ID, string(deadletters.OtherAccount)+
		" record acme psp_other")
	if n := s.count("SELECT count(*) FROM dead_letters WHERE key IS NOT NULL OR subject IS NOT NULL"); n != 0 {
		t.Errorf("%d dead letters name a key of ours", n)
	}
}

// The statement was read while the payment had failed. That it is tried again at this moment does not make the line go
// away.
func TestStatementsLineCountsWhenThePaymentIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").failed()
	m := g.again()
	g.reserve(m)
	g.breaks(g.lineOf(judge.BreakStatus, payment.Failed))
	g.wantMoved(payment.Succeeded, g.record.ID)
}

// A line of a statement stores what others have done as any other source does.
func TestStatementTellsWhatOthersHaveMoved(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	told := func(object gateway.Object, pspID, status string) {
		t.Helper()
		s.wantResolved(lineByOthers(p, p.PSPChargeID, object, pspID, status), false)
	}
	s.tells(judge.SourceWebhook, byOthers(gateway.RefundObject, p.PSPChargeID, "re_1", "succeeded", 500), false)
	told(gateway.RefundObject, "re_1", "succeeded")
	s.wantOutside(500)
	told(gateway.DisputeObject, "dp_1", "pending")
	s.wantOutside(1000)
	told(gateway.RefundObject, "re_1", "declined")
	s.wantOutside(500)
	told(gateway.DisputeObject, "dp_1", "declined")
	s.wantOutside(0)
	s.wantDeadLetters()
}

// lineByOthers is a line about what others have done to a charge that is the payment's.
func lineByOthers(p payment.Payment, chargeID string, o gateway.Object, pspID, status string) judge.Break {
	id := uuid.UUID(p.ID)
	return judge.Break{
		Kind: judge.BreakMissingHere, Account: "acme", Day: time.Now(), Object: o, PSPID: pspID, Subject: &id,
		ChargeID: chargeID, Moved: time.Now(),
		Theirs: &judge.Side{AmountMinor: 500, Currency: "USD", Status: status},
	}
}

// An operator has vouched for a payment whose charge contradicts it, so our books do not have the charge's id. What
// becomes of a dispute would then be told by nobody but the statement.
func TestLineOfAChargeThatOurBooksDoNotKnowIsACase(t *testing.T) {
	t.Parallel()
	for _, o := range []gateway.Object{gateway.RefundObject, gateway.DisputeObject} {
		s := setupOn(t, &actor{})
		g := s.charging("order-0000000001").swept()
		if err := g.executes(payment.OperatorPSPID + "42"); err != nil {
			t.Fatal(err)
		}
		p := *g.movement.payment
		s.wantResolved(lineByOthers(p, "ch_1", o, "x_0", "declined"), false)
		s.wantDeadLetters()
		s.wantResolved(lineByOthers(p, "ch_1", o, "x_1", "pending"), false)
		s.wantOutside(0)
		kept := judge.DeadLetterOf(deadletters.DeadLetter{Kind: deadletters.MovedOutside,
			Evidence: []byte(s.texts("SELECT evidence::text FROM dead_letters WHERE evidence ->> 'chargeId' = 'ch_1'")[0])})
		if kept.Record != nil {
			t.Errorf("%s: a retry of the case would judge a record of nobody's", o)
		}
		s.exec(`UPDATE dead_letters SET status = 'resolved', version = 2, resolved_at = payonce_now(), action = 'dismiss',
			actor = 'ann', resolution_reason = 'we wait for the bank'`)
		s.wantResolved(lineByOthers(p, "ch_1", o, "x_1", "succeeded"), false)
		if n := len(s.open()); n != 1 {
			t.Errorf("%s: after the first case was dismissed, the money was taken, and %d cases are open", o, n)
		}
	}
}

// The charge's id is not known here yet, and the payment may still succeed. Its day is judged again then, but this line
// is not told again.
func TestLineOfAnOpenPaymentIsStored(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept()
	s.wantResolved(lineByOthers(*g.movement.payment, "ch_1", gateway.RefundObject, "re_1", "succeeded"), false)
	s.wantOutside(500)
	s.wantDeadLetters("moved_outside refund record acme re_1")
}

// The statement of a day may come before the scan. Its case names no key, and does not keep the scan's case away.
func TestStatementsCaseDoesNotKeepTheKeysCaseAway(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000001").failed().deleted()
	g.record.Reference = "somebody's"
	b := judge.Break{Kind: judge.BreakMissingHere, Account: g.record.Account, PSPID: g.record.ID,
		Object: g.record.Object,
		Theirs: &judge.Side{AmountMinor: 12000, Currency: "USD"}}
	s.wantResolved(b, false)
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	s.wantHeld(gateway.ChargeObject, s.creating("order-0000000001"))
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, g.record))
	if n := len(s.open()); n != 2 {
		t.Errorf("%d are open", n)
	}
}
