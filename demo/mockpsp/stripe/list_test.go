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

func TestListsAreNewestFirstAndCompleteInBothDirections(t *testing.T) {
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
	oldest := newestFirst[len(newestFirst)-1]
	newer := []string{oldest}
	for {
		answered := p.get("/v1/payment_intents?limit=3&ending_before=" + newer[0]).want(http.StatusOK)
		page := p.data("/v1/payment_intents?limit=3&ending_before=" + newer[0])
		newer = append(ids(page), newer...)
		if answered.at("has_more") != true {
			break
		}
	}
	if all := ids(p.data("/v1/payment_intents?limit=100")); !slices.Equal(newer, all) {
		t.Errorf("towards newer ones: %v, want %v", newer, all)
	}
	for _, path := range []string{"charges", "refunds", "events", "balance_transactions"} {
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
		"created[gte]=1800000001":                         {all[2], all[1]},
		"created[gt]=1800000001":                          {all[2]},
		"created[lte]=1800000001":                         {all[1], all[0]},
		"created[lt]=1800000001":                          {all[0]},
		"created[gte]=1800000000&created[lt]=1800000001":  {all[0]},
		"created=1800000002":                              {all[2]},
		"created[gt]=1800000002":                          nil,
		"created[gte]=1800000001&ending_before=" + all[0]: {all[2], all[1]},
	} {
		if got := ids(p.data("/v1/payment_intents?" + query)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, bad := range []string{
		"limit=0", "limit=101", "created[gt]=now", "starting_after=pi_unknown", "ending_before=x&starting_after=y",
		"color=red",
	} {
		got := p.get("/v1/payment_intents?" + bad)
		if got.status != http.StatusBadRequest && got.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", bad, got.status, got.body)
		}
	}
}

func TestEventsAreListedByTheirType(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.charged()
	got := p.data("/v1/events?type=charge.succeeded")
	if len(got) != 1 || at(got[0], "data.object.object") != "charge" {
		t.Errorf("got %v", got)
	}
	if got := p.data("/v1/events?types[]=charge.succeeded&types[]=payment_intent.created"); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	all := p.data("/v1/events?type=payment_intent.*")
	if len(all) != 2 || at(all[1], "data.object.status") != "requires_confirmation" { // as it was then
		t.Errorf("got %v", all)
	}
	id, _ := all[0]["id"].(string)
	p.get("/v1/events/"+id).want(http.StatusOK, "type", "payment_intent.succeeded", "account", "acct_1",
		"data.object.status", "succeeded", "api_version", apiVersion)
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
	if got := p.data(query + "%20AND%20status:'canceled'"); len(got) != 0 {
		t.Errorf("found %v", got)
	}
	const quotes = `/v1/payment_intents/search?query=metadata%5B'reference'%5D:%22a%5C%22b%5C%5Cc%22`
	p.post("/v1/payment_intents", "", intentForm("pm_ok", `a"b\c`)).want(http.StatusOK)
	at = at.Add(2 * time.Minute)
	if got := p.data(quotes); len(got) != 1 {
		t.Errorf("a value with quotes and backslashes: %v", got)
	}
	p.get("/v1/payment_intents/search?query=reference~pay").want(http.StatusBadRequest, "error.param", "query")
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
