package payments

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
	"payonce/test/pgproxy"
)

// A step that was refused is judged once more. What has refused it counts only for the state that it was judged from:
// for another one, it would open a dead letter about nothing. A lookup that somebody has asked for stays asked for.
func TestRefusalCountsForTheStateThatWasJudged(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	seen := s.charging("order-0000000001").lost().gathers()
	taken := &pgconn.PgError{ConstraintName: "payments_psp_charge_unique"}
	for name, c := range map[string]struct {
		edit         func(*gathered)
		taken, woken bool
	}{
		"as it was":             {func(*gathered) {}, true, false},
		"with another status":   {func(g *gathered) { g.seen.Status = idempotency.InProgressStatus }, false, false},
		"of another attempt":    {func(g *gathered) { g.seen.Key.Attempt++ }, false, false},
		"due at another time":   {func(g *gathered) { g.due = g.due.Add(1000) }, true, true},
		"asked for once before": {func(g *gathered) { g.seen.Woken = true }, true, true},
	} {
		judged := seen
		c.edit(&judged)
		fresh, err := s.service.gatherAgain(t.Context(), judged, taken)
		if err != nil || fresh.seen.IDTaken != c.taken || fresh.seen.Woken != c.woken {
			t.Errorf("%s: taken is %t, woken is %t, %v", name, fresh.seen.IDTaken, fresh.seen.Woken, err)
		}
	}
	other := seen.seen.Own
	other.Subject = uuid.Must(uuid.NewV7())
	if g, err := s.service.gather(t.Context(), other); !errors.Is(err, errNotOurs) {
		t.Errorf("of a payment that is not there, %+v is read, %v", g, err)
	}
}

// A database that does not answer has not said that the key is gone, or that a record is about nothing of ours.
func TestKeyThatIsNotReadIsNotGone(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	proxy := s.proxied()
	g := s.charging("order-0000000001").lost().windowPasses()
	proxy.On("FindKey", pgproxy.CutBefore)
	effect, err := s.service.ApplyRecord(t.Context(), judge.Record{Source: judge.SourceWebhook, Record: g.record})
	if err == nil {
		t.Errorf("the record came to %T", effect)
	}
	s.wantDeadLetters()
	due := idempotency.Due{Ref: g.reservation.Ref, Generation: 1}
	cut := proxy.On("FindKey", pgproxy.CutBefore)
	if _, err := s.service.gatherDue(t.Context(), due); err == nil || errors.Is(err, idempotency.ErrNoKey) {
		t.Errorf("a key that was not read: %v", err)
	}
	cut.Await(t)
}

// Only a record that refers to another payment needs a question to the database.
func TestRecordOfTheKeysOwnPaymentNeedsNoQuestion(t *testing.T) {
	t.Parallel()
	psp := &actor{}
	s := setupOn(t, psp)
	proxy := s.proxied()
	g := s.charging("order-0000000001").lost()
	bare, strange, unknown := as("psp_bare", g.record), as("psp_strange", g.record), as("psp_unknown", g.record)
	bare.Reference, strange.Reference = "", "order 42"
	unknown.Reference = payment.ID(uuid.Must(uuid.NewV7())).String()
	ask := func(records ...gateway.Record) []string {
		psp.onLookup(finds(records...))
		answer, others, _, err := s.service.ask(t.Context(), g.gathers(), gateway.EndNothing)
		if err != nil || len(others) != 0 {
			t.Fatal(others, err)
		}
		return idsOf(is[gateway.Found](t, answer).Records)
	}
	if ids := ask(g.record, bare, strange); len(ids) != 3 || proxy.Sent("OtherMovementsOfKey") != 0 {
		t.Errorf("%q, after %d questions", ids, proxy.Sent("OtherMovementsOfKey"))
	}
	if ids := ask(g.record, bare, unknown); len(ids) != 3 || proxy.Sent("OtherMovementsOfKey") != 1 {
		t.Errorf("%q, after %d questions", ids, proxy.Sent("OtherMovementsOfKey"))
	}
}
