package mockpsp

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestChargeIsAnsweredReadBackAndInTheLedger(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 9, 0, 0, 123456789, time.FixedZone("KST", 9*3600))
	p := setup(t, func(c *Config) { c.Now = func() time.Time { return now } })
	answer := p.charge("key-1", "pm_ok")
	answer.want(t, http.StatusCreated, "")
	charge := answer.entry(t)
	want := entry{
		ID: charge.ID, Object: "charge", Account: "acme", IdempotencyKey: "key-1", Reference: "pay_1",
		AmountCents: 1000,
		Currency:    "KRW", PaymentMethod: "pm_ok", Status: "succeeded", CreatedAt: "2026-11-20T00:00:00.123456Z",
	}
	if diff := cmp.Diff(want, charge); diff != "" || !strings.HasPrefix(charge.ID, "ch_") {
		t.Errorf("charge %s (-want +got):\n%s", charge.ID, diff)
	}
	if answer.header.Get("Idempotent-Replayed") != "" {
		t.Error("a first answer calls itself replayed")
	}
	if got := p.get("/v1/charges/" + charge.ID); got.status != 200 || got.body != answer.body {
		t.Errorf("read back: %d %s", got.status, got.body)
	}
	entries := p.ledger("key-1")
	if diff := cmp.Diff(truth{Charges: []ledgerView{{want, faultOK}}}, entries, cmpopts.EquateEmpty(),
		cmp.AllowUnexported(ledgerView{})); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

func TestBadChargeIsRefusedWithoutATrace(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	good := chargeBody("pm_ok")
	for name, row := range map[string]struct {
		body string
		code string
	}{
		"no JSON":        {`charge me`, "invalid_request"},
		"nothing":        {``, "invalid_request"},
		"trailing data":  {good + `{}`, "invalid_request"},
		"unknown member": {strings.Replace(good, `"currency"`, `"tip":1,"currency"`, 1), "invalid_request"},
		"other case":     {strings.Replace(good, `"currency"`, `"Currency"`, 1), "invalid_request"},
		"duplicate member": {strings.Replace(good, `"currency"`, `"amountCents":1,"currency"`, 1),
			"invalid_request"},
		"amount 0":             {strings.Replace(good, "1000", "0", 1), "invalid_request"},
		"amount negative":      {strings.Replace(good, "1000", "-1", 1), "invalid_request"},
		"amount too large":     {strings.Replace(good, "1000", "1000000000000", 1), "invalid_request"},
		"amount with fraction": {strings.Replace(good, "1000", "1000.0", 1), "invalid_request"},
		"amount with exponent": {strings.Replace(good, "1000", "1e3", 1), "invalid_request"},
		"amount as text":       {strings.Replace(good, "1000", `"1000"`, 1), "invalid_request"},
		"amount null":          {strings.Replace(good, "1000", "null", 1), "invalid_request"},
		"currency 1st lower":   {strings.Replace(good, "KRW", "kRW", 1), "invalid_request"},
		"currency 2nd lower":   {strings.Replace(good, "KRW", "KrW", 1), "invalid_request"},
		"currency 3rd lower":   {strings.Replace(good, "KRW", "KRw", 1), "invalid_request"},
		"currency too long":    {strings.Replace(good, "KRW", "KRWW", 1), "invalid_request"},
		"reference too long":   {strings.Replace(good, "pay_1", strings.Repeat("é", 256), 1), "invalid_request"},
		"invalid UTF-8":        {strings.Replace(good, "pay_1", "\xff", 1), "invalid_request"},
		"no method":            {strings.Replace(good, `"paymentMethod":"pm_ok",`, "", 1), "invalid_request"},
		"unknown method":       {chargeBody("pm_gold"), "unknown_payment_method"},
	} {
		answer := p.send(t.Context(), http.MethodPost, "/v1/charges", row.body, header{"Idempotency-Key": "key-1"})
		if answer.status != http.StatusBadRequest || answer.code() != row.code {
			t.Errorf("%s: %d %s", name, answer.status, answer.body)
		}
	}
	p.charge("key-1", "pm_ok").want(t, http.StatusCreated, "") // the key was not consumed
}

