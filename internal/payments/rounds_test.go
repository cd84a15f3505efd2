package payments

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/internal/deadletters"
	"payonce/internal/idempotency"
	"payonce/internal/judge"
	"payonce/internal/payment"
)

// setupRefusing is setup with a PSP that refuses, once it is told to, for a reason that we do not know: it counts how
// often.
func setupRefusing(t *testing.T) (s *shop, refuses *atomic.Bool, refused *atomic.Int32) {
	t.Helper()
	refuses, refused = &atomic.Bool{}, &atomic.Int32{}
	config := mockpsp.DefaultConfig()
	config.Secret, config.HangLimit = pspSecret, time.Millisecond
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
	})
	return setupOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && refuses.Load() {
			refused.Add(1)
			http.Error(w, `{"error":{"code":"contract_ended"}}`, http.StatusBadRequest)
			return
		}
		mock.ServeHTTP(w, r)
	})), refuses, refused
}

// A client that repeats its key for ever is lost, released and sent again: a bounded number of times. Then a person
// finds out why, and the PSP is asked for nothing more.
func TestKeyThatIsLostAgainAndAgainComesToAnEnd(t *testing.T) {
	t.Parallel()
	s, refuses, refused := setupRefusing(t)
	p := s.paid("paid-00000000001")
	refuses.Store(true)
	charge := func(k Keyed) Answer { return s.create(k.Key.String(), order()) }
	refund := func(k Keyed) Answer {
		answer, err := s.service.Refund(t.Context(), k, p.ID, payment.RefundRequest{AmountCents: 100})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for operation, ask := range map[idempotency.Operation]func(k Keyed) Answer{
		payment.CreateOperation: charge, payment.RefundOperation: refund,
	} {
		refused.Store(0)
		k := keyed(t, "again-and-again-001")
		g := &stage{shop: s, t: t, key: k, reservation: s.reservation(operation, k)}
		for range 2 * judge.MostAttempts {
			is[Pending](t, ask(k))
			g.windowPasses()
			s.resolve(operation, k.Key.String())
		}
		if n := refused.Load(); n != judge.MostAttempts {
			t.Errorf("%s: sent %d times, want %d", operation, n, judge.MostAttempts)
		}
		g.wantStatus(idempotency.UnknownStatus, judge.MostAttempts)
		g.wantWait(patient().Recheck)
	}
	if n := s.count("SELECT count(*) FROM dead_letters WHERE kind = $1 AND status = 'open'",
		deadletters.LookupsExhausted); n != 2 {
		t.Errorf("%d dead letters, want one for each key", n)
	}
}
