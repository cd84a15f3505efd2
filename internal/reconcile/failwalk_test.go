package reconcile

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/postgres"
	"payonce/test/pgproxy"
	"payonce/test/pgtest"
	"payonce/test/wait"
)

// What becomes of a scan that cannot go on, or that meets records that it cannot read.

// runs scans acme's list n times and tells whether all runs have failed.
func (s *books) runs(n int, o gateway.Object) (failed bool) {
	s.t.Helper()
	failed = true
	for range n {
		if _, _, err := s.Scan(s.t.Context(), o, "acme", 9, nil); err == nil {
			failed = false
		}
	}
	return failed
}

func (s *books) wantFailing(open, failedRuns int) {
	s.t.Helper()
	if n := s.count("SELECT count(*) FROM dead_letters WHERE kind = 'scan_failing' AND finding ~ '^ledger acme (charge|refund) ' AND status = 'open'"); n != open {
		s.t.Fatalf("%d dead letters, want %d: %s", n, open, s.texts("SELECT d::text FROM dead_letters AS d"))
	}
	if n := s.count("SELECT failed_runs FROM ledger_watermarks WHERE account = 'acme' AND object = 'charge'"); n != failedRuns {
		s.t.Fatalf("%d failed runs are counted, want %d", n, failedRuns)
	}
}

// dismiss closes all dead letters, as an operator does.
func (s *books) dismiss() {
	s.t.Helper()
	s.exec(`UPDATE dead_letters SET status = 'resolved', version = version + 1, resolved_at = clock_timestamp(), action = 'dismiss', actor = 'a',
		resolution_reason = 'seen' WHERE status = 'open'`)
}

// Of an account whose ledger cannot be read an operator hears, once; and the scan goes on trying from the same place.
func TestScanThatFailsAgainAndAgainIsAnOperatorsCase(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 2, breakAt: 2}
	s := setupScan(t, psp)
	psp.records = ledgerOf(s.lostOnes(5))
	if !s.runs(1, gateway.ChargeObject) { // gets on, and fails
		t.Fatal("a PSP that is broken was read")
	}
	psp.breakAt = 1
	s.runs(scanBudget-2, gateway.ChargeObject)
	s.wantFailing(0, scanBudget-1)
	s.runs(1, gateway.ChargeObject)
	s.wantFailing(1, scanBudget)
	s.wantWatermark(psp.records[1])
	s.runs(2, gateway.ChargeObject)
	s.runs(scanBudget, gateway.RefundObject) // the account's other list, for the same reason
	s.wantFailing(1, scanBudget+2)

	s.dismiss()
	s.runs(scanBudget, gateway.ChargeObject)
	s.wantFailing(0, 2*scanBudget+2) // it is known
	psp.breakAt = 0
	s.wantScan(9, 3, ReachedEnd)
	s.wantFailing(0, 0)
	psp.breakAt = 1
	s.runs(scanBudget, gateway.ChargeObject)
	s.wantFailing(1, scanBudget) // and this is another time
}

// Both lists of an account fail at the same moment, and that is one case.
func TestListsThatFailAtOnceAreOneCase(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 2, breakAt: 1}
	s := setupScan(t, psp)
	objects := []gateway.Object{gateway.ChargeObject, gateway.RefundObject}
	for range 5 {
		s.exec("UPDATE ledger_watermarks SET failed_runs = 0, resume_after = NULL")
		s.dismiss()
		walks := make([]walk, len(objects))
		for i, o := range objects {
			var err error
			if walks[i], err = s.beginWalk(t.Context(), native.Name, o, "acme"); err != nil {
				t.Fatal(err)
			}
		}
		s.exec("UPDATE ledger_watermarks SET failed_runs = $1", scanBudget)
		wait.AtOnce(len(walks), func(i int) {
			if err := s.failWalk(t.Context(), walks[i], http.ErrServerClosed); err != nil {
				t.Error(err)
			}
		})
		s.wantFailing(1, scanBudget+1)
	}
}

// A walk that gets on is slow, and no case; one that reads in vain is one.
func TestRunThatGetsOnIsNoFailure(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 1, breakAt: 3}
	s := setupScan(t, psp)
	psp.records = ledgerOf(s.lostOnes(scanBudget + 3))
	if !s.runs(scanBudget+1, gateway.ChargeObject) {
		t.Fatal("the list came to an end")
	}
	s.wantFailing(0, 1)

	psp.breakAt = 0
	for i := range psp.records {
		psp.records[i].Created = psp.records[len(psp.records)-1].Created
	}
	for range scanBudget + 1 { // the first gets there
		if _, _, err := s.scan(2); err != nil {
			t.Fatal(err)
		}
	}
	s.wantFailing(1, scanBudget)
}

// A process that is stopped in a scan says nothing of the ledger; a run whose time is over does.
func TestRunThatIsStoppedIsNoFailure(t *testing.T) {
	t.Parallel()
	psp := &hasty{bookkeeper: &bookkeeper{page: 1}}
	s := setupOn(t, psp)
	if !psp.run(s) {
		t.Fatal("the run was not cut")
	}
	s.wantFailing(0, 0)
	ctx, cancel := context.WithTimeout(t.Context(), patience/100)
	defer cancel()
	psp.left, psp.cut = 0, func() {}
	if _, _, err := s.Scan(ctx, gateway.ChargeObject, "acme", 9, nil); err == nil {
		t.Fatal("the run was not cut")
	}
	s.wantFailing(0, 1)
}

// spoiler is a PSP of whose answers a text is replaced.
type spoiler struct {
	*bookkeeper
	honest, spoilt string
}

