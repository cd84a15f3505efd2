package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/internal/gateway"
	"payonce/internal/gateway/native"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

// How a walk along the PSP's list gets to its end, in however many runs.

// Each run reads a bounded number of pages; and however many of them the overlap takes, it gets on.
func TestScanOfABusyLedgerGetsOn(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 1}
	s := setupScan(t, psp)
	psp.records = ledgerOf(s.lostOnes(7)) // all within one overlap
	s.wantScan(3, 3, GotOn)
	s.wantWatermark(psp.records[2])
	s.wantScan(3, 2, GotOn) // and one again, in case that others lie at the same instant
	s.wantWatermark(psp.records[4])
	s.wantScan(3, 2, ReachedEnd)
	s.wantWatermark(psp.records[6])
}

// hasty ends each run when it asks for its page of that number.
type hasty struct {
	*bookkeeper
	pages int
	left  int
	cut   context.CancelFunc
}

// A slow PSP must not keep a run alive for as long as fifty pages take: nobody else scans the ledger meanwhile.
func TestRunThatHasReadForLongEnoughStillGetsOn(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 2}
	s := setupScan(t, psp)
	psp.records = ledgerOf(s.lostOnes(4))
	enough := make(chan struct{})
	close(enough)
	for run, want := range []Progress{GotOn, GotOn, ReachedEnd} {
		to, _, err := s.Scan(t.Context(), gateway.ChargeObject, "acme", 50, enough)
		if err != nil || to != want {
			t.Fatalf("run %d: %s, error %v; want %s", run, to, err, want)
		}
	}
}

func (h *hasty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.left--; h.left < 0 {
		h.cut()
		<-r.Context().Done()
		return
	}
	h.bookkeeper.ServeHTTP(w, r)
}

// run scans until it is cut, and tells whether it was.
func (h *hasty) run(s *books) bool {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	h.left, h.cut = h.pages, cancel
	_, _, err := s.Scan(ctx, gateway.ChargeObject, "acme", 50, nil)
	return err != nil
}

// fresh counts the ledgers that are said to have been read to their end just now.
func (s *books) fresh() int {
	s.t.Helper()
	return s.count("SELECT count(*) FROM ledger_watermarks WHERE updated_at > clock_timestamp() - interval '1 hour'")
}

// A run that is cut before the overlap's end, each time: the next one does not begin at the beginning, and nobody
// believes meanwhile that the ledger has been read.
func TestScanThatIsAlwaysCutInItsOverlapComesToTheEnd(t *testing.T) {
	t.Parallel()
	psp := &hasty{bookkeeper: &bookkeeper{page: 1}, pages: 4}
	s := setupOn(t, psp)
	s.exec("UPDATE tenants SET created_at = '2026-11-01'")
	psp.left = 100
	all := ledgerOf(s.lostOnes(20)) // all within one overlap
	psp.records = all[:10]
	s.wantScan(50, 10, ReachedEnd)
	s.exec("UPDATE ledger_watermarks SET updated_at = updated_at - interval '2 hours'")
	psp.records = all
	for run := 1; psp.run(s); run++ {
		if s.fresh() != 0 {
			t.Fatal("a ledger passes for read whose end nobody has seen")
		}
		if run > len(all) {
			t.Fatalf("after %d runs the end is not in sight: %s", run,
				s.texts("SELECT w::text FROM ledger_watermarks AS w"))
		}
	}
	s.wantWatermark(all[19])
	if s.fresh() != 1 || s.count("SELECT count(*) FROM payments WHERE status = 'succeeded'") != len(all) {
		t.Fatal("the end was not reached")
	}
}

// However long a walk takes, the next one reads again what was left alone since it began.
func TestWhatALongWalkHasLeftAloneComesByAgain(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 1, breakAt: 2}
	s := setupScan(t, psp)
	g, newer := s.charging("order-0000000001"), s.charging("order-0000000002").succeeded()
	psp.records = ledgerOf([]*order{g, newer})
	began := time.Now().Add(-20 * overlap).UTC().Truncate(time.Second)
	psp.records[0].Created, psp.records[1].Created = began, began.Add(10*overlap)
	if _, _, err := s.scan(9); err == nil {
		t.Fatal("a PSP that is broken was read")
	}
	s.exec("UPDATE ledger_watermarks SET walk_began = $1", began)
	psp.breakAt = 0
	s.wantScan(9, 0, ReachedEnd)
	g.wantStatus(idempotency.InProgressStatus)
	g.lost().windowPasses()
	s.wantScan(9, 1, ReachedEnd)
}

