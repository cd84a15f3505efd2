package payments

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
)

func TestLateSuccessCompletesWhatOthersHaveGivenUp(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	for name, c := range map[string]struct {
		bring   func(*stage)
		attempt int32
		line    string
	}{
		"swept":    {func(g *stage) { g.swept() }, 1, "owner unknown>completed"},
		"released": {func(g *stage) { g.swept().proven() }, 1, "owner failed_retryable>completed"},
		"released by a later attempt": {func(g *stage) {
			m := g.swept().proven().again()
			g.live(g.reserve(m), m, gateway.NotExecuted{Reason: "no connection"})
		}, 2, "owner failed_retryable>completed"},
	} {
		for kind, g := range map[string]*stage{
			"payment": s.charging(key("order", name)), "refund": s.refunding(key("refund", name), p, 100),
		} {
			c.bring(g)
			answer := is[Final](t, g.live(g.lease, g.movement, g.success()))
			row := g.wantStatus(idempotency.CompletedStatus, c.attempt)
			if answer.Replayed || !cmp.Equal(answer.Response, *row.Response) || !answer.Expires.Equal(row.Expires) {
				t.Errorf("%s of a %s: answered %+v, stored is %+v", name, kind, answer, row)
			}
			g.wantMoved(payment.Succeeded, g.record.ID)
			if lines := g.timeline(); lines[len(lines)-1] != c.line {
				t.Errorf("%s of a %s: %s", name, kind, lines)
			}
		}
	}
	s.wantDeadLetters()
}

// A later attempt is told the same by the PSP. Who has overtaken it has nothing to add.
func TestLateSuccessLeavesALaterAttemptAlone(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	for name, bring := range map[string]func(g *stage, second idempotency.Lease, m *movement){
		"in progress": func(*stage, idempotency.Lease, *movement) {},
		"unknown": func(g *stage, l idempotency.Lease, m *movement) {
			g.live(l, m, gateway.Indeterminate{Reason: "no answer in time"})
		},
	} {
		g := s.charging(key("order", name)).swept().proven()
		m := g.again()
		bring(g, g.reserve(m), m)
		before := s.everything()
		is[Pending](t, g.live(g.lease, g.movement, g.success()))
		if s.everything() != before {
			t.Errorf("%s: something has moved", name)
		}
	}
	s.wantDeadLetters()
}

func TestLateSuccessConfirmsTheSameResult(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept()
	is[Completed](t, s.evidenceBy(judge.SourceLookup, g.record))
	stored := *g.row().Response
	before := s.everything()
	answer := is[Final](t, g.live(g.lease, g.movement, g.success()))
	if answer.Replayed || !cmp.Equal(answer.Response, stored) || s.everything() != before {
		t.Fatalf("answered %+v, moved %v", answer, s.everything() != before)
	}
	s.wantDeadLetters()
}

// The key's answer belongs to a later attempt. The late owner of an earlier one repeats it.
func TestLateOwnerRepeatsTheAnswerOfALaterAttempt(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept().proven()
	m := g.again()
	first := is[Final](t, g.live(g.reserve(m), m, g.success()))
	late := is[Final](t, g.live(g.lease, g.movement, g.success()))
	if first.Replayed || !late.Replayed || !cmp.Equal(first.Response, late.Response) {
		t.Errorf("answered %+v, and late %+v", first, late)
	}
}

