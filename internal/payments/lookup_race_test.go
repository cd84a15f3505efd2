package payments

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
)

// The PSP takes its time, and the key moves on meanwhile. What the lookup says is then of yesterday.

func TestLookupThatIsOvertakenWritesNothing(t *testing.T) {
	t.Parallel()
	broken := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	answers := map[string]struct {
		list http.HandlerFunc
		set  string // what the key is like when it is asked for
	}{
		"nothing":                   {finds(), "reconcile_after = reconcile_after"},
		"nothing, inside":           {finds(), "unknown_since = clock_timestamp()"},
		"nothing, beyond memory":    {finds(), "reserved_at = reserved_at - interval '25 hours'"},
		"no answer":                 {broken, "lookup_failures = 0"},
		"no answer, budget is over": {broken, "lookup_failures = 3"},
	}
	rivals := map[string]func(*stage){
		"webhook":  func(g *stage) { g.evidenceBy(judge.SourceWebhook, g.record) },
		"resolver": func(g *stage) { g.proven() },
		"retry":    func(g *stage) { g.proven().reserve(g.again()) },
		"retry that is lost again": func(g *stage) {
			m := g.proven().again()
			g.live(g.reserve(m), m, gatewayLost())
			g.windowPasses()
		},
		"pruner": func(g *stage) { g.proven().deleted() },
	}
	for what, c := range answers {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			psp := &actor{}
			s := setupOn(t, psp)
			for who, overtakes := range rivals {
				if what == "nothing, beyond memory" && who != "webhook" {
					continue // nobody may release it
				}
				g := s.charging(key("order", who)).lost().windowPasses()
				s.timePasses("UPDATE idempotency_keys SET "+c.set+" WHERE key = $1", g.key.Key.String())
				h := newHeld(t)
				psp.onLookup(h.before(c.list))
				var after string
				got := whileAsked(h, g.asks, func() {
					overtakes(g)
					after = s.everything()
				})
				if now := s.everything(); got != Moot || now != after {
					t.Errorf("%s: resolved to %q, and wrote to\n%s\nwhich is now\n%s", who, got, after, now)
				}
				s.wantDeadLetters()
			}
		})
	}
}

// asks is resolves for another goroutine.
func (s *stage) asks() LookupResult {
	resolution, err := s.lookUpDue(s.t.Context(),
		idempotency.Due{Ref: s.reservation.Ref, Generation: 1}, patient())
	if err != nil {
		s.t.Error(err)
	}
	return resolution
}

// It counts when it was asked, not when it was answered: what was sent may have arrived in between.
func TestQuestionInsideTheWindowProvesNothingAfterIt(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	h := newHeld(t)
	psp.onLookup(h.before(finds()))
	got := whileAsked(h, g.asks, func() { g.windowPasses() })
	if got != Scheduled {
		t.Errorf("resolved to %q", got)
	}
	g.wantStatus(idempotency.UnknownStatus, 1)
}

// A dead letter that comes while the PSP is asked holds the key as well.
func TestDeadLetterDuringTheQuestionHoldsTheKey(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	h := newHeld(t)
	psp.onLookup(h.before(finds()))
	got := whileAsked(h, g.asks, func() { s.evidenceBy(judge.SourceWebhook, otherAmount.record(g)) })
	if got != Moot {
		t.Errorf("resolved to %q", got)
	}
	g.wantStatus(idempotency.UnknownStatus, 1)
	g.wantMoved(payment.Processing, "")
}

// That the id of one record belongs to another payment says nothing about the next record.
func TestIDThatIsTakenIsAFactOfItsRecordAlone(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	taken := s.charging("order-0000000001").succeeded()
	g := s.charging("order-0000000002").lost().windowPasses()
	psp.onLookup(finds(as(taken.record.ID, g.record), g.record))
	g.resolves(ToOperator)
	g.wantMoved(payment.Succeeded, g.record.ID)
	s.wantDeadLetters(contradicts(g, taken.record.ID))
}

// What was found stays found, whatever the key has become meanwhile.
func TestRecordThatIsFoundCountsWhenTheKeyHasMoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		overtakes func(*stage)
		attempt   int32
		line      string
	}{
		"released": {func(g *stage) { g.proven() }, 1, "lookup failed_retryable>completed"},
		"retried":  {func(g *stage) { g.proven().reserve(g.again()) }, 2, "lookup in_progress>completed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			psp := &actor{}
			s := setupOn(t, psp)
			g := s.charging("order-0000000001").lost().windowPasses()
			h := newHeld(t)
			psp.onLookup(h.before(finds(g.record)))
			got := whileAsked(h, g.asks, func() { c.overtakes(g) })
			if lines := g.timeline(); got != Resolved || lines[len(lines)-1] != c.line {
				t.Errorf("resolved to %q: %s", got, lines)
			}
			g.wantStatus(idempotency.CompletedStatus, c.attempt)
			s.wantDeadLetters()
		})
	}
}