// Two scans of one ledger: the slower one takes nothing back.
func TestWatermarkNeverGoesBack(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 100}
	s := setupScan(t, psp)
	slow, err := s.beginWalk(t.Context(), native.Name, gateway.ChargeObject, "acme")
	if err != nil {
		t.Fatal(err)
	}
	psp.records = ledgerOf(s.lostOnes(2))
	s.wantScan(9, 2, ReachedEnd)
	// The scan has finished that very walk, which is over for both.
	if err := s.advanceWalk(t.Context(), slow, psp.records[0].Created); err != nil {
		t.Fatal(err)
	}
	if s.count("SELECT count(*) FROM ledger_watermarks WHERE resume_after IS NOT NULL") != 0 {
		t.Error("a walk that was finished goes on")
	}
	next, err := s.beginWalk(t.Context(), native.Name, gateway.ChargeObject, "acme")
	if err != nil {
		t.Fatal(err)
	}
	// Nor does it move, or end, a walk that is not its own.
	before := s.texts("SELECT w::text FROM ledger_watermarks AS w")[0]
	for _, at := range []time.Time{psp.records[0].Created, psp.records[1].Created} {
		if err := s.advanceWalk(t.Context(), slow, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.endWalk(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	if after := s.texts("SELECT w::text FROM ledger_watermarks AS w")[0]; after != before ||
		!next.began.After(slow.began) {
		t.Fatalf("the watermark went from %s to %s", before, after)
	}
	psp.records = nil
	s.wantScan(9, 0, ReachedEnd)
	if n := s.count("SELECT count(*) FROM ledger_watermarks WHERE scanned_to > '2026-11-19'"); n != 1 {
		t.Error("the watermark went back")
	}
}

// A record that was in an account before the account became a tenant's opens no dead letter. Another ledger has its own
// watermark, and an account of nobody's has none.
func TestFirstScanBeginsWhereTheTenantDoes(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 100}
	s := setupScan(t, psp)
	old := s.charging("order-0000000001").record
	old.Reference, old.Created = "shop-1", time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Add(-overlap)
	psp.records = []gateway.Record{old}
	s.wantScan(9, 0, ReachedEnd)
	s.wantDeadLetters()
	s.wantScan(9, 0, ReachedEnd) // nor when the first has found nothing at all
	s.wantDeadLetters()
	psp.records[0].Created = old.Created.Add(time.Second)
	s.wantScan(9, 0, ReachedEnd)
	s.wantDeadLetters("unknown_movement record acme " + old.ID + " key " + old.Key)

	psp.records, psp.asked = nil, nil
	for account, asks := range map[string]int{"globex": 1, "nobody": 0} {
		before := len(psp.asked)
		to, _, err := s.Scan(t.Context(), gateway.RefundObject, account, 9, nil)
		if err != nil || to != ReachedEnd || len(psp.asked)-before != asks {
			t.Errorf("%s: %s after %d pages, %v", account, to, len(psp.asked)-before, err)
		}
	}
	if want := old.Created.Format(time.RFC3339Nano); psp.asked[0] != want {
		t.Errorf("globex's refunds were asked for from %s on, want %s", psp.asked[0], want)
	}
}

// A PSP whose clock is ahead is read to the end, and what it lists meanwhile is not skipped.
func TestScanOfAPSPAheadOfOurTimeComesToTheEnd(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 1}
	s := setupScan(t, psp)
	psp.records = ledgerOf(s.lostOnes(5))
	ahead := time.Now().Add(time.Hour).UTC()
	for i := range psp.records {
		psp.records[i].Created = ahead.Add(time.Duration(i) * time.Second)
	}
	s.wantScan(3, 3, GotOn)
	s.wantScan(3, 2, ReachedEnd)
	if s.count("SELECT count(*) FROM ledger_watermarks WHERE scanned_to > clock_timestamp()") != 0 {
		t.Error("the watermark is in the future")
	}
	late := s.charging("order-late-000001").lost().windowPasses()
	late.record.Created = time.Now().UTC()
	psp.records = append([]gateway.Record{late.record}, psp.records...)
	s.wantScan(9, 1, ReachedEnd)
}

// A run that reads nothing but one instant would begin where it began: it says so.
func TestScanThatDoesNotGetOnSaysSo(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 1}
	s := setupScan(t, psp)
	psp.records = ledgerOf(s.lostOnes(3))
	for i := range psp.records {
		psp.records[i].Created = psp.records[0].Created
	}
	s.wantScan(2, 2, GotOn)
	s.wantScan(2, 0, Stalled)
	s.wantScan(3, 1, ReachedEnd)
}