// Who reads this refusal knows that nothing was charged, and which request it is about.
func TestRefusalOfAnUnknownMethodNamesItsRequest(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	const want = `{"error":{"code":"unknown_payment_method","message":"paymentMethod is none of the test tokens, such as pm_ok; ` +
		`nothing was charged","account":"acme","idempotencyKey":"key-1","reference":"pay_1"}}`
	for range 2 {
		if got := p.charge("key-1", "pm_gold"); got.status != http.StatusBadRequest || got.body != want {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	if got := p.ledger("").Charges; len(got) != 0 {
		t.Errorf("ledger: %+v", got)
	}
}

// Under a key that was executed, "nothing was charged" would be a lie.
func TestUnknownMethodUnderAKnownKeyIsAMismatch(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.charge("key-1", "pm_ok").want(t, http.StatusCreated, "")
	p.charge("key-1", "pm_gold").want(t, http.StatusUnprocessableEntity, "idempotency_mismatch")
	p.charge("key-2", "pm_500_not_charged").want(t, http.StatusInternalServerError, "internal_error")
	p.charge("key-2", "pm_gold").want(t, http.StatusUnprocessableEntity, "idempotency_mismatch")
}

func TestBodyBeyondSixteenKibibytesIsRefused(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	padded := chargeBody("pm_ok") + strings.Repeat(" ", maxBodyBytes)
	p.send(t.Context(), http.MethodPost, "/v1/charges", padded, header{"Idempotency-Key": "key-1"}).
		want(t, http.StatusRequestEntityTooLarge, "body_too_large")
	exact := padded[:maxBodyBytes]
	p.send(t.Context(), http.MethodPost, "/v1/charges", exact, header{"Idempotency-Key": "key-1"}).
		want(t, http.StatusCreated, "")
}

func TestHeadersAreRequired(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	for name, row := range map[string]struct {
		headers header
		status  int
		code    string
	}{
		"no secret":      {header{"Authorization": ""}, 401, "unauthenticated"},
		"another secret": {header{"Authorization": "Bearer guess"}, 401, "unauthenticated"},
		"another scheme": {header{"Authorization": "Basic demo-psp-secret"}, 401, "unauthenticated"},
		"no account":     {header{"PSP-Account": ""}, 400, "invalid_request"},
		"account long":   {header{"PSP-Account": strings.Repeat("a", 65)}, 400, "invalid_request"},
		"no key":         {header{"Idempotency-Key": ""}, 400, "invalid_request"},
		"key not ASCII":  {header{"Idempotency-Key": "clé"}, 400, "invalid_request"},
		"key long":       {header{"Idempotency-Key": strings.Repeat("k", 301)}, 400, "invalid_request"},
		"media type":     {header{"Content-Type": "text/plain"}, 400, "invalid_request"},
		"no media type":  {header{"Content-Type": ""}, 400, "invalid_request"},
	} {
		headers := header{"Idempotency-Key": "key-1"}
		for name, value := range row.headers {
			headers[name] = value
		}
		answer := p.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("pm_ok"), headers)
		if answer.status != row.status || answer.code() != row.code {
			t.Errorf("%s: %d %s", name, answer.status, answer.body)
		}
	}
	p.send(t.Context(), http.MethodPost, "/v1/charges", chargeBody("pm_ok"), header{
		"Idempotency-Key": strings.Repeat("k", 300), "Content-Type": "application/json; charset=utf-8",
		"Authorization": "bearer demo-psp-secret",
	}).want(t, http.StatusCreated, "")
	if got := len(p.ledger("").Charges); got != 1 {
		t.Errorf("%d charges, want 1", got)
	}
}

func TestUnknownEndpointAndEntryAreNotFound(t *testing.T) {
	t.Parallel()
	p := setup(t, nil)
	p.get("/v1/charges/ch_none").want(t, http.StatusNotFound, "charge_not_found")
	p.get("/v1/%ff").want(t, http.StatusNotFound, "not_found")
	p.send(t.Context(), http.MethodDelete, "/v1/charges", "", nil).want(t, http.StatusNotFound, "not_found")
}

func TestConfigHasNoSilentDefaults(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Config){
		"secret": func(c *Config) { c.Secret = "" },
		"clock":  func(c *Config) { c.Now = nil },
		"random": func(c *Config) { c.Rand = nil },
		"log":    func(c *Config) { c.Log = nil },
		"delay":  func(c *Config) { c.LateDelay = -1 },
	} {
		config := DefaultConfig()
		spoil(&config)
		if psp, err := New(config); err == nil {
			t.Errorf("%s: accepted", name)
			_ = psp.Close()
		}
	}
}

func FuzzChargeBody(f *testing.F) {
	f.Add([]byte(chargeBody("pm_ok")))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := parseCharge(body)
		if err != nil {
			if _, ok := errors.AsType[apiError](err); !ok {
				t.Fatalf("not a refusal: %v", err)
			}
			return
		}
		if in.AmountCents < 1 || in.AmountCents > maxAmountCents || len(in.Currency) != 3 {
			t.Fatalf("accepted %+v", in)
		}
		if in.PaymentMethod == "" {
			t.Fatal("accepted without a method")
		}
		answer := jsonReply(http.StatusOK, &in)
		again, err := parseCharge(answer.Body)
		if err != nil || again != in {
			t.Fatalf("%q does not parse to the same: %+v %v", answer.Body, again, err)
		}
	})
}