// The late owner's reply is evidence. It opens one dead letter with the PSP's id, also when another source brings the
// same evidence.
func TestLateSuccessThatContradictsTheResultIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	for name, c := range map[string]struct {
		verdict func(gateway.Record) gateway.Record
		kind    string
	}{
		"executed twice": {func(r gateway.Record) gateway.Record { return as("psp_other", r) }, "duplicate_movement"},
		"declined": {func(r gateway.Record) gateway.Record { return declinedAs(r, "no_money") },
			"contradicts_completed"},
	} {
		g := s.charging(key("order", name)).swept()
		is[Completed](t, s.evidenceBy(judge.SourceLookup, c.verdict(g.record)))
		stored := *g.row().Response
		before := s.everything()
		answer := is[Final](t, g.live(g.lease, g.movement, g.success()))
		if !cmp.Equal(answer.Response, stored) || s.everything() != before {
			t.Errorf("%s: answered %+v, moved %v", name, answer, s.everything() != before)
		}
		is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, g.record))
		if n := s.count(`SELECT count(*) FROM dead_letters WHERE kind = $1 AND finding = 'record acme ' || $2::text
			AND evidence @> jsonb_build_object('source', 'owner', 'record', jsonb_build_object('id', $2::text))`, c.kind, g.record.ID); n != 1 {
			t.Errorf("%s: %s", name, s.texts("SELECT d::text FROM dead_letters AS d"))
		}
	}
	if n := s.count("SELECT count(*) FROM dead_letters"); n != 2 {
		t.Errorf("%d dead letters", n)
	}
}

// A payment whose id the PSP has given to two of ours is nobody's.
func TestLateSuccessUnderTheIDOfAnotherPaymentIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	other := s.charging("order-0000000001").succeeded()
	g := s.charging("order-0000000002").swept()
	is[Pending](t, g.live(g.lease, g.movement, other.success()))
	g.wantStatus(idempotency.UnknownStatus, 1)
	g.wantMoved(payment.Processing, "")
	s.wantDeadLetters(contradicts(g, other.record.ID))
	is[DeadLettered](t, s.evidenceBy(judge.SourceWebhook, as(other.record.ID, g.record)))
	g.wantStatus(idempotency.UnknownStatus, 1)
}

// The late owner's evidence counts only if money has moved. A decline, a doubt or a proof that nothing was sent moves
// nothing any more.
func TestWhatIsLateAndNoSuccessMovesNothing(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	outcomes := map[string]func(*stage) gateway.Outcome{
		"decline":  func(g *stage) gateway.Outcome { return gateway.Declined{ID: g.record.ID, Code: "no_money"} },
		"doubt":    func(*stage) gateway.Outcome { return gateway.Indeterminate{Reason: "no answer in time"} },
		"not sent": func(*stage) gateway.Outcome { return gateway.NotExecuted{Reason: "owner was paused"} },
	}
	for name, bring := range map[string]func(*stage){
		"unknown":          func(g *stage) { g.swept() },
		"failed retryable": func(g *stage) { g.swept().proven() },
		"in progress":      func(g *stage) { g.swept().proven().reserve(g.again()) },
		"completed": func(g *stage) {
			g.swept().evidenceBy(judge.SourceLookup,
				as("psp_"+g.key.Key.String(), g.record))
		},
	} {
		for what, o := range outcomes {
			g := s.charging(key("order", name+" "+what))
			bring(g)
			before := s.everything()
			answer := g.live(g.lease, g.movement, o(g))
			_, final := answer.(Final)
			_, proof := answer.(NotExecuted)
			if s.everything() != before || final != (name == "completed") ||
				proof != (name == "failed retryable" && what == "not sent") {
				t.Errorf("%s on %s: answered %T, moved %v", what, name, answer, s.everything() != before)
			}
		}
	}
	s.wantDeadLetters()
}

// The next generation is another payment: there is nothing to answer for this one any more.
func TestLateSuccessOfAnEarlierGenerationIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept().proven().renewed()
	before := s.everything()
	is[Pending](t, g.live(g.lease, g.movement, g.success()))
	if s.everything() != before {
		t.Fatal("it has moved what another payment stands for")
	}
	s.wantDeadLetters("late_after_expiry record acme " + g.record.ID)
}

