package payments

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/internal/postgres"
	"payonce/internal/telemetry"
	"payonce/test/pgproxy"
)

// closedPSP is a PSP whose circuit breaker is open.
type closedPSP struct{ gateway.PSP }

func (closedPSP) Ready(string) bool { return false }

// withoutPSP is the same shop while the breaker is open.
func (s *shop) withoutPSP() *shop {
	other := *s
	other.service = New(Config{
		DB: s.service.db, Keys: s.service.keys,
		PSPs:  gateway.PSPs{native.Name: closedPSP{s.service.psps.Of(native.Name)}},
		NewID: uuid.NewV7, Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
		Log: slog.New(slog.DiscardHandler), PublicURL: "https://pay.example", Deadline: 30 * time.Second,
	})
	return &other
}

// inShort is an answer in one line: its kind, and whose resource it has, in which status.
func inShort(a Answer, own uuid.UUID) string {
	resource := func(r payment.Resource) string {
		p, is := r.(payment.Payment)
		switch {
		case !is:
			return "of nothing"
		case uuid.UUID(p.ID) == own:
			return "of the payment, " + string(p.Status)
		}
		return "of another payment"
	}
	switch a := a.(type) {
	case Final:
		return fmt.Sprintf("final %d, replayed %t", a.Response.Status, a.Replayed)
	case Pending:
		return fmt.Sprintf("pending %s, recalled %t", resource(a.Resource), a.Recalled)
	case InFlight:
		return "in flight " + resource(a.Resource)
	case NotExecuted:
		return fmt.Sprintf("not executed %s, expires %t", resource(a.Resource), !a.Expires.IsZero())
	case Mismatch:
		return "mismatch"
	case Forgotten:
		return "forgotten"
	case Held:
		return "held"
	}
	return fmt.Sprintf("%T", a)
}

// keyFor is a key of a case's own.
func keyFor(name string) string {
	return "order-0000000042-" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
}

// A request with a key that is known is answered by the state of the key, with the breaker closed or open. While it is
// open, nothing is reserved.
func TestAnswerIsThatOfTheKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const leaseOver = "UPDATE idempotency_keys SET locked_until = clock_timestamp() WHERE key = $1"
	const forgotten = "UPDATE idempotency_keys SET reserved_at = reserved_at - interval '25 hours' WHERE key = $1"
	const none = "not executed of nothing, expires false"
	for name, c := range map[string]struct {
		state   func(*stage)
		asks    string // the payment method, if it is another request
		open    string // the answer while the breaker is open
		closed  string // and otherwise; empty: the key is executed
		written bool   // the request itself moves the key while the breaker is closed
	}{
		"in flight": {state: func(*stage) {}, open: "in flight of the payment, processing",
			closed: "in flight of the payment, processing"},
		"whose lease is over": {state: func(g *stage) { g.timePasses(leaseOver, g.key.Key.String()) },
			open:   "pending of the payment, processing, recalled true",
			closed: "pending of the payment, processing, recalled true", written: true},
		"unknown": {state: func(g *stage) { g.lost() }, open: "pending of the payment, processing, recalled true",
			closed: "pending of the payment, processing, recalled true"},
		"succeeded": {state: func(g *stage) { g.succeeded() }, open: "final 201, replayed true",
			closed: "final 201, replayed true"},
		"declined": {state: func(g *stage) { g.declined() }, open: "final 402, replayed true",
			closed: "final 402, replayed true"},
		"failed": {state: func(g *stage) { g.failed() }, open: "not executed of the payment, failed, expires true"},
		"failed, and forgotten by the PSP": {state: func(g *stage) {
			g.failed().timePasses(forgotten, g.key.Key.String())
		}, open: "not executed of the payment, failed, expires true", closed: "forgotten"},
		"expired": {state: func(g *stage) { g.succeeded().expired() }, open: none},
		"deleted": {state: func(g *stage) { g.succeeded().deleted() }, open: none},
		"of another request": {state: func(g *stage) { g.succeeded() }, asks: "pm_card_declined",
			open: "mismatch", closed: "mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			key := keyFor(name)
			shop := *s
			shop.t = t
			g := shop.charging(key)
			c.state(g)
			asked := orderBy(cmp.Or(c.asks, "pm_ok"))
			before := shop.everything()
			if got := inShort(shop.withoutPSP().create(key, asked), g.lease.Subject); got != c.open {
				t.Errorf("with an open breaker: %s, want %s", got, c.open)
			}
			if after := shop.everything(); after != before {
				t.Errorf("with an open breaker, a request has written:\n%s\n%s", before, after)
			}
			if c.closed == "" {
				return
			}
			if got := inShort(shop.create(key, asked), g.lease.Subject); got != c.closed {
				t.Errorf("%s, want %s", got, c.closed)
			}
			if written := shop.everything() != before; written != c.written {
				t.Errorf("written is %t", written)
			}
		})
	}
}

