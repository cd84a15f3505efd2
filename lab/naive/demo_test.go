package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payonce/test/pgtest"
)

// What a demo shows, and a review believes. The faults are in faults_test.go.

func TestNewKeyIsChargedOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	paid := w.post(aKey, aBody).want(t, http.StatusCreated)
	p := decode[payment](t, paid.body)
	if p.Status != "succeeded" || p.Amount != "12000" || p.Metadata["order"] != "42" || p.PaymentMethod != "pm_ok" {
		t.Errorf("answered %s", paid.body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Location": "/payments/" + p.ID, "Idempotency-Key": aKey,
		"Idempotent-Replayed": "false",
	} {
		if got := paid.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if charge := w.psp.wantCharges(aKey, 1)[0]; charge.ID != p.PSPChargeID || charge.AmountCents != p.AmountCents {
		t.Errorf("the ledger has %+v, the answer %s", charge, paid.body)
	}
	if diff := cmp.Diff(p, decode[payment](t, w.get("/payments/"+p.ID).want(t, http.StatusOK).body)); diff != "" {
		t.Errorf("the payment reads differently (-answered +read):\n%s", diff)
	}
}

func TestSameKeyIsReplayed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for method, status := range map[string]int{"pm_ok": http.StatusCreated, "pm_declined": http.StatusPaymentRequired} {
		key := aKey + method
		first := w.post(key, paying(method)).want(t, status)
		replay := w.post(key, paying(method)).want(t, status)
		if diff := cmp.Diff(decode[map[string]any](t, first.body), decode[map[string]any](t, replay.body)); diff != "" {
			t.Errorf("%s: the answers differ (-first +replay):\n%s", method, diff)
		}
		if first.header.Get("Content-Type") != replay.header.Get("Content-Type") ||
			replay.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: first %v, replayed %v", method, first.header, replay.header)
		}
	}
	w.psp.wantCharges(aKey+"pm_ok", 1)
}

// The tenant is part of the key: that one they have got right.
func TestEqualKeysOfTwoTenantsAreTwoPayments(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ours := decode[payment](t, w.post(aKey, aBody).want(t, http.StatusCreated).body)
	theirs := send(t.Context(), http.MethodPost, w.base+"/payments", aBody, map[string]string{
		"Authorization": "Bearer demo-globex-key", "Content-Type": "application/json", "Idempotency-Key": aKey,
	}).want(t, http.StatusCreated)
	id := decode[payment](t, theirs.body).ID
	if id == ours.ID {
		t.Errorf("both have %s", id)
	}
	w.get("/payments/"+id).want(t, http.StatusNotFound)
	w.psp.wantCharges(aKey, 2)
}

func TestListIsNewestFirstAndPaged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var want []payment
	for _, n := range []string{"1", "2", "3"} {
		made := w.post("key-of-sixteen-"+n, strings.Replace(aBody, `"42"`, `"`+n+`"`, 1)).want(t, http.StatusCreated)
		want = append([]payment{decode[payment](t, made.body)}, want...)
	}
	first := decode[page](t, w.get("/payments?customerId=cus-1&status=succeeded&limit=2").want(t, http.StatusOK).body)
	rest := decode[page](t, w.get("/payments?limit=2&cursor="+first.NextCursor).want(t, http.StatusOK).body)
	if !first.HasMore || rest.HasMore {
		t.Errorf("more after the first page: %t, after the last: %t", first.HasMore, rest.HasMore)
	}
	if diff := cmp.Diff(want, append(first.Data, rest.Data...)); diff != "" {
		t.Errorf("the list differs (-want +got):\n%s", diff)
	}
}

func TestBadRequestsAreRefusedWithoutACharge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for name, r := range map[string]struct {
		key, body string
		status    int
	}{
		"no key":          {"", aBody, http.StatusBadRequest},
		"short key":       {"order-42", aBody, http.StatusBadRequest},
		"long key":        {strings.Repeat("k", maxKey+1), aBody, http.StatusBadRequest},
		"not JSON":        {aKey, "pay", http.StatusBadRequest},
		"trailing data":   {aKey, aBody + aBody, http.StatusBadRequest},
		"unknown member":  {aKey, strings.Replace(aBody, "metadata", "meta", 1), http.StatusBadRequest},
		"no customer":     {aKey, `{"amountCents":1,"currency":"KRW"}`, http.StatusBadRequest},
		"no amount":       {aKey, `{"customerId":"c","currency":"KRW"}`, http.StatusBadRequest},
		"fraction":        {aKey, strings.Replace(aBody, "12000", "1.5", 1), http.StatusBadRequest},
		"negative amount": {aKey, strings.Replace(aBody, "12000", "-1", 1), http.StatusBadRequest},
		"long currency":   {aKey, strings.Replace(aBody, "KRW", "WONS", 1), http.StatusBadRequest},
		"oversized body":  {aKey, aBody + strings.Repeat(" ", maxBody), http.StatusRequestEntityTooLarge},
	} {
		if a := w.post(r.key, r.body); a.status != r.status || a.header.Get("Content-Type") != problemType {
			t.Errorf("%s: %d %s (error %v)", name, a.status, a.body, a.err)
		}
	}
	stranger := map[string]string{"Authorization": "Bearer somebody", "Content-Type": "application/json",
		"Idempotency-Key": aKey}
	send(t.Context(), http.MethodPost, w.base+"/payments", aBody, stranger).want(t, http.StatusUnauthorized)
	w.psp.wantCharges(aKey, 0)
}

func TestOperatorSideTellsHealth(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/livez", "/readyz"} {
		send(t.Context(), http.MethodGet, w.operator+path, "", nil).want(t, http.StatusOK)
	}
}

// Two processes of one lab start at once, and more than once.
func TestTablesAreMadeOnceByAllWhoStart(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	failed := make(chan error, 8)
	for range cap(failed) {
		go func() {
			s, err := openStore(t.Context(), url)
			if err == nil {
				s.close()
			}
			failed <- err
		}()
	}
	for range cap(failed) {
		if err := receive(t, "a start", failed); err != nil {
			t.Error(err)
		}
	}
}

func TestPaymentInFlightOutlivesCtrlC(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.psp.holding.Store(true)
	inFlight := w.postInBackground(t.Context())
	receive(t, "the charge", w.psp.charged)
	ended := make(chan struct{})
	go func() {
		w.ended()
		close(ended)
	}()
	close(w.psp.release)
	receive(t, "the answer", inFlight).want(t, http.StatusCreated)
	receive(t, "the end", ended)
}

func TestAmountIsWrittenInTheMajorUnit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cents    int64
		currency string
		want     string
	}{{12000, "KRW", "12000"}, {12000, "USD", "120.00"}, {5, "USD", "0.05"}, {5, "KWD", "0.005"},
		{12345, "KWD", "12.345"}} {
		if got := decimal(c.cents, c.currency); got != c.want {
			t.Errorf("%d %s is %s, want %s", c.cents, c.currency, got, c.want)
		}
	}
}
