package stripe

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

func ids(all []object) []string {
	var names []string
	for _, one := range all {
		id, _ := one["id"].(string)
		names = append(names, id)
	}
	return names
}

func TestListsAreNewestFirstAndComplete(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	var newestFirst []string
	for range 11 {
		newestFirst = append([]string{p.charged()}, newestFirst...)
	}
	var older []string
	for after := ""; ; {
		page := p.data("/v1/payment_intents?limit=3" + after)
		older = append(older, ids(page)...)
		if len(page) < 3 {
			break
		}
		after = "&starting_after=" + older[len(older)-1]
		p.charged() // newer ones move nothing
	}
	if !slices.Equal(older, newestFirst) {
		t.Errorf("towards older ones: %v, want %v", older, newestFirst)
	}
	for _, path := range []string{"charges", "refunds", "balance_transactions"} {
		p.get("/v1/"+path+"?limit=100").want(http.StatusOK, "object", "list", "url", "/v1/"+path)
	}
}

func TestListsAreFilteredByTheirSecond(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	p := setup(t, func(b *bundle) { b.psp.Now = func() time.Time { return at } })
	var all []string
	for range 3 {
		all = append(all, p.charged())
		at = at.Add(time.Second)
	}
	for query, want := range map[string][]string{
		"created[gte]=1800000001":                        {all[2], all[1]},
		"created[lt]=1800000001":                         {all[0]},
		"created[gte]=1800000000&created[lt]=1800000001": {all[0]},
		"created[gte]=1800000003":                        nil,
	} {
		if got := ids(p.data("/v1/payment_intents?" + query)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	// A refund changes the charge, and not the time at which the charge has moved money.
	p.refund(all[0], "", "").want(http.StatusOK)
	if booked := p.data("/v1/balance_transactions"); booked[len(booked)-1]["created"] != 1_800_000_000.0 {
		t.Errorf("the charge is booked as %v", booked[len(booked)-1])
	}
	for _, bad := range []string{
		"limit=0", "limit=101", "created[gte]=now", "created[gte]=-1", "created[gt]=1", "starting_after=pi_unknown",
		"ending_before=x", "color=red",
	} {
		got := p.get("/v1/payment_intents?" + bad)
		if got.status != http.StatusBadRequest && got.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", bad, got.status, got.body)
		}
	}
}

func TestEventsShowTheirObjectsAsTheyWere(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.charged()
	all := p.events()
	if len(all) != 3 || at(all[0], "data.object.status") != "requires_confirmation" || // as it was then
		at(all[1], "data.object.object") != "charge" || all[2]["type"] != "payment_intent.succeeded" ||
		at(all[2], "data.object.status") != "succeeded" || all[2]["account"] != "acct_1" ||
		all[2]["api_version"] != apiVersion {
		t.Errorf("got %v", all)
	}
}

func TestTheSearchLagsBehind(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	p := setup(t, func(b *bundle) {
		b.psp.Now = func() time.Time { return at }
		b.stripe.SearchLag = time.Minute
	})
	id := p.charged()
	const query = "/v1/payment_intents/search?query=metadata['reference']:'pay_1'"
	at = at.Add(59 * time.Second)
	if got := p.data(query); len(got) != 0 {
		t.Errorf("found at once: %v", got)
	}
	at = at.Add(2 * time.Second)
	if got := ids(p.data(query)); !slices.Equal(got, []string{id}) {
		t.Errorf("found %v", got)
	}
	p.get(query+"%20AND%20status:'canceled'").want(http.StatusBadRequest, "error.param", "query")
	const quotes = `/v1/payment_intents/search?query=metadata%5B'reference'%5D:%22a%5C%22b%5C%5Cc%22`
	p.post("/v1/payment_intents", "", intentForm("pm_ok", `a"b\c`)).want(http.StatusOK)
	at = at.Add(2 * time.Minute)
	if got := p.data(quotes); len(got) != 1 {
		t.Errorf("a value with quotes and backslashes: %v", got)
	}
	p.get("/v1/payment_intents/search?query=reference~pay").want(http.StatusBadRequest, "error.param", "query")
}

func TestWhatIsBookedLateIsFoundAtOnceAndListedLater(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	clock := func(b *bundle) { b.psp.Now = func() time.Time { return at } }
	p := setup(t, withFile(t)).restart(clock) // late is an hour
	p.faults(`{"rates":{"booked_late":1}}`)
	id := p.charged()
	p.refund(id, "", "&amount=300").want(http.StatusOK)
	p.back(http.MethodPost, "/_refunds", `{"chargeId":"`+id+`","amountCents":200}`).want(http.StatusOK)
	p.back(http.MethodPost, "/_disputes", `{"chargeId":"`+id+`"}`).want(http.StatusOK)
	p.faults(`{"rates":{}}`)
	p.charged()

	want := map[string]int{"charges": 1, "refunds": 0, "disputes": 0, "balance_transactions": 1}
	wantBooked := func(when string) {
		t.Helper()
		for list, n := range want {
			if got := p.data("/v1/" + list); len(got) != n {
				t.Errorf("%s: %d %s, want %d", when, len(got), list, n)
			}
		}
	}
	wantBooked("at once")
	if got := p.data("/v1/refunds?payment_intent=" + id); len(got) != 2 {
		t.Errorf("a lookup finds the refunds %v", got)
	}
	if got := p.data("/v1/disputes?payment_intent=" + id); len(got) != 1 {
		t.Errorf("a lookup finds the disputes %v", got)
	}
	at = at.Add(time.Hour - time.Second)
	p = p.restart()
	wantBooked("after a restart")
	at = at.Add(2 * time.Second)
	want = map[string]int{"charges": 2, "refunds": 2, "disputes": 1, "balance_transactions": 5}
	wantBooked("later")
}

func TestTheSearchHasPages(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	want := map[string]bool{}
	for i := range 7 {
		form := intentForm("pm_ok", fmt.Sprint("pay_", i)) + "&metadata[shop]=s1"
		want[p.post("/v1/payment_intents", "", form).want(http.StatusOK).text("id")] = true
	}
	next := ""
	for range 4 {
		got := p.get("/v1/payment_intents/search?limit=2&query=metadata['shop']:'s1'" + next).want(http.StatusOK)
		for _, one := range got.object()["data"].([]any) {
			delete(want, one.(object)["id"].(string))
		}
		next = "&page=" + got.text("next_page")
		if got.at("has_more") != (len(want) > 0) {
			t.Errorf("has_more with %d left: %s", len(want), got.body)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}
