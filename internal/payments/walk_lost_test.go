package payments

import (
	"context"
	"errors"
	"io"
	"testing"

	"payonce/internal/gateway"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
)

// Each of a walk's three writes is done and never acknowledged. The run says so, and the next run goes on from what is
// there.
func TestWalkWhoseAcknowledgementIsLostIsGoneOnWith(t *testing.T) {
	t.Parallel()
	for _, write := range []string{"BeginWalk", "AdvanceWalk", "EndWalk"} {
		t.Run(write, func(t *testing.T) {
			t.Parallel()
			psp := &bookkeeper{page: 1}
			s := setupScan(t, psp)
			psp.records = ledgerOf(s.lostOnes(3))
			proxy := pgproxy.Start(t, s.pool.Config().ConnString())
			db, err := postgres.Open(context.Background(), proxy.URL(), pgtest.Limits())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			s.service.db = db
			lost := proxy.On(write, pgproxy.DropAcknowledgement)
			_, err = s.service.Scan(t.Context(), gateway.ChargeObject, "acme", overlap, 9, nil, func(Effect) {})
			lost.Await(t)
			var ambiguous *postgres.AmbiguousError
			if !errors.As(err, &ambiguous) || postgres.RolledBack(err) {
				t.Fatalf("the run ended with %v", err)
			}
			_, to, err := s.scan(9)
			if err != nil || to != ReachedEnd {
				t.Fatalf("the next run: %s, %v", to, err)
			}
			s.wantWatermark(psp.records[2])
			if n := s.count("SELECT count(*) FROM payments WHERE status = 'succeeded'"); n != 3 {
				t.Errorf("%d payments are resolved", n)
			}
		})
	}
}

// What a run could not read or write is read again by the next one: the position stays before it.
func TestRunThatLosesAStatementDoesNotPassOverItsPage(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"TenantOfAccount", "BookedMovements", "FindPayment", "OpenDeadLetter"} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			psp := &bookkeeper{page: 2}
			s := setupScan(t, psp)
			psp.records = ledgerOf(s.lostOnes(2))
			psp.pending = psp.records[0].ID
			proxy := s.proxied()
			cut := proxy.On(statement, pgproxy.CutBefore)
			if completed, to, err := s.scan(9); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("completed %d, %s, %v", completed, to, err)
			}
			cut.Await(t)
			passed := "SELECT count(*) FROM ledger_watermarks WHERE account = 'acme' AND object = 'charge' AND scanned_to >= $1"
			if s.count(passed, psp.records[0].Created) > 0 {
				t.Errorf("the position is behind the page: %s", s.texts("SELECT w::text FROM ledger_watermarks AS w"))
			}
			s.wantScan(9, 1, ReachedEnd)
			s.wantWatermark(psp.records[1])
		})
	}
}