// The webhook was faster, the row says so, and then the store goes away: 202 is all that can be said, and it shows no
// verdict.
func TestOwnerThatCannotReadWhatItsKeyAnswersShowsNoVerdict(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000002").paidFor()
	for kind, g := range map[string]*stage{"payment": s.charging("order-0000000009"),
		"refund": s.refunding("refund-000000009", p, 100)} {
		g.evidenceBy(judge.SourceWebhook, g.record)
		var err error
		g.movement, err = s.service.load(t.Context(), g.movement, g.lease.Subject)
		if err != nil || g.movement.rowVerdict().Status != payment.Succeeded {
			t.Fatalf("%s: the row says %q (%v)", kind, g.movement.rowVerdict().Status, err)
		}
		away, cancel := context.WithCancel(t.Context())
		cancel()
		answer := g.service.answerFromRow(away, gatherReserved(g.lease, g.movement), g.success(), judge.Step{})
		body, err := is[Pending](t, answer).Resource.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if text := string(body); !strings.Contains(text, `"status":"processing"`) ||
			strings.Contains(text, g.record.ID) {
			t.Errorf("%s: answers 202 with %s", kind, text)
		}
	}
}

// Before tombstones, a deleted key could be used again in the same generation. The response of what the key stands for
// now is not the answer to what it stood for then.
func TestLateOwnerDoesNotGetTheAnswerOfItsTwin(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept().proven()
	g.twin().succeeded()
	answer := g.service.answerFromRow(t.Context(), gatherReserved(g.lease, g.movement), g.success(), judge.Step{})
	if o, ok := answer.(Final); ok {
		t.Errorf("answered %s", o.Response.Body)
	}
}

// The row of the movement cannot be read any more. The answer names the movement all the same.
func TestLateAnswerNamesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000002").paidFor()
	for kind, g := range map[string]*stage{"payment": s.charging("order-0000000009"),
		"refund": s.refunding("refund-000000009", p, 100)} {
		g.swept().proven().expired()
		away, cancel := context.WithCancel(t.Context())
		cancel()
		answer := g.service.answerGone(away, gatherReserved(g.lease, g.movement), judge.Step{})
		location := is[Pending](t, answer).Resource.Location()
		if !strings.HasSuffix(location, g.record.Reference) {
			t.Errorf("%s: the answer names %s, want %s", kind, location, g.record.Reference)
		}
	}
}

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

// A webhook of the first attempt comes while the second one is under way. Its owner is fenced, and answers what is
// stored.
func TestEvidenceDuringASecondAttemptFencesItsOwner(t *testing.T) {
	t.Parallel()
	for name, tells := range map[string]func(id string) gateway.Outcome{
		"told the same": func(id string) gateway.Outcome { return gateway.Succeeded{ID: id} },
		"told nothing":  func(string) gateway.Outcome { return gateway.Indeterminate{Reason: "no answer in time"} },
		"not sent":      func(string) gateway.Outcome { return gateway.NotExecuted{Reason: "owner was paused"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupOn(t, &actor{})
			g := s.charging("order-0000000001").failed()
			m := g.again()
			second := g.reserve(m)
			is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
			stored := *g.row().Response
			answer := is[Final](t, g.live(second, m, tells(g.record.ID)))
			// The second attempt is what was completed: to its owner it is no replay.
			if answer.Replayed || !cmp.Equal(answer.Response, stored) {
				t.Errorf("answered %+v, stored is %+v", answer, stored)
			}
			g.wantStatus(idempotency.CompletedStatus, 2)
			g.wantTimeline("owner in_progress>failed_retryable", "request failed_retryable>in_progress",
				"webhook in_progress>completed")
			s.wantDeadLetters()
		})
	}
}

