package payments

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// patient are terms under which no test waits, and every wait can be told from the others.
func patient() judge.LookupPolicy {
	return judge.LookupPolicy{
		Budget: 4, Base: 10 * time.Second, Cap: 30 * time.Second, Recheck: 10 * time.Minute,
	}
}

// resolve asks the PSP for a key of generation 1, once.
func (s *shop) resolve(operation idempotency.Operation, key string) LookupResult {
	s.t.Helper()
	ref := idempotency.Ref{Tenant: "acme", Operation: operation, Key: keyed(s.t, key).Key}
	resolution, err := s.lookUpDue(s.t.Context(),
		idempotency.Due{Ref: ref, Generation: 1}, patient())
	if err != nil {
		s.t.Fatal(err)
	}
	return resolution
}

func (s *shop) wantResolution(want LookupResult, operation idempotency.Operation, key string) {
	s.t.Helper()
	if got := s.resolve(operation, key); got != want {
		s.t.Fatalf("resolved to %q, want %q", got, want)
	}
}

// resolves asks for the stage's key.
func (s *stage) resolves(want LookupResult) {
	s.t.Helper()
	s.wantResolution(want, s.reservation.Ref.Operation, s.key.Key.String())
}

// wantWait compares the time to the next lookup, as it was when the latest line of the timeline was written.
func (s *stage) wantWait(want time.Duration) {
	s.t.Helper()
	s.shop.wantWait(s.key.Key.String(), want)
}

func (s *shop) wantWait(key string, want time.Duration) {
	s.t.Helper()
	seconds := pgtest.Value[float64](s.t, s.pool, `SELECT extract(epoch FROM k.reconcile_after - e.at)
		FROM idempotency_keys AS k JOIN idempotency_key_events AS e USING (tenant_id, operation, key)
		WHERE k.key = $1 ORDER BY e.id DESC LIMIT 1`, key)
	// That line was written with it, or a little before: one that would say the same again is left out.
	if wait := time.Duration(seconds * float64(time.Second)); wait > want+want/10 || wait < want-want/10 {
		s.t.Fatalf("the next lookup is in %v, want %v", wait, want)
	}
}

func TestLookupThatFindsCompletes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.paid("paid-00000000001")
	for _, method := range []string{"pm_silent_charged", "pm_500_charged", "pm_reset_charged"} {
		is[Pending](t, s.create(key("order", method), orderBy(method)))
		s.wantResolution(Resolved, payment.CreateOperation, key("order", method))
		if f := is[Final](t, s.create(key("order", method), orderBy(method))); !f.Replayed ||
			f.Response.Status != http.StatusCreated {
			t.Errorf("%s: the retry was answered %+v", method, f)
		}

		k := keyed(t, key("refund", method))
		refund := func() Answer {
			answer, err := s.service.Refund(t.Context(), k, p.ID,
				payment.RefundRequest{AmountCents: 100, Reason: method})
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		is[Pending](t, refund())
		s.wantResolution(Resolved, payment.RefundOperation, k.Key.String())
		if f := is[Final](t, refund()); !f.Replayed || f.Response.Status != http.StatusCreated {
			t.Errorf("%s: the refund's retry was answered %+v", method, f)
		}
	}
	s.wantTotals(p, 300, 300)
	s.wantDeadLetters()
}

func TestLookupThatFindsARefusalCompletesAsOne(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost()
	psp.onLookup(finds(declinedAs(g.record, "no_money")))
	g.resolves(Resolved)
	g.wantMoved(payment.Declined, g.record.ID)
	if f := is[Final](t, s.create("order-0000000001", order())); f.Response.Status != http.StatusPaymentRequired {
		t.Fatalf("the retry was answered %+v", f)
	}
	g.wantTimeline("owner in_progress>unknown", "lookup unknown>completed")
}

// "Nothing" is a proof only of what was asked after the grace period.
func TestLookupThatFindsNothingReleasesAfterTheWindowAlone(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.faults(`{"500_not_charged":1}`)
	is[Pending](t, s.create("order-0000000001", order()))
	k := keyed(t, "order-0000000001")
	g := &stage{shop: s, t: t, key: k, reservation: s.reservation(payment.CreateOperation, k)}
	g.resolves(Scheduled)
	g.wantStatus(idempotency.UnknownStatus, 1)
	g.wantWait(patient().Cap)
	is[Pending](t, s.create("order-0000000001", order()))

	g.windowPasses()
	g.resolves(Resolved)
	row := g.wantStatus(idempotency.FailedRetryableStatus, 1)
	if n := s.count("SELECT count(*) FROM payments WHERE id = $1 AND status = 'failed'", row.Subject); n != 1 {
		t.Fatal("the payment did not fail with its key")
	}
	g.resolves(Moot)

	s.faults(`{}`)
	if f := is[Final](t, s.create("order-0000000001", order())); f.Replayed || f.Response.Status != http.StatusCreated {
		t.Fatalf("the retry was answered %+v", f)
	}
	g.wantStatus(idempotency.CompletedStatus, 2)
	g.wantTimeline("owner in_progress>unknown", "lookup unknown>unknown", "lookup unknown>failed_retryable",
		"request failed_retryable>in_progress")
	if n := s.count("SELECT count(*) FROM payments"); n != 1 {
		t.Fatalf("%d payments", n)
	}
	if ledger := s.ledger("order-0000000001"); strings.Count(ledger, `"succeeded"`) != 1 {
		t.Fatalf("the PSP's ledger is %s", ledger)
	}
}

