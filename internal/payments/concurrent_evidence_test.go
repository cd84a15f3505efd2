package payments

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

func TestManyPiecesOfEvidenceAtOnceAreOneTransition(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	p := s.charging("paid-00000000001").paidFor()
	for name, g := range map[string]*stage{
		"in progress": s.charging("order-0000000001"), "unknown": s.charging("order-0000000002").lost(),
		"failed_retryable": s.charging("order-0000000003").failed(),
		"refund":           s.refunding("refund-000000001", p, 4500).lost(),
	} {
		lines := len(g.timeline())
		var completed, confirmed atomic.Int32
		atOnce(8, func(int) {
			finding, err := s.service.ApplyRecord(t.Context(),
				judge.Record{Source: judge.SourceLookup, Record: g.record})
			switch finding.(type) {
			case Completed:
				completed.Add(1)
			case Confirmed:
				confirmed.Add(1)
			case DeadLettered, Foreign, nil:
				t.Errorf("%s: %T, %v", name, finding, err)
			}
		})
		if completed.Load() != 1 || confirmed.Load() != 7 || len(g.timeline()) != lines+1 {
			t.Errorf("%s: resolved %d times, confirmed %d times: %s", name, completed.Load(), confirmed.Load(),
				g.timeline())
		}
		g.wantStatus(idempotency.CompletedStatus, 1)
		g.wantMoved(payment.Succeeded, g.record.ID)
	}
	if n := s.count("SELECT refunded_minor FROM payments WHERE id = $1", p.ID); n != 4500 {
		t.Errorf("%d are refunded", n)
	}
	s.wantDeadLetters()
}

// Two that say different things at once: one of them is the result, the other one a dead letter.
func TestContradictingEvidenceAtOnceIsOneResultAndOneDeadLetter(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	atOnce(8, func(i int) {
		r := g.record
		if i%2 == 1 {
			r = executedTwice.record(g)
		}
		if _, err := s.service.ApplyRecord(t.Context(), judge.Record{Source: judge.SourceLookup,
			Record: r}); err != nil {
			t.Error(err)
		}
	})
	g.wantStatus(idempotency.CompletedStatus, 1)
	g.wantTimeline("owner in_progress>unknown", "lookup unknown>completed")
	if n := s.count("SELECT count(*) FROM dead_letters WHERE kind = 'duplicate_movement'"); n != 1 {
		t.Errorf("%d dead letters", n)
	}
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

// Between the reading of the key and that of its row, evidence arrives. 202 with a payment that has succeeded would be
// two answers in one.
func TestKeyThatIsFinishedWhileItIsAnsweredForIsAnsweredAsFinished(t *testing.T) {
	t.Parallel()
	decisions := func(g *stage) map[string]idempotency.Decision {
		return map[string]idempotency.Decision{
			"unknown":     idempotency.Unknown{KeyRow: g.row()},
			"in progress": idempotency.InProgress{KeyRow: g.row()},
		}
	}
	s := setupOn(t, &actor{})
	completed := s.charging("order-0000000001").lost()
	completed.evidenceBy(judge.SourceWebhook, completed.record)
	for name, decision := range decisions(completed) {
		answer, err := s.service.answerDecision(t.Context(), completed.reservation.Ref, decision, completed.again())
		if err != nil {
			t.Fatal(err)
		}
		if f := is[Final](t, answer); !f.Replayed || string(f.Response.Body) != string(completed.row().Response.Body) {
			t.Errorf("%s: answers %s", name, f.Response.Body)
		}
	}
	released := s.charging("order-0000000002").lost().proven()
	for _, decision := range decisions(released) {
		answer, err := s.service.answerDecision(t.Context(), released.reservation.Ref, decision, released.again())
		if err != nil {
			t.Fatal(err)
		}
		is[NotExecuted](t, answer)
	}
}