func (p *spoiler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	honest := httptest.NewRecorder()
	p.bookkeeper.ServeHTTP(honest, r)
	w.WriteHeader(honest.Code)
	_, _ = io.WriteString(w, strings.ReplaceAll(honest.Body.String(), p.honest, p.spoilt))
}

// Whatever is wrong with a record, the others of its page are resolved, the walk comes to its end, and the record is
// somebody's case.
func TestNoRecordEndsTheScan(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"a member twice":   {`"currency"`, `"note":1,"note":2,"currency"`},
		"invalid UTF-8":    {`order-0000000002`, "order-\xff"},
		"half a surrogate": {`order-0000000002`, `order-\ud800`},
		"nested too deep": {`"currency"`, `"deep":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) +
			`,"currency"`},
		"far too long":      {`"currency"`, `"long":"` + strings.Repeat("x", 5<<20) + `","currency"`},
		"another's account": {`"acme"`, `"globex"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			psp := &spoiler{bookkeeper: &bookkeeper{page: 100}}
			s := setupOn(t, psp)
			s.exec("UPDATE tenants SET created_at = '2026-11-01'")
			psp.records = ledgerOf(s.lostOnes(5))
			psp.honest = string(psp.records[2].Evidence())
			psp.spoilt = strings.Replace(psp.honest, change[0], change[1], 1)
			s.wantScan(50, 4, ReachedEnd)
			s.wantScan(50, 0, ReachedEnd)
			s.wantWatermark(psp.records[4])
			if n := s.count(`SELECT count(*) FROM dead_letters WHERE kind = 'unreadable_record' AND finding ~ '^record acme sha256:[0-9a-f]{64}$'
				AND reason LIKE 'the PSP lists a charge ' || $1 || ' of account acme %' AND evidence ->> 'id' = $1`, psp.records[2].ID); n != 1 || s.count("SELECT count(*) FROM dead_letters") != 1 {
				t.Errorf("dead letters are %s", s.texts("SELECT left(d::text, 1000) FROM dead_letters AS d"))
			}
			if n := s.count("SELECT count(*) FROM idempotency_keys WHERE key = 'order-0000000002' AND status = 'unknown'"); n != 1 {
				t.Error("what cannot be read has moved its key")
			}
			psp.honest, psp.spoilt = "never", "never"
			s.wantScan(50, 1, ReachedEnd)
		})
	}
}

// A member that we do not read may be long: the record is evidence as any other, and so are a hundred with much
// metadata each.
func TestScanReadsLongRecords(t *testing.T) {
	t.Parallel()
	psp := &spoiler{bookkeeper: &bookkeeper{page: 100}, honest: `"currency"`, spoilt: `"metadata":"` +
		strings.Repeat("x", 300<<10) + `","currency"`}
	s := setupOn(t, psp)
	s.exec("UPDATE tenants SET created_at = '2026-11-01'")
	psp.records = ledgerOf(s.lostOnes(7))
	s.wantScan(50, 7, ReachedEnd)
	s.wantDeadLetters()
}

// Of a walk that has failed for the last time, an operator reads why. If that cannot be written, it is an error.
func TestFailedWalkIsWrittenWithItsCause(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &bookkeeper{})
	const lastFailure = "UPDATE ledger_watermarks SET failed_runs = 11, resume_after = scanned_to, walk_began = $1"
	began := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	if _, err := s.beginWalk(t.Context(), native.Name, gateway.ChargeObject, "acme"); err != nil {
		t.Fatal(err)
	}
	failed := walk{account: "acme", object: gateway.ChargeObject, began: began}

	s.timePasses(lastFailure, began)
	makeID := s.NewID
	s.NewID = noID
	err := s.failWalk(t.Context(), failed, nil)
	if err == nil || !strings.Contains(err.Error(), "make dead letter id") {
		t.Errorf("without an id: %v", err)
	}
	s.NewID = makeID
	pool, outage := pgtest.WithOutage(t, s.pool)
	s.DB = postgres.Wrap(pool, patience)
	for _, statement := range []string{"LockLedgers", "FailWalk"} {
		outage.On("name: "+statement, 1)
		if err := s.failWalk(t.Context(), failed, nil); err == nil {
			t.Errorf("%s has failed, and it is no error", statement)
		}
	}
	outage.Over()
	other := failed
	other.began = began.Add(time.Hour)
	if err := s.failWalk(t.Context(), other, nil); err != nil {
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
		if err := s.failWalk(t.Context(), failed, cause); err != nil {
			t.Fatal(err)
		}
		reasons := s.texts("SELECT reason FROM dead_letters WHERE status = 'open'")
		if len(reasons) != 1 || !strings.HasSuffix(reasons[0], want) {
			t.Errorf("the reasons are %q, want one that ends with %q", reasons, want)
		}
	}
}

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
			db := pgtest.Open(t, proxy.URL(), pgtest.Limits())
			s.DB = db
			lost := proxy.On(write, pgproxy.DropAcknowledgement)
			_, _, err := s.Scan(t.Context(), gateway.ChargeObject, "acme", 9, nil)
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
	for _, statement := range []string{"PSPOfAccount", "BookedMovements", "FindPayment", "OpenDeadLetter"} {
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

// What could not be sent was not written.
func TestWalkWithoutItsDatabaseSaysSo(t *testing.T) {
	t.Parallel()
	s := setupScan(t, &bookkeeper{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, write := range map[string]func() error{
		"begin": func() error {
			_, err := s.beginWalk(ended, native.Name, gateway.ChargeObject, "acme")
			return err
		},
		"advance": func() error { return s.advanceWalk(ended, walk{account: "acme"}, time.Now()) },
		"end":     func() error { return s.endWalk(ended, walk{account: "acme"}) },
	} {
		if err := write(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s could not be written, and the answer is %v", name, err)
		}
	}
}
