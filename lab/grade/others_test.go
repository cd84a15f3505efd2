package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"payonce/demo/mockpsp"
	"payonce/lab/grade/judge"
	"payonce/lab/grade/plan"
	"payonce/lab/grade/profile"
	"payonce/lab/grade/stand"
)

// A server that does not see what others do, counts it twice, or refunds what a dispute holds.
func TestServerThatDoesNotFollowOthersIsFound(t *testing.T) {
	t.Parallel()
	back, held := []plan.Kind{plan.RefundElsewhere, plan.Shown}, []plan.Kind{plan.Dispute, plan.Shown, plan.Overdraw}
	for name, row := range map[string]struct {
		shows   string
		refunds int
		steps   []plan.Kind
		want    string // "" is no fault
	}{
		"it follows":                     {`{"back":500}`, 0, back, ""},
		"it sees nothing":                {`{}`, 0, back, "returned: 0.00 USD"},
		"it counts twice":                {`{"back":1000}`, 0, back, "returned: 10.00 USD"},
		"it follows a refund that fails": {`{}`, 0, []plan.Kind{plan.RefundElsewhere, plan.ComeBack, plan.Shown}, ""},
		"it keeps a refund that fails": {`{"back":500}`, 0,
			[]plan.Kind{plan.RefundElsewhere, plan.ComeBack, plan.Shown}, "at the PSP it is 0.00"},
		"it follows a dispute":    {`{"held":1000}`, http.StatusConflict, held, ""},
		"it refunds what is held": {`{"held":1000}`, http.StatusCreated, held, "answered 201"},
		"it shows no payment":     {``, http.StatusConflict, held, ""},
	} {
		f := followed(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				w.WriteHeader(row.refunds)
			case row.shows == "" || r.URL.Path != "/p/p1":
				w.WriteHeader(http.StatusNotFound)
			default:
				_, _ = w.Write([]byte(row.shows))
			}
		})
		for _, kind := range row.steps {
			f.others(t.Context(), 0, plan.Step{Kind: kind})
		}
		why := f.run.Unfollowed[0]
		if (why == "") != (row.want == "") || !strings.Contains(why, row.want) ||
			(f.run.NotShown != "") != (row.shows == "") {
			t.Errorf("%s: %q, %q", name, why, f.run.NotShown)
		}
	}
}

// followed is a payment of 10.00 that was charged, and a server of the test's own.
func followed(t *testing.T, server http.HandlerFunc) *performance {
	t.Helper()
	config := mockpsp.DefaultConfig()
	config.Secret = "s"
	mock, err := mockpsp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	psp, of := httptest.NewServer(mock), httptest.NewServer(server)
	t.Cleanup(func() {
		psp.Close()
		of.Close()
		if err := mock.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, psp.URL+"/v1/charges",
		strings.NewReader(`{"amountCents":1000,"currency":"USD","paymentMethod":"pm_ok","reference":"p1"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer s", "PSP-Account": "acme",
		"Idempotency-Key": "k", "Content-Type": "application/json"} {
		r.Header.Set(name, value)
	}
	answer, err := psp.Client().Do(r)
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatalf("%v, %v", answer, err)
	}
	_ = answer.Body.Close()
	read := profile.Request{Method: http.MethodGet, Path: "/p/$PAYMENT"}
	p := newPlayer(profile.Profile{Tenants: []profile.Tenant{{Name: "acme"}}, Timeout: profile.Duration(time.Second),
		EndsWithin: profile.Duration(200 * time.Millisecond),
		Others: &profile.Others{Payment: "id", Read: read, Returned: "back", Disputed: "held",
			Refund: profile.Request{Method: http.MethodPost, Path: "/r/$PAYMENT"}}})
	if p.stand, err = stand.Open(t.Context(), stand.Options{Profile: p.profile, Target: of.URL, PSP: psp.URL,
		Say: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	return &performance{player: p, done: map[int]string{}, run: judge.Run{
		Case: plan.Case{Intents: []plan.Intent{{}}}, Amounts: []int64{1000}, Unfollowed: map[int]string{},
		Answers: []judge.Answer{{Meaning: profile.Paid, Body: fmt.Appendf(nil, `{"id":%q}`, "p1")}},
	}}
}