// The PSP's webhook is faster than its own answer.
func TestWebhookBeforeTheAnswerIsTheOwnersAnswer(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	h := newHeld(t)
	var asked gateway.Record
	psp.onPost(func(w http.ResponseWriter, r gateway.Record) {
		asked = r
		h.wait()
		executes("ch_1")(w, r)
	})
	got := whileAsked(h, func() Answer { return s.create("order-0000000001", order()) }, func() {
		asked.ID, asked.Status = "ch_1", "succeeded"
		is[Completed](t, s.evidenceBy(judge.SourceWebhook, asked))
	})
	if final := is[Final](t, got); final.Replayed {
		t.Error("the owner was told that it is a replay")
	}
	if n := s.count("SELECT count(*) FROM idempotency_key_events WHERE to_status = 'completed'"); n != 1 {
		t.Errorf("%d lines in the timeline", n)
	}
	s.wantDeadLetters()
}

func TestLateOwnerOfARefundWhoseShareIsGoneIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	g := s.refunding("refund-000000001", p, 8000).swept().proven()
	s.refunding("refund-000000002", p, 8000).succeeded()
	before := s.everything()
	is[Pending](t, g.live(g.lease, g.movement, g.success()))
	if s.everything() != before {
		t.Fatal("something has moved")
	}
	s.wantDeadLetters("refund_exceeds_payment refund record acme " + g.record.ID)
}

// The owner has lost its key, and cannot read what the key is now. Its reply is not judged by what was before.
func TestOwnerThatCannotReadItsKeyAnswersUnknown(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	for name, c := range map[string]struct {
		cut   string
		reply func(*stage) gateway.Outcome
		to    idempotency.Status
	}{
		"nothing of it": {"FindKey", func(g *stage) gateway.Outcome {
			return g.success()
		}, idempotency.UnknownStatus},
		"not durably": {"Durable", func(*stage) gateway.Outcome {
			return gateway.NotExecuted{Reason: "no connection"}
		}, idempotency.FailedRetryableStatus},
		"not what it has completed itself": {"Durable", func(g *stage) gateway.Outcome {
			return g.success()
		}, idempotency.CompletedStatus},
		"nothing of what is over and was executed": {"FindKey", func(g *stage) gateway.Outcome {
			return g.success()
		}, idempotency.ExpiredStatus},
		"not its payment": {"GetPayment", func(*stage) gateway.Outcome {
			return gateway.NotExecuted{Reason: "no connection"}
		}, idempotency.ExpiredStatus},
	} {
		g := s.charging(key("order", name)).swept()
		switch c.to {
		case idempotency.FailedRetryableStatus:
			g.proven()
		case idempotency.ExpiredStatus:
			g.proven().expired()
		case idempotency.InProgressStatus, idempotency.UnknownStatus, idempotency.CompletedStatus:
		}
		log := s.logged()
		event := proxy.On(c.cut, pgproxy.CutBefore)
		is[Pending](t, g.live(g.lease, g.movement, c.reply(g)))
		event.Await(t)
		g.wantStatus(c.to, 1)
		if log.Len() == 0 {
			t.Errorf("%s: nothing is logged", name)
		}
	}
}

// The client is told that nothing was executed only if that is written. A retry may find the key unknown otherwise.
func TestReleaseThatIsNotWrittenIsNotTold(t *testing.T) {
	t.Parallel()
	s := setupAt(t, "http://127.0.0.1:1", time.Now) // nobody listens, so nothing is sent
	proxy := s.proxied()
	is[NotExecuted](t, s.create("order-0000000001", order()))
	proxy.OnNext(3, "ReleaseKey", pgproxy.CutBefore)
	is[Pending](t, s.create("order-0000000002", order()))
}

// A payment that could not be read is not taken for an empty one: the client is told of the payment that it has asked
// for.
func TestPaymentThatCannotBeReadKeepsItsID(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").swept().proven().expired()
	s.proxied().On("GetPayment", pgproxy.CutBefore)
	p := is[Pending](t, g.live(g.lease, g.movement, gateway.NotExecuted{Reason: "no connection"}))
	if id := is[payment.Payment](t, p.Resource).ID; uuid.UUID(id) != g.lease.Subject {
		t.Errorf("answered for %s", id)
	}
}
