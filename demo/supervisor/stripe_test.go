package supervisor

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"payonce/demo/mockpsp/stripe"
	"payonce/demo/windows"
	"payonce/test/pgtest"
)

// inStripesDialect are the settings of a demo whose tenants are at Stripe.
const inStripesDialect = "PSP=stripe"

// sendOnce sends a payment once.
func sendOnce(t *testing.T, address, key, token string) answer {
	t.Helper()
	return ask(t, http.MethodPost, address, "/payments",
		`{"customerId":"cus-demo","amountCents":1200,"currency":"USD","paymentMethod":"`+token+`"}`,
		map[string]string{"Authorization": "Bearer demo-acme-key", "Content-Type": "application/json",
			"Idempotency-Key": key})
}

// A payment that was not executed is free again before its request is answered: the request itself has cancelled it. So
// nobody waits for a lookup or for the grace period, which is 25 seconds here.
func TestPaymentThatWasCancelledIsFreeWhenItIsAnswered(t *testing.T) {
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t), inStripesDialect)
	for _, token := range []string{"pm_500_not_charged", "pm_late_charge"} {
		key := "free-again-at-once-" + token
		if res := sendOnce(t, d.public, key, token); res.status != http.StatusServiceUnavailable {
			t.Fatalf("%s: %d %s", token, res.status, res.body)
		}
		row := rowOf(t, d, key)
		if !hasStatus(row, "failed_retryable") || !strings.Contains(row, "the PSP has cancelled it") ||
			strings.Contains(row, `"actor":"lookup"`) || strings.Contains(row, `"to":"unknown"`) {
			t.Errorf("%s: the payment is not free, or somebody has looked it up: %s", token, row)
		}
		if got := intents(t, d, key); !slices.Equal(got, []string{"canceled"}) {
			t.Errorf("%s: the payment is free, and its intents at the PSP are %q", token, got)
		}
	}
	if res := sendOnce(t, d.public, "free-again-at-once-pm_500_not_charged", "pm_500_not_charged"); res.status !=
		http.StatusCreated {
		t.Errorf("the same request again: %d %s", res.status, res.body)
	}
}

// intents are the statuses of the intents at the PSP that a key has made, the newest first.
func intents(t *testing.T, d demo, key string) (statuses []string) {
	t.Helper()
	res := ask(t, http.MethodGet, d.stripe, "/v1/payment_intents?limit=100", "",
		map[string]string{"Authorization": "Bearer " + stripe.DemoSecret, "Stripe-Account": d.account})
	var list struct {
		Data []struct {
			Status   string            `json:"status"`
			Metadata map[string]string `json:"metadata"`
		} `json:"data"`
		HasMore bool `json:"has_more"`
	}
	if err := json.Unmarshal([]byte(res.body), &list); err != nil || res.status != http.StatusOK || list.HasMore {
		t.Fatalf("list the intents: %d, more %t, %v", res.status, list.HasMore, err)
	}
	for _, i := range list.Data {
		if i.Metadata["idempotency_key"] == key {
			statuses = append(statuses, i.Status)
		}
	}
	return statuses
}

func TestPageAndBannerNameTheDialect(t *testing.T) {
	if testing.Short() {
		t.Skip("long: one more demo")
	}
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t), inStripesDialect)
	for _, said := range []string{
		"speaks Stripe's dialect at http://", "STRIPE_SECRET=sk_test_demo",
	} {
		if !strings.Contains(d.out.String(), said) {
			t.Errorf("the banner does not say %q:\n%s", said, d.out)
		}
	}
	page := ask(t, http.MethodGet, d.operator, "/demo/", "", nil).body
	for _, token := range stripe.Tokens() {
		if !strings.Contains(page, `<option value="`+token.Name+`">`) {
			t.Errorf("the page does not offer %s", token.Name)
		}
	}
	for _, said := range []string{"the PSP speaks the dialect of Stripe", `<option value="29"`} {
		if !strings.Contains(page, said) {
			t.Errorf("the page does not say %q", said)
		}
	}

	key := press(t, d, "send", "mode=once", "token=pm_ok")
	await(t, d, `pay \(pm_ok\)</td><td>201 succeeded<[^\n]*`+key)
	press(t, d, "send", "mode=again", "key="+key)
	await(t, d, `>The PSP has charged once, although the client sent the request 2 times: your retry did not reach the PSP`)
	awaitRow(t, d, key, patience, func(row string) bool { return strings.Contains(row, `"actor":"webhook"`) })
	press(t, d, "resend-webhook", "key="+key)
	await(t, d, `webhook for `+key+`, by hand.*pi_[^ ]*: Payonce answered 204: it has seen this webhook before`)
	deeds(t, d, key)
}

func TestDemoWithoutTheDialectOffersNothingOfIt(t *testing.T) {
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t))
	page := ask(t, http.MethodGet, d.operator, "/demo/", "", nil).body
	for _, said := range []string{"Stripe", "pm_bank_debit", `<option value="27"`} {
		if strings.Contains(page, said) || strings.Contains(d.out.String(), said) {
			t.Errorf("the page or the banner says %q", said)
		}
	}
}

