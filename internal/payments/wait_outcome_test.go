package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/wait"
)

// Requests that wait for an outcome, in the process that commits it and in another one.

// heard is the answer of a wait.
type heard[T any] struct {
	answer T
	waited bool
	err    error
}

// background waits in a goroutine.
func background[T any](wait func() (T, bool, error)) <-chan heard[T] {
	out := make(chan heard[T], 1)
	go func() {
		answer, waited, err := wait()
		out <- heard[T]{answer, waited, err}
	}()
	return out
}

// hears is the answer of a request that has waited.
func hears[T any](t *testing.T, from <-chan heard[T]) T {
	t.Helper()
	h := wait.For(t, "the answer", from)
	if h.err != nil || !h.waited {
		t.Fatalf("answered %+v", h)
	}
	return h.answer
}

// awaitWaiting returns when so many requests of the service wait.
func (s *shop) awaitWaiting(n int) {
	s.t.Helper()
	wait.Until(s.t, fmt.Sprintf("%d requests wait", n), func() bool {
		s.service.waits.mu.Lock()
		defer s.service.waits.mu.Unlock()
		return s.service.waits.waiting == n
	})
}

// blind makes the service see no change that another process commits.
func (s *shop) blind() *shop {
	s.service.waits.keys.read = func(context.Context, []idempotency.Ref) (map[idempotency.Ref]bool, error) {
		return nil, errors.New("not asked here")
	}
	return s
}

// elsewhere is the same shop, seen from another process.
func (s *shop) elsewhere() *shop {
	other, db := *s, postgres.Wrap(s.pool, patience)
	other.keys = idempotency.New(db, terms(), time.Now)
	other.service = New(Config{
		DB: db, Keys: other.keys, PSPs: s.service.psps, NewID: uuid.NewV7,
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler),
		PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})
	return &other
}

func (s *stage) paymentID() payment.ID { return payment.ID(s.lease.Subject) }

// waitsFor sends the stage's request again, with a wait for its outcome.
func (s *stage) waitsFor(limit time.Duration) <-chan heard[Answer] {
	return background(func() (Answer, bool, error) {
		return s.service.WaitFor(s.t.Context(), s.reservation.Ref, limit, func() (Answer, error) {
			return s.service.Create(s.t.Context(), s.key, order())
		})
	})
}

func (s *stage) waitsForPayment(limit time.Duration) <-chan heard[payment.Payment] {
	return background(func() (payment.Payment, bool, error) {
		waited, err := s.service.AwaitPayment(s.t.Context(), "acme", s.paymentID(), limit)
		if err != nil {
			return payment.Payment{}, waited, err
		}
		p, err := s.service.Payment(s.t.Context(), "acme", s.paymentID())
		return p, waited, err
	})
}

// The reads of the waited keys fail here, so only the commit itself can wake.
func TestCommitOfThisProcessWakesWithoutARead(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).blind()
	g := s.charging("order-0000000001").lost()
	post, get := g.waitsFor(time.Hour), g.waitsForPayment(time.Hour)
	s.awaitWaiting(2)
	s.evidenceBy(judge.SourceLookup, g.record)
	if final := is[Final](t, hears(t, post)); !final.Replayed || final.Response.Status != 201 {
		t.Errorf("POST answers %+v", final)
	}
	if p := hears(t, get); p.Status != payment.Succeeded || p.PSPChargeID != g.record.ID {
		t.Errorf("GET answers %+v", p)
	}
	s.awaitWaiting(0)
}

// A request waits for an execution, the outcome of which is lost, and then for the outcome.
func TestWaitForAnExecutionGoesOnUntilTheOutcome(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).blind()
	g := s.charging("order-0000000001")
	post, get := g.waitsFor(time.Hour), g.waitsForPayment(time.Hour)
	s.awaitWaiting(2)
	before := s.keyOf(g).changed
	g.lost()
	<-before
	s.awaitWaiting(2)
	s.evidenceBy(judge.SourceLookup, declinedAs(g.record, "no_money"))
	if final := is[Final](t, hears(t, post)); final.Response.Status != 402 {
		t.Errorf("POST answers %+v", final)
	}
	if p := hears(t, get); p.Status != payment.Declined {
		t.Errorf("GET answers %+v", p)
	}
}