// One record that nobody can read is a case of its own, and hides none of the others.
func TestScanGoesOnBehindARecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 2}
	s := setupScan(t, psp)
	psp.records = ledgerOf(s.lostOnes(6))
	psp.pending = psp.records[3].ID
	var news int
	for range 2 {
		_, effects, err := s.Scan(t.Context(), gateway.ChargeObject, "acme", 9, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range effects {
			if l, ok := e.(payments.DeadLettered); ok && l.New {
				news++
			}
		}
	}
	s.wantWatermark(psp.records[5])
	if n := s.count("SELECT count(*) FROM payments WHERE status = 'succeeded'"); n != 5 || news != 1 {
		t.Errorf("resolved %d of 5, opened %d dead letters", n, news)
	}
	if n := s.count(`SELECT count(*) FROM dead_letters WHERE kind = 'unreadable_record' AND tenant_id IS NULL
		AND finding ~ '^record acme sha256:[0-9a-f]{64}$' AND reason LIKE '%malformed status' AND evidence ->> 'source' = 'scan'
		AND evidence #>> '{record,id}' = $1`, psp.pending); n != 1 || s.count("SELECT count(*) FROM dead_letters") != 1 {
		t.Errorf("dead letters are %s", s.texts("SELECT d::text FROM dead_letters AS d"))
	}
	// What the PSP has corrected is read as any other.
	psp.pending = ""
	s.wantScan(9, 1, ReachedEnd)
}

// What PostgreSQL cannot hold is a case all the same.
func TestUnreadableRecordIsADeadLetterWhateverItIs(t *testing.T) {
	t.Parallel()
	s := setupOn(t, &bookkeeper{})
	w := walk{account: "acme", object: gateway.ChargeObject}
	for i, raw := range []string{`7`, `{"id":"\u0000"}`, `1e999999`, `""`, "\xff\x00", strings.Repeat("x", 64<<10)} {
		u := gateway.Unreadable{Raw: []byte(raw), Name: fmt.Sprint("sha256:", i), Reason: "no"}
		f, err := s.putUnreadable(t.Context(), w, u)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if !f.(payments.DeadLettered).New {
			t.Errorf("%d has no dead letter of its own", i)
		}
	}
	named := gateway.Unreadable{ID: "psp_9", Raw: []byte(`7`), Name: "sha256:9", Reason: "no"}
	if _, err := s.putUnreadable(t.Context(), w, named); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]int{"charge": 6, "charge psp_9": 1} {
		if n := s.count("SELECT count(*) FROM dead_letters WHERE reason = 'the PSP lists a ' || $1 || ' of account acme that cannot be read: no'", what); n != want {
			t.Errorf("%d dead letters are about a %s, want %d", n, what, want)
		}
	}
	if n := s.count("SELECT count(*) FROM dead_letters WHERE evidence ? 'record'"); n != 3 {
		t.Errorf("%d dead letters hold their record, want 3", n)
	}
	if n := s.count("SELECT count(*) FROM dead_letters WHERE length(evidence ->> 'text') BETWEEN 1 AND 2000"); n != 4 {
		t.Errorf("%d dead letters hold the beginning of theirs, want 4", n)
	}
	before := s.everything()
	named.ID = "\xff"
	if _, err := s.putUnreadable(t.Context(), w, named); err == nil {
		t.Error("a dead letter without evidence was opened")
	}
	s.NewID = noID
	nameless := gateway.Unreadable{Raw: []byte(`8`), Name: "sha256:8", Reason: "no"}
	if _, err := s.putUnreadable(t.Context(), w, nameless); err == nil {
		t.Error("a dead letter without an id was opened")
	}
	if !slices.Equal(s.everything(), before) {
		t.Error("one of them was written")
	}
}

// A page on which nothing can be read takes nothing back from the pages before it.
func TestUnreadablePageIsPassed(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 1}
	s := setupScan(t, psp)
	psp.records = ledgerOf(s.lostOnes(3))
	psp.pending = psp.records[1].ID
	s.wantScan(2, 1, GotOn)
	s.wantWatermark(psp.records[0])
}

func TestAccountsAreAllVisitedOnce(t *testing.T) {
	t.Parallel()
	s := setupScan(t, &bookkeeper{})
	for _, n := range []int{2, accountsPage, accountsPage + 1, 2*accountsPage + 1} {
		s.exec(`INSERT INTO tenants (id, psp_account)
			SELECT 't' || i, CASE i % 3 WHEN 0 THEN 'A_' WHEN 1 THEN 'b-' ELSE 'c' END || i FROM generate_series(3, $1::int) AS i
			ON CONFLICT DO NOTHING`, n)
		var seen []string
		for account, err := range s.Accounts(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, account)
		}
		all := s.texts("SELECT psp_account FROM tenants")
		slices.Sort(seen)
		slices.Sort(all)
		if diff := cmp.Diff(all, seen); diff != "" || len(all) != n {
			t.Errorf("%d of %d accounts differ (-there +visited):\n%s", len(all), n, diff)
		}
	}
	for _, err := range s.Accounts(t.Context()) {
		if err != nil {
			t.Error(err)
		}
		break // Who wants no more gets no more.
	}
	over, end := context.WithCancel(t.Context())
	end()
	failed := 0
	for account, err := range s.Accounts(over) {
		if failed++; err == nil {
			t.Errorf("without the database, it visits %s", account)
		}
	}
	if failed != 1 {
		t.Errorf("without the database, it fails %d times", failed)
	}
}
