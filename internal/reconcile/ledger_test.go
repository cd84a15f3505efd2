package reconcile

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payonce/internal/gateway"
	"payonce/internal/idempotency"
	"payonce/internal/payments"
)

// bookkeeper is a PSP that lists its ledger in pages.
type bookkeeper struct {
	records []gateway.Record
	page    int
	breakAt int // a page that it fails on, from 1; 0 is none
	asked   []string
	pending string // the id of a record whose status nobody knows
}

// setupScan is the books at k, with tenants who were there before what it lists.
func setupScan(t *testing.T, k *bookkeeper) *books {
	t.Helper()
	s := setupOn(t, k)
	s.exec("UPDATE tenants SET created_at = '2026-11-01'")
	return s
}

func (k *bookkeeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	after, from := r.FormValue("createdAfter"), 0
	k.asked = append(k.asked, after)
	records := k.records
	if after != "" {
		var since time.Time
		if err := since.UnmarshalText([]byte(after)); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		records = slices.DeleteFunc(slices.Clone(records),
			func(r gateway.Record) bool { return !r.Created.After(since) })
	}
	if cursor := r.FormValue("cursor"); cursor != "" {
		_, _ = fmt.Sscan(cursor, &from)
	}
	if k.breakAt > 0 && from/k.page+1 == k.breakAt {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	limit := k.page
	_, _ = fmt.Sscan(r.FormValue("limit"), &limit)
	to := min(from+min(k.page, limit), len(records))
	list := struct {
		Data       []jsontext.Value `json:"data"`
		HasMore    bool             `json:"hasMore"`
		NextCursor string           `json:"nextCursor,omitzero"`
	}{Data: []jsontext.Value{}, HasMore: to < len(records)}
	if list.HasMore {
		list.NextCursor = fmt.Sprint(to)
	}
	for _, r := range records[from:to] {
		if r.ID == k.pending {
			r.Status = "pending"
		}
		list.Data = append(list.Data, r.Evidence())
	}
	_ = json.MarshalWrite(w, &list)
}

// ledgerOf has the PSP list what stages would have executed, a second after each other.
func ledgerOf(stages []*order) []gateway.Record {
	var records []gateway.Record
	for i, g := range stages {
		r := g.record
		r.Created = r.Created.Add(time.Duration(i) * time.Second)
		records = append(records, r)
	}
	return records
}

// lostOnes are n payments whose answers are lost, and whose grace periods are over.
func (s *books) lostOnes(n int) []*order {
	stages := make([]*order, n)
	for i := range stages {
		stages[i] = s.charging(fmt.Sprintf("order-%010d", i)).lost().windowPasses()
	}
	return stages
}

// scan runs once and tells what it has resolved.
func (s *books) scan(pages int) (completed int, to Progress, err error) {
	to, effects, err := s.Scan(s.t.Context(), gateway.ChargeObject, "acme", pages, nil)
	for _, e := range effects {
		if _, ok := e.(payments.Completed); ok {
			completed++
		}
	}
	return completed, to, err
}

func (s *books) wantScan(pages, wantCompleted int, want Progress) {
	s.t.Helper()
	completed, to, err := s.scan(pages)
	if err != nil || completed != wantCompleted || to != want {
		s.t.Fatalf("resolved %d, %s, error %v; want %d and %s", completed, to, err, wantCompleted, want)
	}
}

// wantWatermark compares the watermark with the time of a record.
func (s *books) wantWatermark(r gateway.Record) {
	s.t.Helper()
	if n := s.count("SELECT count(*) FROM ledger_watermarks WHERE account = 'acme' AND object = 'charge' AND scanned_to = $1", r.Created); n != 1 {
		s.t.Fatalf("the watermark is %s, want %s", s.texts("SELECT scanned_to::text FROM ledger_watermarks"), r.Created)
	}
}

func TestScanResolvesWhatOthersHaveMissed(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 2}
	s := setupScan(t, psp)
	s.wantScan(9, 0, ReachedEnd) // of an empty ledger
	stages := s.lostOnes(5)
	psp.records = ledgerOf(stages)
	psp.records[4].AmountMinor++
	s.wantScan(9, 4, ReachedEnd)
	s.wantWatermark(psp.records[4])
	s.wantDeadLetters("psp_contradicts_request record " + psp.records[4].ID)
	stages[3].wantSteps("owner in_progress>unknown", "scan unknown>completed")
	before := s.everything()
	s.wantScan(9, 0, ReachedEnd)
	if !slices.Equal(s.everything(), before) {
		t.Error("the second scan has moved something")
	}
	s.wantDeadLetters("psp_contradicts_request record " + psp.records[4].ID)
}

// A scan that ends early goes on where it was, behind what is resolved.
func TestScanGoesOnWhereItBroke(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 2, breakAt: 2}
	s := setupScan(t, psp)
	psp.records = ledgerOf(s.lostOnes(5))
	if completed, _, err := s.scan(9); err == nil || completed != 2 {
		t.Fatalf("resolved %d, error %v", completed, err)
	}
	s.wantWatermark(psp.records[1])
	psp.breakAt = 1
	if _, _, err := s.scan(9); err == nil {
		t.Fatal("a PSP that is broken was read")
	}
	s.wantWatermark(psp.records[1])
	psp.breakAt = 0
	s.wantScan(9, 3, ReachedEnd)
	s.wantWatermark(psp.records[4])
}

// What was left alone for those at work on it comes by again, as long as the overlap lasts.
func TestScanReadsTheOverlapAgain(t *testing.T) {
	t.Parallel()
	psp := &bookkeeper{page: 100}
	s := setupScan(t, psp)
	g, newer := s.charging("order-0000000001"), s.charging("order-0000000002").succeeded()
	psp.records = ledgerOf([]*order{g, newer})
	psp.records[1].Created = psp.records[0].Created.Add(overlap - time.Second)
	s.wantScan(9, 0, ReachedEnd)
	g.wantStatus(idempotency.InProgressStatus)
	g.lost().windowPasses()
	s.wantScan(9, 1, ReachedEnd)
	if want := psp.records[1].Created.Add(-overlap).Format(time.RFC3339Nano); psp.asked[1] != want {
		t.Errorf("asked for what was created after %q, want %s", psp.asked, want)
	}
}
