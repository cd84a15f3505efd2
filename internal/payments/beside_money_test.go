package payments

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// What a request may not do by its own reply while a dead letter of its key is open.

// held opens a dead letter about the stage's key, with a record by which money moved.
func (s *stage) held() *stage {
	s.t.Helper()
	is[DeadLettered](s.t, s.evidenceBy(judge.SourceWebhook, as("psp_stray_"+s.key.Key.String(), otherAmount.record(s))))
	return s
}

// The PSP has moved money under the key, and then declines it. Nobody is told "declined": the key is an operator's.
func TestOwnersDeclineBesideMovedMoneyIsForAnOperator(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	for _, g := range []*stage{s.charging("order-0000000001"), s.refunding("refund-000000001", p, 100)} {
		g.held()
		answer := is[Pending](t, g.live(g.lease, g.movement, gateway.Declined{ID: g.record.ID, Code: "no_money"}))
		if answer.Resource.Location() != g.movement.resource().Location() {
			t.Errorf("answered %s", answer.Resource.Location())
		}
		g.wantStatus(idempotency.UnknownStatus, 1)
		g.wantMoved(payment.Processing, "")
		g.wantTimeline("owner in_progress>unknown")
		if n := s.count("SELECT count(*) FROM dead_letters WHERE subject = $1 AND evidence #>> '{record,status}' = 'declined'", g.lease.Subject); n != 1 {
			t.Errorf("%d dead letters hold the decline", n)
		}
	}
}

// A dead letter holds its key, also where this attempt was never sent: it may be about an earlier one.
func TestOwnerThatSentNothingReleasesNoHeldKey(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").held()
	is[Pending](t, g.live(g.lease, g.movement, gateway.NotExecuted{Reason: "no connection"}))
	g.wantStatus(idempotency.UnknownStatus, 1)
	g.wantMoved(payment.Processing, "")
}

// A contradiction that comes when others have finished the key is held against what they have answered.
func TestLateContradictionIsHeldAgainstTheAnswer(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001")
	s.evidenceBy(judge.SourceWebhook, g.record)
	is[Final](t, g.live(g.lease, g.movement, gateway.Indeterminate{
		Reason: "answer has another amount", Contradiction: true, ID: "psp_other",
		Evidence: []byte(`{"answer":{"id":"psp_other","status":"succeeded"}}`),
	}))
	s.wantDeadLetters("contradicts_completed record acme psp_other")
}

// Refusals of nobody's are no case: no money has moved.
func TestDeclineOfNobodyIsNoCase(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").succeeded()
	strange, elsewhere := declinedAs(g.record, "no_money"), declinedAs(as("psp_2", g.record), "no_money")
	strange.Reference, elsewhere.Account = "order 42", "globex"
	for _, r := range []gateway.Record{strange, elsewhere} {
		is[Confirmed](t, s.evidenceBy(judge.SourceWebhook, r))
	}
	s.wantDeadLetters()
}

// An expired key stands for nothing: who asked under it is told that nothing was executed.
func TestOwnerOfAnExpiredKeyIsToldThatNothingWasExecuted(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	for name, moves := range map[string]func(*stage){
		"expired": func(g *stage) { g.expired() }, "renewed": func(g *stage) { g.renewed() },
		"deleted": func(g *stage) { g.deleted() },
	} {
		g := s.charging(key("order", name)).swept().proven()
		moves(g)
		is[NotExecuted](t, g.live(g.lease, g.movement, gateway.Declined{ID: g.record.ID, Code: "no_money"}))
		is[Pending](t, g.live(g.lease, g.movement, g.success()))
	}
}

// The scan compares what a webhook compares: also the key, and the refunded charge.
func TestScanComparesTheKeyAndTheRefundedCharge(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	charge, refund := s.charging("order-0000000001").succeeded().record,
		s.refunding("refund-000000001", p, 100).succeeded().record
	otherKey, otherCharge := charge, refund
	otherKey.Key, otherCharge.ChargeID = "order-0000000002", "psp_other"
	for r, want := range map[gateway.Record]int{charge: 0, refund: 0, otherKey: 1, otherCharge: 1} {
		open, err := s.service.Unexplained(t.Context(), native.Name, r.Object, r.Account,
			gateway.Page{Records: []gateway.Record{r}})
		if err != nil || len(open.Records) != want {
			t.Errorf("%+v: %d unexplained, %v", r, len(open.Records), err)
		}
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

// A late contradiction says that money moved. Nobody is told that nothing was executed, or the client's retry would be
// a second charge.
func TestOwnerWithALateContradictionIsNotToldThatNothingWasExecuted(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept().proven().expired()
	is[Pending](t, g.live(g.lease, g.movement, gateway.Indeterminate{
		Reason: "answer has another amount", Contradiction: true, ID: "psp_other",
		Evidence: []byte(`{"answer":{"id":"psp_other","status":"succeeded"}}`),
	}))
	s.wantDeadLetters("late_after_expiry record acme psp_other")
	// A decline moves no money, also one that contradicts the request.
	h := s.charging("order-0000000002").swept().proven().expired()
	is[NotExecuted](t, h.live(h.lease, h.movement, gateway.Indeterminate{
		Reason: "answer has another amount", Contradiction: true, ID: "psp_no",
		Evidence: []byte(`{"answer":{"id":"psp_no","status":"declined"}}`),
	}))
	s.wantDeadLetters("late_after_expiry record acme psp_other")
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