// A key counts as resolved once: by the lookup that has completed it, not by one that finds it completed.
func TestLookupThatOnlyConfirmsIsMoot(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	for who, overtakes := range map[string]func(*stage){
		"webhook": func(g *stage) { g.evidenceBy(judge.SourceWebhook, g.record) },
		"lookup": func(g *stage) {
			psp.onLookup(finds(g.record))
			g.resolves(Resolved)
		},
	} {
		g := s.charging(key("order", who)).lost().windowPasses()
		h := newHeld(t)
		psp.onLookup(h.before(finds(g.record)))
		if got := whileAsked(h, g.asks, func() { overtakes(g) }); got != Moot {
			t.Errorf("%s was faster: resolved to %q", who, got)
		}
		g.wantStatus(idempotency.CompletedStatus, 1)
	}
	s.wantDeadLetters()
}

// What contradicts the request contradicts the result, too, once there is one: an operator must read what was answered
// meanwhile.
func TestContradictionIsHeldAgainstWhatTheKeyHasBecome(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	h := newHeld(t)
	other := otherAmount.record(g)
	psp.onLookup(h.before(finds(other)))
	if got := whileAsked(h, g.asks, func() { s.evidenceBy(judge.SourceWebhook, g.record) }); got != ToOperator &&
		got != Moot {
		t.Errorf("resolved to %q", got)
	}
	g.wantStatus(idempotency.CompletedStatus, 1)
	s.wantDeadLetters(string(deadletters.ContradictsCompleted) + " " + judge.RecordFinding(other.Account, other.ID))
}

// A key may be renewed between the two statements that read it and its movement. The money of one generation would then
// be counted for another.
func TestKeyAndMovementAreOfOneGeneration(t *testing.T) {
	t.Parallel()
	first, second := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	at := func(generation int32, subject uuid.UUID) idempotency.KeyView {
		return idempotency.KeyView{
			Status: idempotency.UnknownStatus, Execution: idempotency.Execution{Subject: subject,
				Generation: generation, Attempt: 3},
		}
	}
	of := func(subject uuid.UUID) *movement {
		return &movement{payment: &payment.Payment{ID: payment.ID(subject)}}
	}
	for name, c := range map[string]struct {
		m    *movement
		view idempotency.KeyView
		want error
	}{
		"the same":           {of(first), at(1, first), nil},
		"another movement":   {of(second), at(1, first), idempotency.ErrNoKey},
		"both are others":    {of(second), at(2, second), idempotency.ErrNoKey},
		"no key":             {nil, idempotency.KeyView{}, idempotency.ErrNoKey},
		"no movement at all": {nil, at(1, first), errNotOurs},
	} {
		if err := standsFor(idempotency.Due{Generation: 1}, c.view, c.m); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The release that a lookup writes last waits for nobody: evidence that comes after it takes it back.
func TestEvidenceAfterTheReleaseTakesItBack(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onLookup(finds())
	p := s.charging("paid-00000000001").paidFor()
	for _, g := range []*stage{s.charging("order-0000000001"), s.refunding("refund-000000001", p, 100)} {
		g.lost().windowPasses().resolves(Resolved)
		g.wantStatus(idempotency.FailedRetryableStatus, 1)
		g.wantMoved(payment.Failed, "")
		is[Completed](t, s.evidenceBy(judge.SourceScan, g.record))
		g.wantMoved(payment.Succeeded, g.record.ID)
	}
	s.wantTotals(p, 100, 100)
}

// Each record is judged by the key as it is then. A postponement of this very lookup is not taken for a step that
// somebody else has made in between: the last record would be written without looking whether the key is still unknown.
func TestEachRecordOfALookupIsJudgedByThePresentKey(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	proxy := s.proxied()
	g := s.charging("order-0000000001").lost().windowPasses()
	odd := func(id string) gateway.Record {
		r := as(id, g.record)
		r.AmountMinor++
		return r
	}
	psp.onLookup(finds(odd("psp_1"), odd("psp_2"), odd("psp_3")))
	held := proxy.On("OpenDeadLetter", pgproxy.HoldBefore)
	result := make(chan LookupResult, 1)
	go func() { result <- g.asks() }()
	for range 2 {
		held.Await(t)
		next := proxy.On("OpenDeadLetter", pgproxy.HoldBefore)
		held.Release()
		held = next
	}
	held.Await(t)
	is[Completed](t, s.evidenceBy(judge.SourceWebhook, g.record))
	held.Release()
	if r := <-result; r != ToOperator {
		t.Errorf("the lookup ends with %s", r)
	}
	s.wantDeadLetters(contradicts(g, "psp_1"), contradicts(g, "psp_2"), "contradicts_completed record acme psp_3")
}

// Between two records, the key is read again. If that fails, the lookup has failed.
func TestLookupThatCannotReadItsKeyAgainIsAnError(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	proxy := s.proxied()
	g := s.charging("order-0000000001").lost().windowPasses()
	odd := g.record
	odd.AmountMinor++
	psp.onLookup(finds(odd))
	held := proxy.On("PostponeKey", pgproxy.HoldBefore)
	failed := make(chan error, 1)
	go func() {
		due := idempotency.Due{Ref: g.reservation.Ref, Generation: 1}
		result, err := s.lookUpDue(t.Context(), due, patient())
		if err == nil {
			err = errors.New(string(result))
		}
		failed <- err
	}()
	held.Await(t)
	cut := proxy.On("FindKey", pgproxy.CutBefore)
	held.Release()
	if err := <-failed; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the lookup ends with %v", err)
	}
	cut.Await(t)
}
