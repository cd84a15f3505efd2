package payments

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
)

// An owner that comes back when others have taken its key over.

// leaseEnds lets the key's lease run out.
func (s *stage) leaseEnds() *stage {
	s.t.Helper()
	s.timePasses("UPDATE idempotency_keys SET locked_until = clock_timestamp() WHERE key = $1", s.key.Key.String())
	return s
}

// swept lets the lease run out, and the sweeper pass.
func (s *stage) swept() *stage {
	s.t.Helper()
	s.leaseEnds()
	err := pgx.BeginFunc(s.t.Context(), s.pool, func(tx pgx.Tx) error {
		due, err := s.keys.SweepTx(s.t.Context(), tx, 10, time.Minute)
		if len(due) != 1 || due[0].Ref != s.reservation.Ref {
			s.t.Errorf("swept %v", due)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return s
}

// proven has the swept key looked up in vain, after the grace period.
func (s *stage) proven() *stage {
	s.t.Helper()
	s.windowPasses()
	seen, err := s.service.gather(s.t.Context(), s.lease.Execution())
	if err != nil {
		s.t.Fatal(err)
	}
	step := judge.Judge(seen.seen, judge.Nothing{Policy: patient()})
	applied, err := s.service.apply(s.t.Context(), seen, step)
	if err != nil || !applied.Passed || s.row().Status != idempotency.FailedRetryableStatus {
		s.t.Fatalf("released %v: %v", applied.Passed, err)
	}
	return s
}

func (s *stage) success() gateway.Succeeded { return gateway.Succeeded{ID: s.record.ID} }

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

// key makes one of a name.
func key(prefix, name string) string {
	k := []byte(prefix + "-0000000000-" + name)
	for i := range k {
		if k[i] == ' ' {
			k[i] = '-'
		}
	}
	return string(k)
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
		if err := g.movement.load(t.Context(), g.lease.Subject); err != nil ||
			g.movement.rowVerdict().Status != payment.Succeeded {
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

// The key has moved, and cannot be read again. The error is that of the read, and the step is not sent again.
func TestStepIsNotRepeatedWhenTheKeyCannotBeReadAgain(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").lost().windowPasses()
	seen := g.gathers()
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
	before := proxy.Sent("ReleaseUnknownKey")
	proxy.OnNext(9, "FindKey", pgproxy.CutBefore)
	_, _, _, err := s.service.judgeAndApply(t.Context(), seen, judge.Nothing{Policy: patient()})
	if n := proxy.Sent("ReleaseUnknownKey") - before; !errors.Is(err, io.ErrUnexpectedEOF) || n != 1 {
		t.Errorf("sent %d times: %v", n, err)
	}
}

// Leases, grace periods and proofs are matters of the database's clock. A process whose own one is ten minutes off,
// which is more than either, does what any other does.
func TestClockOfTheProcessDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			psp := &actor{}
			server := httptest.NewServer(psp)
			t.Cleanup(server.Close)
			s := setupAt(t, server.URL, func() time.Time { return time.Now().Add(off) })

			psp.onPost(executes("psp_live"))
			if f := is[Final](t, s.create("order-0000000001", order())); f.Response.Status != http.StatusCreated {
				t.Fatalf("answered %+v", f)
			}
			psp.onPost(breaks)
			is[Pending](t, s.create("order-0000000002", order()))

			// Nothing is swept whose lease lasts by the database's clock, and what is over is.
			g := s.charging("order-0000000003")
			err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
				due, err := s.keys.SweepTx(t.Context(), tx, 10, time.Minute)
				if len(due) != 0 {
					t.Errorf("swept %d living leases", len(due))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			is[InFlight](t, s.create("order-0000000003", order()))
			g.swept()

			psp.onLookup(finds())
			g.resolves(Scheduled)
			s.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - $1::interval WHERE key = 'order-0000000003'",
				terms().GracePeriod-20*time.Second)
			g.resolves(Scheduled)
			g.wantStatus(idempotency.UnknownStatus, 1)
			s.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - interval '20 seconds' WHERE key = 'order-0000000003'")
			g.resolves(Resolved)
			g.wantStatus(idempotency.FailedRetryableStatus, 1)

			psp.onPost(executes("psp_again"))
			if f := is[Final](t, s.create("order-0000000003", order())); f.Replayed ||
				f.Response.Status != http.StatusCreated {
				t.Fatalf("the retry was answered %+v", f)
			}
			g.wantStatus(idempotency.CompletedStatus, 2)
		})
	}
}
