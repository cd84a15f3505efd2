package mockpsp

import (
	"net/http"
	"testing"

	"payonce/test/wait"
)

func TestTwoHundredSendersChargeOnce(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	const senders = 200
	results := make([]result, senders)
	wait.AtOnce(senders, func(i int) { results[i] = p.charge("key-1", "pm_slow") })

	first, bodies := 0, map[string]int{}
	for _, r := range results {
		switch {
		case r.err != nil:
			t.Fatal(r.err)
		case r.status == http.StatusCreated:
			bodies[r.body]++
			if r.header.Get("Idempotent-Replayed") == "" {
				first++
			}
		case r.code() != "idempotency_key_in_use":
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if first != 1 || len(bodies) != 1 || len(p.ledger("").Charges) != 1 {
		t.Errorf("%d first answers, %d different ones, %d charges", first, len(bodies), len(p.ledger("").Charges))
	}
	if calls := p.calls("key-1"); calls.Posts != senders || !calls.Exact {
		t.Errorf("%d sends were counted, want %d", calls.Posts, senders)
	}
}

func TestRepeatIsReplayedByteForByte(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	first := p.charge("key-1", "pm_ok")
	// The same request in another spelling is the same request.
	body := `{ "reference":"pay_1", "paymentMethod":"pm_ok", "currency":"\u004bRW", "amountCents":1000 }`
	again := p.send(t.Context(), http.MethodPost, "/v1/charges", body, header{"Idempotency-Key": "key-1"})
	if again.status != first.status || again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("first %d %s\nagain %d %s", first.status, first.body, again.status, again.body)
	}
}

func TestAnotherBodyUnderTheSameKeyIsAMismatch(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.charge("key-1", "pm_ok").want(t, http.StatusCreated, "")
	for _, body := range []string{
		`{"amountCents":1001,"currency":"KRW","paymentMethod":"pm_ok","reference":"pay_1"}`,
		`{"amountCents":1000,"currency":"USD","paymentMethod":"pm_ok","reference":"pay_1"}`,
		`{"amountCents":1000,"currency":"KRW","paymentMethod":"pm_slow","reference":"pay_1"}`,
		`{"amountCents":1000,"currency":"KRW","paymentMethod":"pm_ok","reference":"pay_2"}`,
	} {
		p.send(t.Context(), http.MethodPost, "/v1/charges", body, header{"Idempotency-Key": "key-1"}).
			want(t, http.StatusUnprocessableEntity, "idempotency_mismatch")
	}
	if got := len(p.ledger("").Charges); got != 1 {
		t.Errorf("%d charges", got)
	}
}

func TestAccountsShareNothing(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	acme := p.charge("key-1", "pm_ok").entry(t)
	globex := header{"PSP-Account": "globex", "Idempotency-Key": "key-1"}
	answer := p.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("pm_wrong_amount"), globex)
	answer.want(t, http.StatusCreated, "")
	if e := answer.entry(t); e.ID == acme.ID || e.Account != "globex" ||
		answer.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("globex was given %+v", e)
	}
	p.send(t.Context(), http.MethodGet, "/v1/charges/"+acme.ID, "", globex).want(t, http.StatusNotFound,
		"charge_not_found")
	p.send(t.Context(), http.MethodPost, "/v1/charges/"+acme.ID+"/refunds", `{"amountCents":1,"currency":"KRW"}`,
		globex).
		want(t, http.StatusNotFound, "charge_not_found")
	for _, query := range []string{"", "?idempotencyKey=key-1"} {
		page := p.list("/v1/charges" + query)
		if len(page.Data) != 1 || page.Data[0].ID != acme.ID {
			t.Errorf("acme lists %q: %+v", query, page.Data)
		}
	}
	if got := p.get("/_ledger?account=globex"); got.status != 200 || got.body == "" {
		t.Error("no ledger for globex")
	}
	if got := fetch[truth](p, "/_ledger?account=globex&idempotencyKey=key-1").Charges; len(got) != 1 ||
		got[0].Account != "globex" {
		t.Errorf("ledger of globex: %+v", got)
	}
}