// The two dialects have addresses, data and accounts of their own.
func TestSettingsOfStripesDialect(t *testing.T) {
	t.Parallel()
	s, err := load(func(name string) string { return map[string]string{"PSP": "stripe"}[name] })
	if err != nil {
		t.Fatal(err)
	}
	if s.own.DataDir != ".demo-stripe" || !s.stripe() || accountOf(tenant, s.provider()) != "acct_acme" {
		t.Errorf("settings: %+v", s.own)
	}
	addresses := []string{s.api.HTTPAddr, s.api.OperatorAddr, s.reconciler.Addr, s.own.MockPSPAddr, s.own.StripeAddr,
		s.own.NaiveAddr}
	slices.Sort(addresses)
	if len(slices.Compact(addresses)) != 6 {
		t.Errorf("an address is used twice: %q", addresses)
	}
	if _, err := load(func(name string) string { return map[string]string{"PSP": "paypal"}[name] }); err == nil {
		t.Error("PSP=paypal is taken")
	}
}

func TestMakePassesThePSPOn(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	makefile := script(t, "") + ".mk"
	if err := os.WriteFile(makefile, []byte("demo:\n\t@echo PSP is $$PSP\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", "-f", makefile, "--no-print-directory", "demo", "PSP=stripe")
	cmd.Env = append(os.Environ(), "MAKELEVEL=0", "MAKEFLAGS=", "MFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "PSP is stripe\n" {
		t.Errorf("make demo PSP=stripe: %v %s", err, out)
	}
	var help strings.Builder
	if err := run(t.Context(), []string{"--help"}, os.Getenv, &help, io.Discard); err != nil ||
		!strings.Contains(help.String(), "With PSP=stripe") {
		t.Errorf("--help: %v %s", err, &help)
	}
}

// The windows of the API. At 27 nobody executes the object, and at 28 its owner does.
func TestPaymentInTwoStepsHeldAtAWindowGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("long: every window of a payment in two steps")
	}
	t.Parallel()
	d := startDemo(t, pgtest.MigratedDir(t), inStripesDialect)
	for _, c := range []struct {
		window, action, answer string
		charged                int // while the payment is held
	}{
		{"27", "go-on", "201 succeeded<", 0}, {"28", "go-on", "201 succeeded<", 0},
		{"27", "cut", "201 succeeded<", 0}, {"28", "lose-acknowledgement", "201 succeeded<", 0},
		{"3a", "go-on", "201 succeeded<", 0}, {"3b", "go-on", "201 succeeded", 1}, {"3c", "go-on", "201 succeeded", 1},
		{"3a", "cut", "503 psp_unavailable", 0}, {"3a", "psp-500", "503 psp_unavailable", 0},
		{"3b", "cut", "201 succeeded", 1}, {"3b", "psp-500", "201 succeeded", 1},
		{"6", "go-on", "201 succeeded", 1}, {"7", "go-on", "201 succeeded", 1},
	} {
		name := c.action + " at window " + c.window
		key := stopAt(t, d, c.window)
		if n := charges(t, d, key); n != c.charged {
			t.Errorf("%s: the PSP has charged %d times when the payment is held", name, n)
		}
		press(t, d, "held", "action="+c.action, "key="+key)
		await(t, d, told(c.window, key, c.answer))
		payUntilDone(t, d, key, "pm_ok")
		if n := charges(t, d, key); n != 1 {
			t.Errorf("%s: the PSP has charged %d times", name, n)
		}
	}
	await(t, d, running("API", "0"))
}

func TestAPIKilledBetweenTheTwoStepsChargesOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for the ends of leases")
	}
	d := startDemo(t, pgtest.MigratedDir(t), inStripesDialect)
	keys := map[string]string{}
	for i, window := range []string{"27", "28", "3a"} {
		key := stopAt(t, d, window)
		press(t, d, "held", "action=kill", "key="+key)
		await(t, d, told(window, key, "connection lost"))
		await(t, d, running("API", fmt.Sprint(i+1)))
		keys[window] = key
	}
	for window, key := range keys {
		awaitRow(t, d, key, patience, func(row string) bool {
			return hasStatus(row, "failed_retryable") && strings.Contains(row, "the PSP has cancelled it")
		})
		payUntilDone(t, d, key, "pm_ok")
		if n := charges(t, d, key); n != 1 {
			t.Errorf("window %s: the PSP has charged %d times", window, n)
		}
	}
}

func TestReconcilerHeldInTwoStepsEndsWell(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits until outcomes are given up")
	}
	for _, pairs := range [][]string{
		{"29 go-on", "29 psp-500", "30 go-on"},
		{"8 go-on", "13 go-on", "15 go-on"}, // The others are as in the native dialect.
	} {
		t.Run(pairs[0], func(t *testing.T) {
			t.Parallel()
			heldAndDone(t, startDemo(t, pgtest.MigratedDir(t), append(hurried(), inStripesDialect)...), pairs...)
		})
	}
	if len(windows.Stripe().Groups()) != len(windows.Native().Groups())+1 {
		t.Error("Stripe's dialect has one more group of windows")
	}
}

func TestReconcilerKilledBeforeAReleaseReleasesAfterwards(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: it waits for elections")
	}
	d := startDemo(t, pgtest.MigratedDir(t), append(hurried(), inStripesDialect)...)
	keys := map[string]string{}
	for i, window := range []string{"29", "30"} {
		key := stopReconcilerAt(t, d, window)
		press(t, d, "held", "action=kill", "key="+key)
		await(t, d, running("reconciler", fmt.Sprint(i+1)))
		keys[window] = key
	}
	for window, key := range keys {
		endsWell(t, d, window, key)
	}
}
