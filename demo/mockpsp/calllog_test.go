package mockpsp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func noted(l *callLog, method, account, key string) {
	r := httptest.NewRequest(method, "/v1/charges", nil)
	r.Header.Set("PSP-Account", account)
	r.Header.Set("Idempotency-Key", key)
	Call{l, l.begin(r, account, time.Unix(0, 0))}.Finish("answered 200")
}

func TestCallsAreCountedOnArrivalAndSaidHowTheyEnded(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	ended, cancel := p.chargeInBackground("pm_timeout_charged")
	defer cancel()
	p.awaitFault("key-1", "pm_timeout_charged")
	p.get("/v1/charges?idempotencyKey=key-1")
	p.send(t.Context(), http.MethodGet, "/v1/charges", "", header{"Authorization": ""})
	cancel()
	receive(t, ended)
	await(t, "the send has ended", func() bool { return p.calls("key-1").Requests[0].Outcome != outcomePending })

	view := p.calls("key-1")
	if view.Count != 2 || view.Posts != 1 || !view.Exact || len(view.Requests) != 2 {
		t.Fatalf("calls: %+v", view)
	}
	send, lookup := view.Requests[0], view.Requests[1]
	send.At, lookup.At = "", ""
	if send != (callNote{Method: "POST", Path: "/v1/charges", Account: "acme", Key: "key-1",
		Fault: "pm_timeout_charged", Outcome: "closed without an answer"}) {
		t.Errorf("send: %+v", send)
	}
	if lookup != (callNote{Method: "GET", Path: "/v1/charges", Account: "acme", Key: "key-1",
		Outcome: "answered 200"}) {
		t.Errorf("lookup: %+v", lookup)
	}
	if all := fetch[callView](p, "/_requests"); all.Count != 3 || all.Requests[2].Outcome != "answered 401" {
		t.Errorf("all: %+v", all)
	}
}

func TestCountsAreExactBeyondTheNotes(t *testing.T) {
	t.Parallel()
	l := &callLog{counts: map[caller]callCount{}}
	for i := range 3 * maxNotes {
		noted(l, http.MethodPost, "acme", fmt.Sprintf("key-%d", i%2))
	}
	noted(l, http.MethodGet, "acme", "key-0")
	noted(l, http.MethodPost, "globex", "key-0")
	for who, want := range map[caller][2]int{
		{}:                  {3002, 3001},
		{account: "acme"}:   {3001, 3000},
		{key: "key-0"}:      {1502, 1501},
		{"acme", "key-0"}:   {1501, 1500},
		{"globex", "key-0"}: {1, 1},
		{"globex", "key-1"}: {0, 0},
	} {
		view := l.view(who.account, who.key)
		if view.Count != want[0] || view.Posts != want[1] || !view.Exact {
			t.Errorf("%+v: %d calls, %d posts", who, view.Count, view.Posts)
		}
	}
	all := l.view("", "").Requests
	if len(all) != maxNotes || all[maxNotes-1].Account != "globex" || all[maxNotes-2].Method != http.MethodGet ||
		all[0].Key != "key-0" {
		t.Errorf("%d notes, the last ones %+v %+v", len(all), all[maxNotes-2], all[maxNotes-1])
	}
}

func TestCountsSayWhenTheirMemoryIsFull(t *testing.T) {
	t.Parallel()
	l := &callLog{counts: map[caller]callCount{}}
	for i := range maxCallCounts {
		l.counts[caller{"filler", fmt.Sprint(i)}] = callCount{}
	}
	for range 2 {
		noted(l, http.MethodPost, "acme", "key-1")
	}
	if len(l.counts) != maxCallCounts {
		t.Errorf("%d counts are kept", len(l.counts))
	}
	if view := l.view("acme", "key-1"); view.Exact || view.Count != 2 || view.Posts != 2 {
		t.Errorf("view: %d calls, exact %v", view.Count, view.Exact)
	}
	if view := l.view("filler", "7"); !view.Exact {
		t.Error("what was counted all along is not called exact")
	}
}

// A reconciler reads the ledger of each account every few seconds. What else was called must stay to be seen.
func TestScansDoNotPushOtherCallsOut(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.charge("key-1", "pm_ok")
	const scans = maxNotes / 3 // times four is more than there is room for
	for range scans {
		for _, account := range []string{"acme", "globex"} {
			for _, path := range []string{"/v1/charges?limit=100", "/v1/refunds?createdAfter=2026-01-01T00:00:00Z"} {
				p.send(t.Context(), http.MethodGet, path, "", header{"PSP-Account": account})
			}
		}
	}
	all := fetch[callView](p, "/_requests")
	if all.Count != 1+4*scans || len(all.Requests) != 5 || all.Requests[0].Key != "key-1" {
		t.Fatalf("%d calls in %d notes", all.Count, len(all.Requests))
	}
	if globex := fetch[callView](p, "/_requests?account=globex"); globex.Count != 2*scans || len(globex.Requests) != 2 {
		t.Errorf("globex: %+v", globex)
	}
}

func TestOnlyScansOfOneListReplaceEachOther(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	list := func(query string, headers header) {
		p.send(t.Context(), http.MethodGet, "/v1/charges"+query, "", headers)
	}
	list("", nil)
	list("", header{"PSP-Account": "other"}) // of another account
	list("?idempotencyKey=key-1", nil)       // a lookup
	list("?limit=5", nil)                    // in place of the first
	keys := []string{}
	for _, note := range fetch[callView](p, "/_requests").Requests {
		keys = append(keys, note.Account+" "+note.Key)
	}
	if diff := cmp.Diff([]string{"other ", "acme key-1", "acme "}, keys); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