// Near its end, the window is what is waited for.
func TestLookupComesAgainWhenTheWindowIsOver(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onLookup(finds())
	g := s.charging("order-0000000001").lost()
	s.exec("UPDATE idempotency_keys SET unknown_since = unknown_since - $1::interval",
		terms().GracePeriod-20*time.Second)
	g.resolves(Scheduled)
	var late float64
	if err := s.pool.QueryRow(t.Context(),
		"SELECT extract(epoch FROM reconcile_after - unknown_since - $1::interval) FROM idempotency_keys",
		terms().GracePeriod).Scan(&late); err != nil || late < 0 || late > 5 {
		t.Fatalf("the next lookup is %v s after the window's end: %v", late, err)
	}
}

// faults sets the mock PSP's random ones.
func (s *shop) faults(rates string) {
	s.t.Helper()
	s.mockPSP(http.MethodPut, "/_faults", `{"rates":`+rates+`}`)
}

// ledger is what the mock PSP has really charged under a key.
func (s *shop) ledger(key string) string {
	s.t.Helper()
	return s.mockPSP(http.MethodGet, "/_ledger?idempotencyKey="+key, "")
}

func (s *shop) mockPSP(method, path, body string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.pspURL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s: %v", method, path, res.StatusCode, raw, err)
	}
	return string(raw)
}

// What is decided, or somebody else's, is not even asked for.
func TestResolvingWhatIsNotUnknownIsMoot(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	psp.onLookup(finds())
	for name, bring := range map[string]func(*stage){
		"in progress": func(*stage) {}, "failed retryable": func(g *stage) { g.failed() },
		"succeeded": func(g *stage) { g.succeeded() },
		"expired":   func(g *stage) { g.failed().expired() }, "deleted": func(g *stage) { g.failed().deleted() },
		"of the next generation": func(g *stage) {
			m := g.failed().expired().again()
			g.live(g.reserve(m), m, gatewayLost())
			g.windowPasses()
		},
	} {
		g := s.charging(key("order", name))
		bring(g)
		before := s.everything()
		g.resolves(Moot)
		if _, lookups := psp.seen(); lookups != 0 || s.everything() != before {
			t.Errorf("%s: asked %d times, moved %v", name, lookups, s.everything() != before)
		}
	}
	s.wantDeadLetters()
}

// Jobs run twice, and at the same time.
func TestResolvingAgainAndAtOnceIsHarmless(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		psp   func(*stage) http.HandlerFunc
		ended idempotency.Status
		lines int // of the timeline, without those of postponed lookups
	}{
		"found":     {func(g *stage) http.HandlerFunc { return finds(g.record) }, idempotency.CompletedStatus, 2},
		"not found": {func(*stage) http.HandlerFunc { return finds() }, idempotency.FailedRetryableStatus, 2},
		"broken":    {func(*stage) http.HandlerFunc { return nil }, idempotency.UnknownStatus, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			psp := &actor{}
			s := setupOn(t, psp)
			g := s.charging("order-0000000001").lost().windowPasses()
			psp.onLookup(c.psp(g))
			for range 2 {
				wait.AtOnce(4, func(int) {
					if _, err := s.lookUpDue(t.Context(), idempotency.Due{Ref: g.reservation.Ref,
						Generation: 1}, patient()); err != nil {
						t.Error(err)
					}
				})
				g.wantStatus(c.ended, 1)
			}
			if n := s.count("SELECT count(*) FROM idempotency_key_events WHERE from_status <> to_status"); n != c.lines {
				t.Errorf("%d transitions: %s", n, g.timeline())
			}
			if n := s.count("SELECT count(*) FROM dead_letters"); n > 1 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

// A resolver whose database is away has decided nothing, and says so.
func TestResolvingWithoutADatabaseIsAnError(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	g := s.charging("order-0000000001").lost().windowPasses()
	for name, answer := range map[string]http.HandlerFunc{"found": finds(g.record), "not found": finds(),
		"broken": nil} {
		h := newHeld(t)
		psp.onLookup(h.before(func(w http.ResponseWriter, r *http.Request) {
			if answer == nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			answer(w, r)
		}))
		err := whileAsked(h, func() error {
			resolution, err := s.lookUpDue(t.Context(),
				idempotency.Due{Ref: g.reservation.Ref, Generation: 1}, patient())
			if err == nil {
				return fmt.Errorf("resolved to %s", resolution)
			}
			return errors.Unwrap(err)
		}, func() { s.exec("ALTER TABLE idempotency_keys RENAME TO away") })
		s.exec("ALTER TABLE away RENAME TO idempotency_keys")
		if err == nil || strings.HasPrefix(err.Error(), "resolved") {
			t.Errorf("%s: %v", name, err)
		}
		g.wantStatus(idempotency.UnknownStatus, 1)
	}
}