// The row of the payment is read after the key. If evidence has come in between, the answer is the verdict, and never a
// body that says one thing under a status that says another.
func TestVerdictThatCameAfterTheReadingOfTheKeyIsTheAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const otherwise = "in flight of nothing"
	for name, c := range map[string]struct {
		state func(*stage)
		want  string
	}{
		"nothing has come": {func(*stage) {}, otherwise},
		"succeeded":        {func(g *stage) { g.succeeded() }, "final 201, replayed true"},
		"declined":         {func(g *stage) { g.declined() }, "final 402, replayed true"},
		"failed": {func(g *stage) { g.failed() },
			"not executed of the payment, failed, expires true"},
		"succeeded and expired":     {func(g *stage) { g.succeeded().expired() }, otherwise},
		"succeeded, and used again": {func(g *stage) { g.succeeded().renewed() }, otherwise},
		"succeeded, and used again with success": {func(g *stage) {
			g.succeeded().expired().charging(g.key.Key.String()).succeeded()
		}, otherwise},
	} {
		t.Run(name, func(t *testing.T) {
			shop := *s
			shop.t = t
			g := shop.charging(keyFor(name))
			c.state(g)
			answer, err := s.service.unfinished(t.Context(), g.again(), idempotency.KeyRow{Ref: g.reservation.Ref,
				Subject: g.lease.Subject, Expires: time.Now().Add(time.Hour)},
				func(*movement, time.Time) Answer { return InFlight{} })
			if err != nil {
				t.Fatal(err)
			}
			if got := inShort(answer, g.lease.Subject); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// What cannot be read is no answer.
func TestKeyThatCannotBeReadHasNoAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000042").succeeded()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	unfinished := func(ctx context.Context, subject uuid.UUID) error {
		_, err := s.service.unfinished(ctx, g.again(), idempotency.KeyRow{Ref: g.reservation.Ref, Subject: subject},
			inFlight)
		return err
	}
	for name, ask := range map[string]func() error{
		"the key, with an open breaker": func() error {
			_, err := s.withoutPSP().service.Create(ended, g.key, order())
			return err
		},
		"the payment": func() error { return unfinished(t.Context(), uuid.New()) },
		// A mismatch is for good, so it is told of a row that was read again.
		"the row of a mismatch": func() error {
			_, err := s.service.answerDecision(ended, g.reservation.Ref, idempotency.Mismatch{}, nil)
			return err
		},
	} {
		if err := ask(); err == nil {
			t.Errorf("%s could not be read, and there was an answer", name)
		}
	}
	g.deleted()
	if err := unfinished(t.Context(), g.lease.Subject); err == nil {
		t.Error("the key is gone, and there was an answer")
	}
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

// Nothing is told of a payment that cannot be read, also if the PSP is not asked.
func TestFailedPaymentThatCannotBeReadIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.charging("order-0000000044").failed()
	s.proxied().On("GetPayment", pgproxy.CutBefore)
	answer, err := s.withoutPSP().service.Create(t.Context(), keyed(t, "order-0000000044"), order())
	if !postgres.Unavailable(err) {
		t.Errorf("answered %T %+v: %v", answer, answer, err)
	}
}

// While the PSP is not asked at all, the answer must not say that nothing was charged.
func TestHeldKeyIsNotCalledUnexecutedWhileTheBreakerIsOpen(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g := s.charging("order-0000000001").failed().deleted()
	is[DeadLettered](t, s.evidenceBy(judge.SourceScan, g.record))
	r := s.keys.NewReservation(g.reservation.Ref, g.reservation.Fingerprint, uuid.New(), uuid.New())
	answer, err := s.service.refuse(t.Context(), r, g.again(), nil)
	if err != nil {
		t.Fatal(err)
	}
	is[Held](t, answer)
}
