package payments

import (
	"errors"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/postgres"
	"payonce/test/pgtest"
)

// Of a walk that has failed for the last time, an operator reads why. If that cannot be written, it is an error.
func TestFailedWalkIsWrittenWithItsCause(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &actor{})
	const lastFailure = "UPDATE ledger_watermarks SET failed_runs = 11, resume_after = scanned_to, walk_began = $1"
	began := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	if _, err := s.service.beginWalk(t.Context(), gateway.ChargeObject, "acme", 0); err != nil {
		t.Fatal(err)
	}
	failed := walk{account: "acme", object: gateway.ChargeObject, began: began}

	s.timePasses(lastFailure, began)
	makeID := s.service.newID
	s.service.newID = noID
	err := s.service.failWalk(t.Context(), failed, nil)
	if err == nil || !strings.Contains(err.Error(), "make dead letter id") {
		t.Errorf("without an id: %v", err)
	}
	s.service.newID = makeID
	pool, outage := pgtest.WithOutage(t, s.pool)
	s.service.db = postgres.Wrap(pool, patience)
	for _, statement := range []string{"LockLedgers", "FailWalk"} {
		outage.On("name: "+statement, 1)
		if err := s.service.failWalk(t.Context(), failed, nil); err == nil {
			t.Errorf("%s has failed, and it is no error", statement)
		}
	}
	outage.Over()
	other := failed
	other.began = began.Add(time.Hour)
	if err := s.service.failWalk(t.Context(), other, nil); err != nil {
		t.Errorf("a walk that is over: %v", err)
	}
	s.wantDeadLetters()

	for cause, want := range map[error]string{
		errors.New("the PSP answered 500"): "the PSP answered 500",
		nil:                                "without getting on",
	} {
		s.dismiss()
		began = began.Add(time.Minute)
		failed.began = began
		s.timePasses(lastFailure, began)
		if err := s.service.failWalk(t.Context(), failed, cause); err != nil {
			t.Fatal(err)
		}
		reasons := s.texts("SELECT reason FROM dead_letters WHERE status = 'open'")
		if len(reasons) != 1 || !strings.HasSuffix(reasons[0], want) {
			t.Errorf("the reasons are %q, want one that ends with %q", reasons, want)
		}
	}
}