// keyOf is what requests wait for.
func (s *shop) keyOf(g *stage) *watchedKey[bool] {
	keys := s.service.waits.keys
	keys.mu.Lock()
	defer keys.mu.Unlock()
	return keys.keys[g.reservation.Ref]
}

func TestRefundIsWaitedForLikeAPayment(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).blind()
	g := s.refunding("refund-000000001", s.charging("paid-00000000001").paidFor(), 100).lost()
	get := background(func() (payment.Refund, bool, error) {
		id := payment.RefundID(g.lease.Subject)
		waited, err := s.service.AwaitRefund(t.Context(), "acme", id, time.Hour)
		if err != nil {
			return payment.Refund{}, waited, err
		}
		r, err := s.service.RefundByID(t.Context(), "acme", id)
		return r, waited, err
	})
	s.awaitWaiting(1)
	s.evidenceBy(judge.SourceLookup, g.record)
	if r := hears(t, get); r.Status != payment.Succeeded || r.PSPRefundID != g.record.ID {
		t.Errorf("answers %+v", r)
	}
}

func TestCommitOfAnotherProcessIsFoundByTheNextRead(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	other := s.elsewhere()
	for name, g := range map[string]*stage{
		"unknown":   s.charging("order-0000000001").lost(),
		"in flight": s.charging("order-0000000002"),
	} {
		post, get := g.waitsFor(time.Hour), g.waitsForPayment(time.Hour)
		s.awaitWaiting(2)
		other.evidenceBy(judge.SourceLookup, g.record)
		if final := is[Final](t, hears(t, post)); !final.Replayed || final.Response.Status != 201 {
			t.Errorf("%s: POST answers %+v", name, final)
		}
		if p := hears(t, get); p.Status != payment.Succeeded {
			t.Errorf("%s: GET answers %+v", name, p)
		}
	}
}

// Nothing was executed: the payment has failed, and that is an outcome.
func TestProofThatNothingWasExecutedEndsTheWait(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	get := g.waitsForPayment(time.Hour)
	s.awaitWaiting(1)
	g.proven()
	if p := hears(t, get); p.Status != payment.Failed {
		t.Errorf("answers %+v", p)
	}
}

func TestWaitThatReachesItsLimitAnswersThePresentState(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	post, get := g.waitsFor(2*lookInterval), g.waitsForPayment(2*lookInterval)
	is[Pending](t, hears(t, post))
	if p := hears(t, get); p.Status != payment.Processing {
		t.Errorf("answers %+v", p)
	}
}

func TestPaymentWithAnOutcomeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{}).blind()
	g := s.charging("order-0000000001").succeeded()
	if p := hears(t, g.waitsForPayment(time.Hour)); p.Status != payment.Succeeded {
		t.Errorf("answers %+v", p)
	}
	waited, err := s.service.AwaitPayment(t.Context(), "globex", g.paymentID(), time.Hour)
	if !errors.Is(err, ErrPaymentNotFound) || !waited {
		t.Errorf("another tenant hears %v", err)
	}
}

// EndWaits is what a shutdown calls.
func TestShutdownAnswersThoseWhoWaitWithThePresentState(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	g := s.charging("order-0000000001").lost()
	post, get := g.waitsFor(time.Hour), g.waitsForPayment(time.Hour)
	s.awaitWaiting(2)
	s.service.EndWaits()
	if h := <-post; h.err != nil || h.waited {
		t.Errorf("POST answers %+v", h)
	} else {
		is[Pending](t, h.answer)
	}
	if h := <-get; h.err != nil || h.waited || h.answer.Status != payment.Processing {
		t.Errorf("GET answers %+v", h)
	}
}
